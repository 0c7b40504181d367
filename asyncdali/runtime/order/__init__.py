"""The order of iterations: which may start, on which threads, and how callers get them.

    producer.py, claims.py   iterations as `run()` queues and takes them; the prefetch depth
    delivery.py              iterations as the consumer gets them, and its position
    admission.py, record.py  iterations that are queued and in flight, in order; one of them, its error, and how callers wait for it
    scheduler.py             which segment of which iteration may start
    lanes.py                 iterations that are planned beside each other
    executor.py              the steps of an iteration: admitted, segments started and ended, failed, finished
    placement.py             on which threads this is decided, planned and awaited, and what a GPU changes
    stages.py, loop.py       the threads and streams
    moments.py               the moment of an iteration, which its outputs keep
    turns.py                 the queue of coroutines that wait for iterations

May import: what the room may import; ``work`` and ``counting``.
"""
