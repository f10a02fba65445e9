"""The screen of ``hpcpod watch``: panes of a run in a terminal, for hours."""
