"""One GPU: the driver, streams, events, device memory, JPEG decoders, and arrays for users.

Only `driver.py` calls CuPy and CUDA; all other code uses addresses and handles. `commands.py` collects commands for a stream, and
`command_kernels.py` executes them without the interpreter lock::

    copies, launches, waits --> commands.py --> command_kernels.py --> functions of CUDA (driver.py) --> the stream
                                integers        compiled code

    arrays.py          The device arrays behind a GPU's tensor lists, and their access to device memory
    code_cache.py      Machine code of CUDA kernels on disk
    command_tables.py  Commands for CUDA's driver: one table per kind
    compiler.py        CUDA sources to machine code, by NVRTC
    device.py          The CUDA device: streams, events, memory, launches
    fed_arrays.py      The user's device memory as batches of a pipeline
    fusion.py          Launches that are left out, because their reader computes the pixels
    gates.py           Single waits for the GPU's work on an iteration and for something else
    gather.py, gather_tables.py
                       Gathers windows from any places in device memory
    idle.py            Keeps streams of closed pipelines for later pipelines
    memory.py          Device memory for batches, kept for reuse, and pinned host memory
    nvjpeg.py, nvjpeg_tables.py
                       JPEG decoders of a GPU through nvJPEG's batched interface: its JPEG engines and its multiprocessors
    nvjpeg_library.py  nvJPEG through ctypes
    timing.py          Measures the working time of a stream, by the device itself and in some iterations
    upload_kernels.py  Writes the upload of an iteration (arrays, then the tables of launches) into pinned memory
    user_arrays.py     Device memory as the arrays that users' functions take and return

May import: the imports of `asyncdali.device`, and `asyncdali.device`.
"""
