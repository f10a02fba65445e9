"""Policies of any runs, scored on common seeds, here or by Slurm's jobs."""
