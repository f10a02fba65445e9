"""What ``benchmarks/peers.py`` lets run: hpcpod and its peers, each a module and a process."""
