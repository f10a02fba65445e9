"""Parts of ``benchmarks/learning.py``: its rows, the two libraries, the statistics."""
