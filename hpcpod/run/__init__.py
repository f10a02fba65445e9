"""One run, for those who look at it and those who steer it, from any machine with its folder."""
