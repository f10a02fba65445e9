"""Probes: small programs that try one thing of a machine each, and print what they found."""
