"""Several processes that train one pod: who they are, how they meet, what they exchange."""
