"""Programs: training scripts of any framework as pods."""
