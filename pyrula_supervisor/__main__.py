"""`python -m pyrula_supervisor`: the command where no script is on the path, and in units."""

from pyrula_supervisor.cli import main

main()
