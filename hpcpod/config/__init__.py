"""What a run is: the schema, its search spaces, and the strict loader."""
