"""Dynamic mode: operators that run when they are called.

    import asyncdali.dynamic as ndd
    picture = ndd.imread("cat.jpg")
    small = ndd.resize(picture, size=[224, 224])
    print(small.shape, ndd.reductions.mean(small))

Tensors and Batches are the values, operators are functions, readers are classes that are iterated, and random state is an object. Names,
arguments and results are those of DALI's ``experimental.dynamic``; docs/pipelines_or_dynamic.md says what is better.

    capture.py     Captured loops, which compute one step ahead
    checkpoint.py  Checkpoints: the states of readers and random generators
    math.py        Mathematical functions on Tensors, Batches and numbers
    pytorch/       Nodes for torchdata
    random.py      Random numbers: the generator, and operators that draw from it

May import `imperative` and the list of operators.
"""

import sys as _sys

from ..imperative import dtypes as _dtypes
from ..imperative.contexts import EvalContext as EvalContext
from ..imperative.contexts import ThreadPool as ThreadPool
from ..imperative.contexts import get_num_threads as get_num_threads
from ..imperative.contexts import set_num_threads as set_num_threads
from ..imperative.decoding import populate_decoding as _populate_decoding
from ..imperative.devices import Device as Device
from ..imperative.devices import DeviceLike as DeviceLike
from ..imperative.devices import device as device
from ..imperative.dtypes import DataType as DataType
from ..imperative.dtypes import DType as DType
from ..imperative.dtypes import ImageType as ImageType
from ..imperative.dtypes import InterpType as InterpType
from ..imperative.dtypes import bfloat16 as bfloat16
from ..imperative.dtypes import dtype as dtype
from ..imperative.dtypes import float16 as float16
from ..imperative.dtypes import float32 as float32
from ..imperative.dtypes import float64 as float64
from ..imperative.dtypes import int8 as int8
from ..imperative.dtypes import int16 as int16
from ..imperative.dtypes import int32 as int32
from ..imperative.dtypes import int64 as int64
from ..imperative.dtypes import type_id as type_id
from ..imperative.dtypes import uint8 as uint8
from ..imperative.dtypes import uint16 as uint16
from ..imperative.dtypes import uint32 as uint32
from ..imperative.dtypes import uint64 as uint64
from ..imperative.functions import populate as _populate
from ..imperative.modes import EvalMode as EvalMode
from ..imperative.readers import populate_readers as _populate_readers
from ..imperative.sources import ExternalSource as ExternalSource
from ..imperative.streams import Stream as Stream
from ..imperative.streams import get_current_stream as get_current_stream
from ..imperative.streams import get_default_stream as get_default_stream
from ..imperative.streams import set_current_stream as set_current_stream
from ..imperative.streams import set_default_stream as set_default_stream
from ..imperative.streams import stream as stream
from ..imperative.values import Batch as Batch
from ..imperative.values import Tensor as Tensor
from ..imperative.values import as_batch as as_batch
from ..imperative.values import as_tensor as as_tensor
from ..imperative.values import batch as batch
from ..imperative.values import tensor as tensor
from ..operators import load_registry as _load_registry
from . import capture as capture
from . import checkpoint as checkpoint
from . import math as math
from . import pytorch as pytorch
from . import random as random

bool = _dtypes.bool_

_schemas = [operator.schema for operator in _load_registry().values()]
_populate(_sys.modules[__name__], _schemas)
_populate_readers(_sys.modules[__name__], _schemas)
_populate_decoding(_sys.modules[__name__])
