"""`python -m flatout`: the command, where its script is not on the path."""

import os
import sys

# With -m, Python looks in the current folder first: a `random.py` beside the user's script would be taken for Python's.
if sys.path and sys.path[0] == os.getcwd():
    del sys.path[0]

from flatout.cli.main import main

main()
