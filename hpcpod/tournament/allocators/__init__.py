"""Allocators: who trains the next round, who rests, who is given up."""
