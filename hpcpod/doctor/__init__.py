"""The doctor: probes of this cluster, and the consequences of each for a run."""
