"""One run: looked at and steered from any machine that has its folder."""
