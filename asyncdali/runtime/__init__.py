"""Running a built graph.

    session.py, producer.py, claims.py    iterations as `run()` queues and takes them
    executor.py, loop.py, turns.py        the scheduler: which segment of which iteration may start
    segments.py, device_segments.py       one segment of one iteration: prepare, plan, place, compute
    replays.py, repeats.py                plans, and whole segments, that are copied while shapes stay equal
    watched.py                            what a plan reads; plans that read more than the key covers are not copied
    device_repeats.py                     launches of a GPU's segments that are copied while shapes stay equal
    jobs.py                               work for threads
    branches.py                           partial batches of conditionals
    output_copies.py                      copies of outputs that lie in the user's memory
    immediate.py                          operators one by one, for debug mode
    counters.py, statistics.py, memory_statistics.py counters, and the reports made of them

May import: the graph's plan, operators' base, sources, devices, tensors, batches, checkpoints; never the pipeline.
"""
