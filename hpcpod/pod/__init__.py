"""One agent in training: worker, learner, evaluator, and the round that joins them."""
