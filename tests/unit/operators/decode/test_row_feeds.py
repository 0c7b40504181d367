"""A decoder passes rows to resize while it decodes. Pixels and errors are the same, and the whole picture is never stored."""

from __future__ import annotations

import ctypes
from functools import partial

import numpy as np
import pytest
from helpers.images import encode, encode_cv, jpeg_blocks, picture, with_orientation
from helpers.jpegs import Guarded

from asyncdali import fn, pipeline_def, types
from asyncdali.codecs.jpeg import progressive, window_decoding
from asyncdali.compiled.addresses import address_of
from asyncdali.compiled.feed_tables import FEED_STATE, STATE_BYTES
from asyncdali.device.buffers import BufferPool
from asyncdali.operators.base import Step, no_explanation
from asyncdali.operators.resize import resize_rows
from asyncdali.operators.resize.image_resampling import Resampling, compile_kernels
from asyncdali.operators.resize.resize_rules import Geometry
from asyncdali.operators.row_feeds import BAND, RowFeed
from asyncdali.runtime.work import segments

NEVER = 1 << 60


@pytest.fixture(scope="module", autouse=True)
def kernels():
    """Compile the kernels first. Until they are compiled, libjpeg-turbo decodes, and whole pictures are stored."""
    for kernel in (window_decoding.decode_window, progressive.decode_scans, resize_rows.take_to_bytes, resize_rows.take_to_floats):
        kernel.compile()


def files() -> list[bytes]:
    """JPEGs of all chroma samplings, progressive, with restart markers, with an orientation, and a small one; and a PNG."""
    found = [jpeg_blocks(220, 150, [sampling, (1, 1), (1, 1)], seed=k) for k, sampling in enumerate([(1, 1), (2, 1), (2, 2), (1, 2)])]
    found.append(encode(picture(301, 180), "JPEG", quality=80, progressive=True))
    found.append(jpeg_blocks(190, 230, [(2, 2), (1, 1), (1, 1)], restart=3))
    found.append(encode(picture(160, 200, 1), "JPEG", quality=90))
    found.append(with_orientation(encode(picture(200, 160), "JPEG"), 6))
    found.append(encode(picture(170, 190), "PNG"))
    found.append(encode(picture(20, 30), "JPEG"))
    return found


FED = 7
"""The `files` whose rows are passed on: upright JPEGs that are high enough."""


def results(monkeypatch, graph, smallest: int, encoded: list[bytes] | None = None, **options) -> tuple[list[list[np.ndarray]], int]:
    """The outputs of two iterations of `graph`, and the number of pictures that were passed on in rows.

    Pictures of `smallest` bytes and more are passed on in rows.
    """
    monkeypatch.setattr(resize_rows, "SMALLEST", smallest)
    arrays = [np.frombuffer(data, np.uint8) for data in encoded or files()]

    @pipeline_def(batch_size=len(arrays), num_threads=2, device_id=None, prefetch_queue_depth=1, seed=3, **options)
    def pipeline():
        return graph(fn.external_source(source=lambda: arrays, batch=True))

    with pipeline() as pipe:
        made = []
        for _ in range(2):
            outputs = [output.as_cpu() for output in pipe.run()]
            made.append([np.array(sample) for output in outputs for sample in output])
        counted = dict(pipe.statistics().operator("decode").counted)
    return made, counted["JPEGs handed on in rows"]


def same(first: list[list[np.ndarray]], second: list[list[np.ndarray]]) -> None:
    for ours, theirs in zip(first, second, strict=True):
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            np.testing.assert_array_equal(a, b, err_msg=f"sample {k}")


def decoded(encoded, **arguments):
    return fn.decoders.image(encoded, name="decode", **arguments)


