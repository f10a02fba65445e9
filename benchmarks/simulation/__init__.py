"""A synthetic Slurm cluster and the real plan on it: what ``simulate.py`` runs."""
