"""How each thing that is measured is started: one module for each."""
