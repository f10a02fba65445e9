"""Sweeps: many runs of one configuration, planned, launched and compared together."""
