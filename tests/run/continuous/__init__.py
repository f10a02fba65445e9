"""Tests of continuous training."""
