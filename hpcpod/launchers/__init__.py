"""How slots come to be processes: on this machine, or on Slurm."""
