"""Recorded runs, of which forecasts are compared with what happened."""
