"""Stock trading: market panels, features, the environment, and honest evaluation.

A room as a user's own package would be: nothing below imports it, and its parts come in as plugins.
"""
