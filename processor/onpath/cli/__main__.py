"""`python -m onpath.cli` is the command `onpath`."""

from onpath.cli import main

main(prog_name="onpath")
