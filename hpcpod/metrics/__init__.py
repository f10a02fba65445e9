"""Loggers: mirrors of the curves in tools that draw them, and of a user's own making."""
