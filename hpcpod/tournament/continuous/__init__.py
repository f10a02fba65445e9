"""Continuous training, its pure part: what a cycle looks at, its gate, its drift."""
