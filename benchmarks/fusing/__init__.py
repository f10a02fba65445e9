"""Parts of ``benchmarks/fusion.py``: exchanges between ranks, and learning by several."""
