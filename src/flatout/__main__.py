"""`python -m flatout`: the command, where its script is not on the path."""

from flatout.cli.main import main

main()
