"""One GPU: the driver, streams, events, device memory, JPEG decoders, and arrays that users see.

`driver.py` holds the calls that CuPy makes; everything above it deals in addresses and handles. `commands.py` collects what a stream is
told, and `command_kernels.py` tells it without the interpreter lock.

May import: what `asyncdali.device` may, and that room.
"""
