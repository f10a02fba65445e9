"""Messages between a slot and its training processes, a line of JSON each."""
