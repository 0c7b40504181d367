"""The life of worker processes: start, replacement, time limits, the end, and recovery after a dead worker.

    boot.py         The first steps of a fresh interpreter that becomes a worker, or the zygote that forks workers
    child.py        Start and end of a process of the pool
    closing.py      Ends all workers within a second, whatever they are doing
    greenlets.py    Refuses modules that gevent or eventlet have replaced
    imports.py      Imports of other threads, while this process forks
    launch.py       Starts and replaces worker processes, for each start method, and reports their ends
    losses.py       Recovers the work and the memory of a dead worker: a slice that it had taken, memory, and streams
    members.py      The parent's view of its workers
    overtime.py     Callables that take longer than `worker_timeout`
    python.py       The interpreter for fresh processes of this program, and what they get of it
    replacement.py  Starts the workers' processes, notices that one has died, and replaces it
    signals.py      Signals of the processes that are started here
    spawning.py     Workers that do not inherit this process
    watching.py     The descriptor that becomes readable when a process ends
    zygote.py       A small process that forks workers

May import the standard library, numpy and this package; never asyncdali.
"""
