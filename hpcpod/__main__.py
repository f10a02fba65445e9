"""The command line as a module: ``python -m hpcpod`` is ``hpcpod``."""

import sys

from hpcpod.cli.parser import main

sys.exit(main())
