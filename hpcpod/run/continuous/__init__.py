"""Continuous training: a registry of policies, and cycles that train and judge the next one."""
