"""The configuration of a run: its schema, its search spaces, and the strict loader."""
