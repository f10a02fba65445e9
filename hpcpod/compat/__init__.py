"""Stand-ins for other libraries' interfaces: a script written for one is a program of a run."""
