"""decoders.inflate: blocks that ``helpers.lz4`` writes, chunks, and damaged data."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers.lz4 import compress
from helpers.operators import run, run_all
from helpers.pipelines import pipeline_of

from asyncdali import fn, types
from asyncdali.errors import SampleError

# Written by hand from the specification of the format: literals "ab", a match of 9 bytes at distance 2, literals "xyz01".
BY_HAND = bytes([0x25]) + b"ab" + b"\x02\0" + bytes([0x50]) + b"xyz01"


def block(array):
    return np.frombuffer(compress(np.ascontiguousarray(array).tobytes()), np.uint8)


def arrays(rng, dtype, *shapes):
    """Compressible data: few values, long runs, repeated parts."""
    made = []
    for shape in shapes:
        count = int(np.prod(shape))
        runs = (
            np.repeat(rng.integers(0, 9, count), rng.integers(1, 400, count))[:count] if rng.random() < 0.5 else rng.integers(0, 3, count)
        )
        made.append(runs.astype(dtype).reshape(shape))
    return made


def test_a_block_written_by_hand():
    (found,) = run("decoders.inflate", [np.frombuffer(BY_HAND, np.uint8)], shape=[16])
    assert found.tobytes() == b"ab" * 5 + b"axyz01"


@pytest.mark.parametrize("dtype", [types.UINT8, types.INT16, types.FLOAT, types.INT64])
def test_arrays(dtype):
    rng = np.random.default_rng(int(dtype))
    kind = {types.UINT8: "u1", types.INT16: "i2", types.FLOAT: "f4", types.INT64: "i8"}[dtype]
    data = arrays(rng, kind, (30, 20, 3), (1, 1, 1), (70, 9, 2), (200, 300, 1))
    shapes = np.array([one.shape for one in data], np.int32)
    outputs = run_all("decoders.inflate", [block(one) for one in data], "", {"shape": shapes}, dtype=dtype, check_output_size=True)[0]
    for expected, found in zip(data, outputs, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_chunks():
    rng = np.random.default_rng(4)
    frames = arrays(rng, "u1", *[(12, 10)] * 5)
    blocks = [block(frame) for frame in frames]
    sizes = np.array([len(one) for one in blocks], np.int32)
    offsets = np.cumsum(sizes, dtype=np.int32) - sizes
    data, expected = np.concatenate(blocks), np.stack(frames)
    for given in ({"chunk_sizes": sizes}, {"chunk_offsets": offsets}, {"chunk_offsets": offsets, "chunk_sizes": sizes}):
        per_sample = {name: values[None] for name, values in given.items()}
        (found,) = run("decoders.inflate", [data], "", per_sample, shape=[12, 10])
        np.testing.assert_array_equal(found, expected)
        (found,) = run("decoders.inflate", [data], shape=[12, 10], **{name: values.tolist() for name, values in given.items()})
        np.testing.assert_array_equal(found, expected)
    order = [3, 0, 3]
    (found,) = run("decoders.inflate", [data], shape=[12, 10], chunk_offsets=offsets[order].tolist(), chunk_sizes=sizes[order].tolist())
    np.testing.assert_array_equal(found, expected[order])


def test_numbers_of_chunks_differ_and_layouts():
    rng = np.random.default_rng(5)
    videos = [arrays(rng, "u1", *[(6, 5, 3)] * count) for count in (2, 4)]
    blocks = [[block(frame) for frame in frames] for frames in videos]

    def graph():
        data = fn.external_source(lambda: [np.concatenate(own) for own in blocks])
        sizes = fn.external_source(lambda: [np.array([len(one) for one in own]) for own in blocks])
        options = {"shape": [6, 5, 3], "layout": "HWC", "chunk_sizes": sizes}
        with pytest.warns(Warning, match="deprecated"):
            old = fn.experimental.inflate(data, sequence_axis_name="N", **options)
        return fn.decoders.inflate(data, **options), old, fn.decoders.inflate(data.gpu(), **options)

    with pipeline_of(graph, batch_size=2, device_id=0) as pipeline:
        ours, old, gpu = pipeline.run()
        assert [ours.layout(), old.layout(), gpu.layout()] == ["FHWC", "NHWC", "FHWC"]
        for i, frames in enumerate(videos):
            np.testing.assert_array_equal(np.asarray(ours.at(i)), np.stack(frames))
            np.testing.assert_array_equal(np.asarray(gpu.as_cpu().at(i)), np.stack(frames))


def test_other_sizes():
    data = block(np.arange(200, dtype=np.uint8))
    (longer,) = run("decoders.inflate", [data], shape=[210])
    assert longer.tolist() == [*range(200), *[0] * 10]
    (shorter,) = run("decoders.inflate", [data], shape=190)
    assert shorter.tolist() == [*range(190)]
    for shape, text in ((210, "chunk 0 of 1 decompresses to fewer bytes"), (190, "chunk 0 of 1 decompresses to more bytes")):
        with pytest.raises(AssertionError, match=text):
            run("decoders.inflate", [data], shape=shape, check_output_size=True)


def test_damaged_data_is_refused_without_access_to_other_memory():
    """``run`` puts guard bytes around outputs. A block must end with literals, so every truncated block is refused."""
    good = block(arrays(np.random.default_rng(1), "u1", (3000,))[0])
    with pytest.raises(AssertionError, match="is not a valid LZ4 block"):
        run("decoders.inflate", [good[:-1]], shape=[3000])
    with pytest.raises(AssertionError, match="is not a valid LZ4 block"):  # a match that starts before the output
        run("decoders.inflate", [np.frombuffer(b"\x10a\x02\0\x50xyz01", np.uint8)], shape=[30])
    chance = random.Random(3)
    for _ in range(300):
        data = good.copy()
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            run("decoders.inflate", [data[: chance.randint(1, len(data))].copy()], shape=[chance.choice([0, 1, 100, 3000, 5000])])
        except AssertionError as error:
            assert "is not a valid LZ4 block" in str(error)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"chunk_offsets": [0, 3], "chunk_sizes": [3]}, "2 `chunk_offsets` for 1 `chunk_sizes`"),
        ({"chunk_offsets": [0, 3, 3]}, "must increase"), ({"chunk_offsets": [0, 11]}, "`chunk_offsets` must be 0 to 10"),
        ({"chunk_offsets": [-1]}, "`chunk_offsets` must be 0 to 10"), ({"chunk_sizes": [0]}, "`chunk_sizes` must be 1 to 11"),
        ({"chunk_sizes": [6, 6]}, "chunk 1 ends at byte 12; the sample has 11"), ({"algorithm": "zstd"}, "supported are LZ4"),
        ({"shape": [-1]}, "must not be negative"),
        ({"sequence_axis_name": "FG"}, "one letter"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments, text):
    with pytest.raises((ValueError, SampleError), match=text):
        run("decoders.inflate", [np.frombuffer(BY_HAND, np.uint8)[:11]], **{"shape": [16], **arguments})


def test_wrong_inputs():
    for data, text in (
        (np.zeros(0, np.uint8), "the sample is empty"),
        (np.zeros((2, 2), np.uint8), "has 2 dimensions; supported are: 1"),
        (np.zeros(3), "FLOAT64 .*supported types are: UINT8"),
    ):
        with pytest.raises((ValueError, SampleError), match=text):
            run("decoders.inflate", [data], shape=[4])


def test_a_wrong_layout():
    def graph():
        return fn.decoders.inflate(fn.external_source(lambda: [np.frombuffer(BY_HAND, np.uint8)]), shape=[16], layout="HW")

    with pipeline_of(graph, batch_size=1) as pipeline, pytest.raises(RuntimeError, match="2 letters; `shape` has 1 dimensions"):
        pipeline.run()
