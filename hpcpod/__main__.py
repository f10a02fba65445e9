"""``python -m hpcpod`` is ``hpcpod``."""

import sys

from hpcpod.cli import main

sys.exit(main())
