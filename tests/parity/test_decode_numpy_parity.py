"""decoders.numpy beside DALI's. DALI's CPU operator refuses Fortran order and later versions of the format, so no file has them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers.operators import run_operator
from helpers.parity import dali_output, same

from asyncdali import types
from asyncdali.errors import SampleError

pytest.importorskip("nvidia.dali")
KINDS = ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def npy(array):
    memory = io.BytesIO()
    np.lib.format.write_array(memory, np.asarray(array))
    return np.frombuffer(memory.getvalue(), np.uint8)


def compare(files, **constants):
    same(dali_output("decoders.numpy", files, **constants), run_operator("decoders.numpy", files, **constants))


def numbers(kind, shape=(3, 5)):
    return (np.random.default_rng(2).random(shape) * 200 - (100 if kind[0] in "if" else 0)).astype(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_types(kind):
    compare([npy(numbers(kind)), npy(numbers(kind, (1, 700)))])


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 0, 3), (1, 2, 3, 4, 5)])
def test_shapes(shape):
    compare([npy(np.ones(shape, np.float32)) for _ in range(2)])


@pytest.mark.parametrize("dtype", ["UINT8", "INT16", "FLOAT", "FLOAT16", "INT64", "BOOL"])
def test_conversion(dtype):
    for kind in ("f4", "i8", "u1", "f2", "b1"):
        compare([npy(numbers(kind))], dtype=getattr(types, dtype))
    compare([npy(numbers("f8")), npy(numbers("i2"))], dtype=getattr(types, dtype))


def test_refused():
    good = npy(np.zeros((3, 4)))
    for files in ([good[:100]], [good[:-5]], [np.append(good, good[:7])], [np.zeros(3, np.uint8)], [npy(np.zeros(3, ">f8"))],
                  [npy(np.zeros(3, "c8"))], [good, npy(np.zeros((3, 4), np.float32))], [good, npy(np.zeros(3))]):  # fmt: skip
        with pytest.raises(RuntimeError):
            dali_output("decoders.numpy", files)
        with pytest.raises(SampleError):
            run_operator("decoders.numpy", files)