GRAPHS = {
    "linear": lambda x: fn.resize(decoded(x), size=[40, 50]),
    "cubic to float": lambda x: fn.resize(decoded(x), size=[64, 31], interp_type=types.INTERP_CUBIC, dtype=types.FLOAT),
    "lanczos": lambda x: fn.resize(decoded(x), resize_shorter=33.0, interp_type=types.INTERP_LANCZOS3),
    "larger": lambda x: fn.resize(decoded(x), size=[350, 290]),
    "without antialiasing": lambda x: fn.resize(decoded(x), size=[20, 20], antialias=False),
    "higher and narrower": lambda x: fn.resize(decoded(x), size=[400, 60], min_filter=types.INTERP_GAUSSIAN),
    "flipped sideways": lambda x: fn.resize(decoded(x), size=[40, -50]),
    "a region": lambda x: fn.resize(decoded(x), size=[40, 50], roi_start=[0.3, 0.2], roi_end=[0.8, 0.55], roi_relative=True),
    "nearest across": lambda x: fn.resize(decoded(x), size=[40, 400], mag_filter=types.INTERP_NN),
    "grey": lambda x: fn.resize(decoded(x, output_type=types.GRAY), size=[40, 50]),
    "BGR": lambda x: fn.resize(decoded(x, output_type=types.BGR), size=[41, 53]),
    "crop": lambda x: fn.resize(fn.decoders.image_crop(x, name="decode", crop=(131, 77), crop_pos_x=0.3), size=[40, 50]),
    "slice": lambda x: fn.resize(fn.decoders.image_slice(x, 0.1, 0.8, axes=[0], name="decode"), size=[40, 50]),
    "random crop": lambda x: fn.resize(
        fn.decoders.image_random_crop(x, name="decode", random_area=[0.6, 1.0], random_aspect_ratio=[0.9, 1.1]), size=[24, 24]
    ),
    "crop afterwards": lambda x: fn.random_resized_crop(decoded(x), size=[30, 24]),
    "crop and mirror": lambda x: fn.resize_crop_mirror(decoded(x), resize_shorter=60.0, crop=[24, 30], mirror=1),
    "with its old size": lambda x: tuple(fn.resize(decoded(x), size=[40, 50], save_attrs=True)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_pixels_are_those_of_stored_pictures(monkeypatch, name):
    encoded = files()
    if name == "crop":  # this window does not fit into the small picture
        encoded = encoded[:-1]
    fed, count = results(monkeypatch, GRAPHS[name], 1, encoded)
    stored, none = results(monkeypatch, GRAPHS[name], NEVER, encoded)
    same(fed, stored)
    assert count == 2 * FED and none == 0


NOT_FED = {
    "nearest": lambda x: fn.resize(decoded(x), size=[40, 50], interp_type=types.INTERP_NN),
    "upside down": lambda x: fn.resize(decoded(x), size=[-40, 50]),
    "another type": lambda x: fn.resize(decoded(x, dtype=types.FLOAT), size=[40, 50]),
}


@pytest.mark.parametrize("name", NOT_FED)
def test_graphs_that_need_the_stored_picture(monkeypatch, name):
    first, count = results(monkeypatch, NOT_FED[name], 1)
    second, _ = results(monkeypatch, NOT_FED[name], NEVER)
    same(first, second)
    assert count == 0


def two_readers(x):
    image = decoded(x)
    return fn.resize(image, size=[40, 50]), fn.flip(image)


def returned(x):
    image = decoded(x)
    return image, fn.resize(image, size=[40, 50])


def in_between(x):
    return fn.resize(fn.flip(decoded(x)), size=[40, 50])


def in_a_branch(x):
    chosen = fn.random.coin_flip(dtype=types.BOOL)
    if chosen:
        image = fn.resize(fn.decoders.image(x, name="decode"), size=[40, 50])
    else:
        image = fn.resize(fn.decoders.image(x, name="other"), size=[50, 40])
    return image


@pytest.mark.parametrize("graph", [two_readers, returned, in_between])
def test_a_picture_with_other_readers_is_stored(monkeypatch, graph):
    first, count = results(monkeypatch, graph, 1)
    second, _ = results(monkeypatch, graph, NEVER)
    same(first, second)
    assert count == 0


def test_branches_of_conditionals(monkeypatch):
    first, count = results(monkeypatch, in_a_branch, 1, enable_conditionals=True)
    second, _ = results(monkeypatch, in_a_branch, NEVER, enable_conditionals=True)
    same(first, second)
    assert count == 0


def test_both_decoders_pass_on_rows(monkeypatch):
    fed, count = results(monkeypatch, GRAPHS["crop afterwards"], 1)
    monkeypatch.setenv("ASYNCDALI_JPEG", "turbo")
    turbos, by_turbo = results(monkeypatch, GRAPHS["crop afterwards"], 1)
    windows, cut = results(monkeypatch, GRAPHS["random crop"], 1)
    stored, _ = results(monkeypatch, GRAPHS["random crop"], NEVER)
    same(fed, turbos)
    same(windows, stored)
    assert count == by_turbo == cut == 2 * FED


def test_a_file_is_handed_over_after_rows_were_passed_on(monkeypatch):
    """Our decoder detects the extreme coefficients only at the end of the picture. Then libjpeg-turbo decodes the whole picture."""
    wild = bytearray(jpeg_blocks(220, 150, [(2, 2), (1, 1), (1, 1)]))
    table = wild.index(b"\xff\xdb") + 5
    wild[table : table + 64] = bytes([255] * 64)
    marker = jpeg_blocks(220, 150, [(2, 2), (1, 1), (1, 1)], restart=5)
    last = marker.rindex(b"\xff", 0, len(marker) - 2)
    assert 0xD0 <= marker[last + 1] <= 0xD7
    broken = marker[: last + 1] + bytes([0xD0 + (marker[last + 1] + 3) % 8]) + marker[last + 2 :]
    fed, count = results(monkeypatch, GRAPHS["linear"], 1, [bytes(wild), broken, marker])
    stored, _ = results(monkeypatch, GRAPHS["linear"], NEVER, [bytes(wild), broken, marker])
    same(fed, stored)
    assert count == 6


def test_errors_are_the_same(monkeypatch):
    data = encode(picture(220, 150), "JPEG")
    texts = []
    for smallest in (1, NEVER):
        with pytest.raises(RuntimeError) as caught:
            results(monkeypatch, GRAPHS["linear"], smallest, [data, data[: len(data) // 2]])
        texts.append(str(caught.value))
    assert texts[0] == texts[1] and "truncated" in texts[0] and "sample 1" in texts[0]


def test_the_host_device(monkeypatch):
    def graph(x):
        return fn.resize(fn.decoders.image(x, name="decode", device="mixed"), size=[40, 50])

    fed, count = results(monkeypatch, graph, 1)
    stored, _ = results(monkeypatch, GRAPHS["linear"], NEVER)
    same(fed, stored)
    assert count == 2 * FED


def test_an_image_cache_stores_whole_pictures(monkeypatch):
    def graph(x):
        return fn.resize(decoded(x, cache_size=64, cache_type="threshold"), size=[40, 50])

    def plain(x):
        return fn.resize(decoded(x), size=[40, 50])

    first, count = results(monkeypatch, graph, 1)
    second, _ = results(monkeypatch, plain, NEVER)
    same(first, second)
    assert count == 0


def test_memory_is_allocated_for_a_ring_of_rows_only(monkeypatch):
    """Only a ring of rows is in memory. Pictures that are too large for the threads' scratch once took memory for the whole batch."""
    encoded = [encode_cv(picture(600, 400, seed=k), ".jpg") for k in range(4)]
    monkeypatch.setattr(segments, "MAX_SCRATCH", 200_000)
    held = []

    def allocate(pool, size):
        held.append(size)
        return real(pool, size)

    real = BufferPool.allocate
    monkeypatch.setattr(BufferPool, "allocate", allocate)
    results(monkeypatch, GRAPHS["linear"], NEVER, encoded)
    pictures, output = 4 * 600 * 400 * 3, 4 * 40 * 50 * 3
    assert pictures in held and output in held
    held.clear()
    results(monkeypatch, GRAPHS["linear"], 1, encoded)
    assert pictures not in held and output in held


def random_resize(rng: np.random.Generator) -> tuple[np.ndarray, Resampling, np.ndarray]:
    """A random picture, the arguments of a resize, and the result without rows."""
    height, width, channels = int(rng.integers(40, 300)), int(rng.integers(2, 60)), int(rng.choice([1, 3]))
    image = rng.integers(0, 256, (height, width, channels), np.uint8)
    lo, hi = np.sort(rng.uniform(0, 1, (2, 2)), 0) * (height, width) + [[0.0, 0.0], [1e-3, 1e-3]]
    if rng.random() < 0.3:
        lo[1], hi[1] = hi[1], lo[1]  # flipped horizontally
    geometry = Geometry(rng.integers(1, 90, (1, 2)), lo[None], hi[None])
    filters = np.array([[int(rng.integers(1, 6))], [int(rng.integers(1, 6))]])
    resampling = Resampling(np.array([image.shape]), 0, geometry, filters, bool(rng.random() < 0.8))
    out = np.zeros(resampling.shapes[0], np.uint8)
    step = resampling.step(np.array([address_of(image)]), np.array([address_of(out)]), np.dtype(np.uint8), np.dtype(np.uint8))
    run(step)
    return image, resampling, out


def run(step: Step) -> None:
    scratch = np.zeros(step.scratch_bytes + 64, np.uint8)
    thread = np.array([address_of(scratch) + 63 & -64], np.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(step.function)(address_of(step.context), 0, address_of(thread)) == 0


def test_a_ring_suffices_for_bands_of_any_size(monkeypatch):
    """Rows arrive in bands of 1 to BAND rows. The ring ends at a guard page, and old rows are overwritten."""
    monkeypatch.setattr(resize_rows, "SMALLEST", 1)
    compile_kernels((np.dtype(np.uint8), np.dtype(np.uint8)), on_gpu=False)
    rng, guarded, taken = np.random.default_rng(22), Guarded(1 << 20), 0
    for _ in range(150):
        image, resampling, expected = random_resize(rng)
        out = np.zeros_like(expected)
        step = resampling.step(np.array([0]), np.array([address_of(out)]), np.dtype(np.uint8), np.dtype(np.uint8))
        giver = Step(0, np.zeros(1, np.int64), no_explanation)
        feed = RowFeed(giver, 0, lambda: np.array([True]))
        resampling.read_rows(feed, step, partial(np.array, [image.nbytes]), np.dtype(np.uint8))
        if feed.held is None or feed.held[0] == image.nbytes:
            continue
        taken += 1
        row_bytes = image[0].size
        capacity = int(feed.held[0]) // row_bytes
        ring = guarded.last(capacity * row_bytes)
        ring[:] = 0xEE
        scratch = np.zeros(giver.scratch_bytes + 64, np.uint8)
        state = address_of(scratch) + 63 & -64
        words = np.frombuffer(scratch[state - address_of(scratch) :][: FEED_STATE.size], np.int64)
        words[:] = FEED_STATE.entries(
            context=address_of(step.context), sample=0, scratch=state + STATE_BYTES, ring=address_of(ring), capacity=capacity, next=99
        )
        resize_rows.take_to_bytes(state, 0)
        made = 0
        while made < len(image):
            for _ in range(int(rng.integers(1, BAND + 1))):
                if made < len(image):
                    ring.reshape(capacity, row_bytes)[made % capacity] = image[made].reshape(-1)
                    made += 1
            resize_rows.take_to_bytes(state, made)
        np.testing.assert_array_equal(out, expected)
        run(step)  # skips the sample, which has no input
    assert taken > 60
