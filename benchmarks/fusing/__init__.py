"""What ``benchmarks/fusion.py`` measures: exchanges between ranks, and what they learn."""
