"""Runs of ``benchmarks/paper.py``: each library's process, and what it keeps of its policy."""
