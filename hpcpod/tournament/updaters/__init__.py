"""Updaters: which evaluations stay on the leaderboard, and which pods are beaten."""

# Runs of before may name this path, and benchmarks play its rules beside these.
from hpcpod.tournament.judgement import Updater as Updater
from hpcpod.tournament.judgement import rivals as rivals
from hpcpod.tournament.updaters.paired_gate import PairedGate as PairedGate
