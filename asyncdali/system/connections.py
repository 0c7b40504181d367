"""The number of connections from this process to the GPU, `CUDA_DEVICE_MAX_CONNECTIONS`.

Streams share the connections. With CUDA's default of 8, the launches of a decoder wait behind the kernels of a training
step: ResNet-18 ran at 0.82 of the rate of a repeated batch, and at 0.95 with 32 connections (one H200, two turns each).
The driver reads the variable once, when it is initialised, which most programs do after their imports. So
`import asyncdali` sets the variable.
"""

from __future__ import annotations

import os

from asyncdali_workers.cuda import cuda_initialised

VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
DEFAULT, MOST = 8, 32


def request() -> None:
    """Set the variable to the largest number, unless it has a value or the driver is in use."""
    if VARIABLE not in os.environ and not cuda_initialised():
        os.environ[VARIABLE] = str(MOST)


def number() -> int:
    """How many connections this process has, or will have once the driver is initialised."""
    given = os.environ.get(VARIABLE, "")
    return int(given) if given.isdigit() else DEFAULT
