"""Runs that block or kill their worker among runs that do not, and who is blamed: `make demo`."""
