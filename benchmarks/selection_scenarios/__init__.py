"""Scenarios of ``benchmarks/selection.py``: populations made up, played by the real rules."""
