"""What ``benchmarks/learning.py`` trains: its rows, the two libraries, the statistics."""
