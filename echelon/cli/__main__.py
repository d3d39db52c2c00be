"""`python -m echelon.cli`: the same as the command `echelon`."""

from echelon.cli.main import main

main()
