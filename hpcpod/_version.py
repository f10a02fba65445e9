"""The version and the folder of the package."""

from pathlib import Path

__version__ = "0.2.0"

PACKAGE = Path(__file__).parent
"""The folder in which hpcpod is installed."""
