"""What each verb of the command line does. Torch is loaded by none that only looks."""
