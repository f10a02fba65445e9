"""The orchestrator: observe the run and the scheduler, plan, act; nothing is kept in memory.

Its state is the run folder, so it may be killed at any time, two may run at once, and
``hpcpod tick`` by hand does what the coordinator job does.
"""
