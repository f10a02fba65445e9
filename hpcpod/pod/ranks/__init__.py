"""Ranks: several processes that train one pod, their meeting and their exchanges."""
