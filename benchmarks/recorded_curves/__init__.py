"""Learning curves that were recorded once, and runs that are replayed on them."""
