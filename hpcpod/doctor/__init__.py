"""What this cluster really does: probes, and what follows from each for a run."""
