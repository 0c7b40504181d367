"""Running a built graph.

    session.py           makes and closes everything that exists between ``build()`` and ``close()``
    saving.py            checkpoints: the state at a position of the consumer, written and restored
    blueprint.py         the input of a session's construction
    compiling.py         the kernels that a pipeline needs are compiled in ``build()``, by all usable processors, before the first batch
    hints.py             buffers that `build()` allocates because of hints
    parts.py             parts of an iteration: the samples that one of several consumers gets
    engine_protocol.py   the interface between a session and engines (docs/engines.md)

    order/               which iteration and segment may start, on which threads, and how callers get iterations
    work/                one segment of one iteration: prepare, plan, place, compute
    templates/           plans, whole segments, and uploads of a GPU that are copied while shapes stay equal
    gpu/                 segments on a GPU
    counting/            counters, and the reports made of them
    repairs/             iterations that failed for a sample are made again

The path of an iteration::

    run() -----------> order/producer.py    asks the sources, queues a record
                           |
                           v
                       order/executor.py    order/scheduler.py: which segment may start
                           |                order/placement.py: on which thread
                           v
                       work/segments.py     prepare, plan (or a copy: templates/), place, compute;
                           |                on a GPU gpu/device_segments.py
                           v
    TensorLists <----- order/delivery.py    the oldest record: outputs, positions, error
                           ^
                           |
                       repairs/             makes an iteration with a bad sample again

May import: the graph's plan, operators' base, sources, devices, tensors, batches, checkpoints; never the pipeline.
"""
