"""Who survives and what is born next: pure functions, no torch."""
