"""Generators: which pod gives way, and what takes its place."""
