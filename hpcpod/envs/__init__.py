"""Batched environments behind one protocol."""
