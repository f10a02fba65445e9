"""The parts of arlbench_table.py: the tables, what was published, and the replay."""
