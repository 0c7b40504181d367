"""Data for `external_source`: Python callables, iterables and coroutines, in this process or in worker processes.

    group.py, operator.py     a source as declared, and its outputs in the graph
    kinds.py, pullers.py, iterating.py, awaited.py, parallel.py    how each kind of source is asked
    samples.py                samples that a source could not give
    sources.py, ports.py, prefetch.py    all sources of a pipeline; fed inputs; requests ahead of need
    state.py, snapshots.py    positions of sources, for checkpoints
    device_data.py            data in the memory of a GPU

The path of a batch::

    producer --> sources.py --+--> pullers.py, iterating.py --> a callable or iterable, in this process
                              +--> awaited.py ----------------> a coroutine, on the loop of the sources
                              +--> parallel.py ---------------> asyncdali_workers
                              +--> ports.py ------------------> data that the program feeds
                                       |
                                       v
                                   a checked batch in the iteration's record --> external_source.py in the graph

    external_source.py  external_source as an operator of the graph: it passes on the batch that was fed to its iteration
    fed_videos.py       Videos that are fed to a pipeline, and the parts of them that iterations decode
    video_input.py      experimental.inputs.video: sequences of frames of videos that the program feeds

May import: the workers' package, operators' base, batches, tensors, types and errors.
"""
