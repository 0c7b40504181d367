"""Running a built graph.

    session.py, producer.py, claims.py    iterations as `run()` queues and takes them
    executor.py, scheduler.py, record.py  which segment of which iteration may start, and what happens to it
    placement.py, admission.py            on which threads this is decided, planned and awaited
    stages.py, loop.py, turns.py          the threads and streams
    segments.py, device_segments.py       one segment of one iteration: prepare, plan, place, compute
    templates/                            plans, whole segments, and uploads of a GPU that are copied while shapes stay equal
    jobs.py                               work for threads
    branches.py                           partial batches of conditionals
    output_copies.py                      copies of outputs that lie in the user's memory
    immediate.py                          operators one by one, for debug mode
    counters.py, statistics.py, memory_statistics.py counters, and the reports made of them

    built.py             Operators of a built pipeline, as jobs and templates know them
    blueprint.py         The input of a session's construction
    compiling.py         The kernels that a pipeline needs are compiled in ``build()``, by all usable processors, before the first batch
    device_decoding.py   A batch that the GPU's decoders and the CPU's threads decode together
    engine_protocol.py   The interface between a session and engines, which are processes that make a part of each iteration
                         (docs/engines.md)
    hints.py             Buffers that `build()` allocates because of hints
    making.py            Makes operators from a plan, for a session's ``build()`` and for an engine
    pace.py              Segments that take less time than waking a thread for them
    parts.py             Parts of an iteration: the samples that one of several consumers gets
    segment_counters.py  Counters of segments and their operators; see :mod:`.counters`

May import: the graph's plan, operators' base, sources, devices, tensors, batches, checkpoints; never the pipeline.
"""
