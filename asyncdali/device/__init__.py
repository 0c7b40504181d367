"""Devices: threads, memory and streams for operators.

    base.py       the device interface that the executor uses
    host.py       the host device: GPU semantics in plain memory
    cuda/         one GPU
    threads.py    worker threads, and threads that run calls in order
    buffers.py    pooled host memory
    launch.py     how an operator describes kernel launches (`kernel.cuh`, `lines.cuh` and `few_bytes.cuh`: code that kernels share)
    select.py     the device that a `device_id` means on this machine

    allocator.py  Returns the C allocator's free pages to the system
    joint.py      Jobs of several crews that are reported together

May import: batches, compiled code, types, errors and the workers' package; never operators, the graph or the runtime.
"""
