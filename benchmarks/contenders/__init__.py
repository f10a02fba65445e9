"""Contenders of ``benchmarks/peers.py``: hpcpod and its peers, each a module and a process."""
