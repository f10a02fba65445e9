"""The patience of tests with the machine that they share."""

PATIENCE = 4.0
"""Factor of the seconds that a test waits for something. What takes 40 s on two cores of one's own
took 180 s where five processes of pytest shared slower ones."""
