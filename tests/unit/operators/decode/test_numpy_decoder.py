"""decoders.numpy: files that NumPy wrote into memory; element types, memory orders, and damaged files."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from helpers.operators import run_operator
from helpers.pipelines import pipeline_of

from asyncdali import fn, types
from asyncdali.errors import SampleError

KINDS = ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def npy(array, version=None):
    memory = io.BytesIO()
    np.lib.format.write_array(memory, np.asarray(array), version)
    return memory.getvalue()


def headed(text, data=b"", version=1):
    """A file with this header."""
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def equal(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_types_and_orders(kind):
    rng = np.random.default_rng(3)
    items = [(rng.integers(0, 2 if kind == "b1" else 100, shape)).astype(kind) for shape in ((3, 4, 5), (1, 1, 1), (70, 2, 3), (2, 0, 3))]
    items += [np.asfortranarray(items[0]), np.asfortranarray(items[2]), items[0].T]
    equal(run_operator("decoders.numpy", [npy(item) for item in items]), items)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2,) * 9, (1, 0, 3), (1,) * 32])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_shapes_and_versions(shape, version):
    item = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    equal(run_operator("decoders.numpy", [npy(item, version), npy(item + 1, version)]), [item, item + 1])


def test_conversion():
    """Elements are converted as by `cast`: halves are rounded away from zero, and results saturate. The files of a batch differ in type."""
    numbers = np.array([[1.5, -2.5, 300.0], [0.4, -7.0, 127.5]])
    items = [numbers, np.asfortranarray(numbers.astype(np.float32)), np.array([[1, -300], [2, 5]], np.int64), np.ones((1, 2), np.int8)]
    found = run_operator("decoders.numpy", [npy(item) for item in items], dtype=types.INT8)
    wanted = np.array([[2, -3, 127], [0, -7, 127]], np.int8)
    equal(found, [wanted, wanted, np.array([[1, -128], [2, 5]], np.int8), items[3]])
    equal(run_operator("decoders.numpy", [npy(np.int8(3)), npy(np.float64(2.5))], dtype=types.INT8), [np.int8(3), np.int8(3)])
    equal(run_operator("decoders.numpy", [npy(np.float64(2.5)), npy(np.int8(3))], dtype=types.INT8), [np.int8(3), np.int8(3)])


def test_in_a_pipeline_from_files(tmp_path):
    items = [
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.asfortranarray(np.arange(8, dtype=np.int32).reshape(4, 2)),
        np.ones((1, 1), np.int32),
    ]
    for k, item in enumerate(items):
        np.save(tmp_path / f"{k}.npy", item)
    with pipeline_of(lambda: fn.decoders.numpy(fn.readers.file(files=[str(tmp_path / f"{k}.npy") for k in range(3)])[0])) as pipeline:
        (found,) = pipeline.run()
        equal([np.asarray(sample) for sample in found], items)
        assert found[1].source_info() == str(tmp_path / "1.npy")


GOOD = npy(np.zeros((3, 4)))
DAMAGED = [
    (b"", "empty"), (b"\x93NUM", "not a NumPy file"), (b"RIFF" + GOOD[4:], "not a NumPy file"),
    (GOOD[:6] + b"\x04" + GOOD[7:], "known version"),
    (GOOD[:100], "header"), (GOOD[:-5], "96 bytes of data, the file has 91"), (GOOD + b"1234567", "96 bytes of data, the file has 103"),
    (headed(b"{'descr': '<f8', 'shape': (3, 4)}"), "Error extracting header"),
    (headed(b"{'descr': '<f8', 'fortran_order': Maybe, 'shape': (3, 4)}"), "Error extracting header"),
    (headed(b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,)}"), "structures"),
    (headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (288230376151711743, 288230376151711743)}"), "header declares"),
    (headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 288230376151711743)}"), "header declares"),
    (npy(np.zeros((3, 4), ">f8")), "Big Endian"), (npy(np.zeros((3, 4), "c8")), "Unknown Numpy type string: c8"),
    (npy(np.full((3, 4), "ab")), "Unknown Numpy type string"),
]  # fmt: skip


@pytest.mark.parametrize("data, message", DAMAGED)
def test_damage_names_its_sample(data, message):
    with pytest.raises(SampleError, match=message) as caught:
        run_operator("decoders.numpy", [GOOD, data])
    assert caught.value.sample == 1


def test_other_encoded_bytes():
    """Bytes that a program keeps as INT8 or in rows."""
    flat = np.frombuffer(GOOD, np.uint8)
    for data in (flat.view(np.int8), flat.reshape(2, -1), flat.reshape(1, 1, -1)):
        equal(run_operator("decoders.numpy", [data, data]), [np.load(io.BytesIO(GOOD))] * 2)


def test_types_that_change_between_iterations():
    arrays = [np.arange(3, dtype=np.int32), np.arange(3, dtype=np.uint8), np.ones((2, 3), np.float32)]

    def output(**options):
        files = iter([[np.frombuffer(npy(array), np.uint8)] for array in arrays])
        pipe = pipeline_of(lambda: fn.decoders.numpy(fn.external_source(lambda: next(files)), **options), batch_size=1)
        return [np.asarray(pipe.run()[0][0]) for _ in arrays]

    equal(output(), arrays)
    equal(output(dtype=types.INT16), [array.astype(np.int16) for array in arrays])


def test_compressed_arrays_are_named():
    out = io.BytesIO()
    np.savez(out, np.zeros(3))
    with pytest.raises(SampleError, match=r"not a NumPy file of a known version; the file is a zip archive \(.npz, for example\): unpack"):
        run_operator("decoders.numpy", [np.frombuffer(out.getvalue(), np.uint8)])


def test_every_truncation_is_an_error():
    for length in range(len(GOOD)):
        with pytest.raises(SampleError):
            run_operator("decoders.numpy", [GOOD[:length]])


def test_batches_that_do_not_fit():
    with pytest.raises(SampleError, match="same type unless `dtype`"):
        run_operator("decoders.numpy", [npy(np.zeros(3)), npy(np.zeros(3, np.float32))])
    with pytest.raises(SampleError, match="2 dimensions, sample 0 has 1"):
        run_operator("decoders.numpy", [npy(np.zeros(3)), npy(np.zeros((3, 1)))])
    for data in (np.zeros(90, np.uint16), np.zeros(90, bool)):
        with pytest.raises(ValueError, match=r"Unsupported input type .*NumPy files.*supported types are: UINT8, INT8"):
            run_operator("decoders.numpy", [data])
    with pytest.raises(ValueError, match="Unsupported output type: STRING"):
        run_operator("decoders.numpy", [GOOD], dtype=types.STRING)
