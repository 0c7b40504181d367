"""What `external_source` asks for data: Python callables, iterables and coroutines, here or in worker processes.

    group.py, operator.py     a source as declared, and its outputs in the graph
    kinds.py, pullers.py, iterating.py, awaited.py, parallel.py    how each kind is asked
    sources.py, ports.py, ahead.py    all sources of a pipeline; fed inputs; asking ahead
    state.py, snapshots.py    positions of sources, for checkpoints
    device_data.py            data that lies on a GPU

May import: the workers' package, operators' base, batches, tensors, types and errors.
"""
