"""Slurm: jobs as text, their submission, and readers of squeue, sinfo, scontrol and sacct."""
