"""Where operators run: threads, memory and streams.

    base.py       what the executor uses of any device
    host.py       the host device: a GPU played in plain memory
    cuda/         one GPU
    threads.py    worker threads and threads that keep an order
    buffers.py    pooled host memory
    launch.py     how an operator says which kernels to launch (`kernel.cuh` is what kernels share)
    select.py     which device a `device_id` means on this machine

May import: batches, compiled code, types, errors and the workers' package; never operators, the graph or the runtime.
"""
