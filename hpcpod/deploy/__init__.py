"""Policies in use: exported, joined, and played where hpcpod is not installed."""
