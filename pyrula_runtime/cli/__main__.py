"""`python -m pyrula_runtime.cli`: the command where no script is on the path."""

from pyrula_runtime.cli import main

main()
