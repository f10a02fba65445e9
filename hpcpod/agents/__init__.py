"""The agents: one algorithm, one file."""
