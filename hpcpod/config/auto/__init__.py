"""Automatic choice of a configuration: from a task and its speed to all that a user left open."""
