"""Arms of ``benchmarks/tournament.py``: optimisers around one and the same agent."""
