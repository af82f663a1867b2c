"""Where runs are kept: one contract (`protocol`), one door (`opening`), and a package for each store."""
