"""Tests of loggers."""
