"""The population that both ways train."""

PODS = 4
ROUND = 2048
"""Environment steps of a round."""
HIDDEN = 284
"""Units of two layers: a checkpoint of PPO has 2 MB."""
EPISODES = 2
