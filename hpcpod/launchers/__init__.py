"""Launchers: they start slots as processes, on this machine or on Slurm."""
