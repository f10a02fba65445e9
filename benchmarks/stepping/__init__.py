"""Ways to step a task, for ``benchmarks/envs.py``."""
