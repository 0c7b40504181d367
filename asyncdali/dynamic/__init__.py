"""Dynamic mode: operators that run when they are called.

    import asyncdali.dynamic as ndd
    picture = ndd.imread("cat.jpg")
    small = ndd.resize(picture, size=[224, 224])
    print(small.shape, ndd.reductions.mean(small))

Tensors and Batches are the values, operators are functions, readers are classes that are iterated, and random state is an object. Names,
arguments and results are those of DALI's ``experimental.dynamic``; docs/pipelines_or_dynamic.md lists the differences. Names are imported
at their first use.

    capture.py  ``invariant``, for programs for DALI; captured loops are in ``imperative/captures.py``
    pytorch/    Nodes for torchdata

May import `imperative`.
"""

import sys as _sys

from ..imperative.surface import install as _install
from . import capture as capture
from . import pytorch as pytorch

_install(_sys.modules[__name__], {"capture": capture, "pytorch": pytorch})
