"""The pipeline: the next rollout is collected by a process of its own while one is learned from."""
