"""A slot is one array element: it claims orders and executes them until its time is up.

It is a small supervisor without torch. Training runs in a child process that it feeds with
orders, and scoring in a second one beside it where the slot has cores for that, so that an
out-of-memory kill or a segfault ends a round and not the slot.

Exit codes: 0 there is nothing more to do, 1 nothing can be done here, 75 requeue me.
"""
