"""The process and the system: what any room may use.

    files.py         replaces files atomically
    processes.py     other Python processes that run code of this package, and the processors of this process
    connections.py   the number of connections from this process to the GPU
    descriptors.py   checks for free file descriptors
    deadlocks.py     detects that a call of a pipeline waits for a function that waits for the call
    entered.py       contexts that a thread has entered, such as modes
    forks.py         the id of this process, for objects that a forked child must leave alone
    first_use.py     names of a package that are imported at their first use

May import: workers.
"""
