"""Where runs are kept: one protocol, and one subpackage for each kind of store that fulfils it."""
