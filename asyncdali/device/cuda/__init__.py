"""One GPU: the driver, streams, events, device memory, JPEG decoders, and arrays for users.

Only `driver.py` calls CuPy and CUDA; all other code uses addresses and handles. `commands.py` collects commands for a stream, and
`command_kernels.py` executes them without the interpreter lock.

May import: the imports of `asyncdali.device`, and `asyncdali.device`.
"""
