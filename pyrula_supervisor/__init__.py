"""The parent process of Pyrula workers: a package of its own, so that no worker can import what watches it."""
