"""Batched environments whose parts are stepped by several processes."""
