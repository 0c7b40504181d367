"""Copied segments of a GPU (``runtime/templates/device.py``), over the simulator: which iterations are copied, and that this changes
nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import LazyArray, StandIn, use

from asyncdali import fn, pipeline_def, types
from asyncdali.runtime.templates.device import DeviceTemplate, DeviceTemplates

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")

SHAPES = [(12, 17, 3), (9, 20, 3), (16, 11, 3), (10, 10, 3)]
OTHERS = [(11, 13, 3), (9, 20, 3), (16, 12, 3), (10, 10, 3)]
ITERATIONS = 10


@pytest.fixture
def cuda(monkeypatch):
    driver = StandIn()
    use(driver, monkeypatch)
    driver.use(0)
    return driver


@pytest.fixture
def copied(monkeypatch):
    """Counts the iterations that are copied."""
    counts: Counter[str] = Counter()
    queue = DeviceTemplate.queue

    def counted(*args):
        counts["copies"] += 1
        return queue(*args)

    monkeypatch.setattr(DeviceTemplate, "queue", counted)
    return counts


class Source:
    """Batches in the simulator's memory, with other contents and at other addresses in every iteration.

    `sizes`: the shapes of each batch, in turn. `kept`: batches that are fed again and again, by iteration."""

    def __init__(self, cuda, *sizes, seed=0, kept=(), twice=()):
        self.cuda, self.sizes, self.seed, self.twice = cuda, sizes or (SHAPES,), seed, twice
        self.held = []
        self.kept = dict(kept)
        self.stream = cuda.stream_create()

    def contents(self, iteration):
        iteration = self.kept.get(iteration, iteration)
        random = np.random.default_rng([self.seed, iteration])
        batch = [random.integers(0, 256, shape).astype(np.uint8) for shape in self.sizes[iteration % len(self.sizes)]]
        return [batch[0]] * len(batch) if iteration in self.twice else batch

    def __call__(self, iteration):
        name = self.kept.get(iteration)
        found = next((arrays for known, arrays in self.held if known == name and name is not None), None)
        if found is None:
            batch = self.contents(iteration)
            made = {id(data): self._array(data) for data in batch}
            found = [made[id(data)] for data in batch]
            self.held.append((name, found))
        return found

    def _array(self, data):
        base = LazyArray(self.cuda, data.ctypes.data, data.shape, data.dtype, data)
        return base.map(lambda _: data, stream=self.stream)


def built(source, body, batch=4, no_copy=True, **options):
    @pipeline_def(batch_size=batch, num_threads=1, device_id=0, prefetch_queue_depth=2, seed=5, **options)
    def graph():
        made = body(fn.external_source(source, device="gpu", no_copy=no_copy, layout="HWC"))
        return made if isinstance(made, tuple) else (made,)

    pipe = graph()
    pipe.build()
    return pipe


def run_all(source, body, iterations=ITERATIONS, **options):
    """All outputs of some iterations, as arrays."""
    pipe = built(source, body, **options)
    try:
        return [
            [np.array(sample) for output in pipe.run() for sample in (output.as_cpu() if hasattr(output, "as_cpu") else output)]
            for _ in range(iterations)
        ]
    finally:
        pipe.close()


def assert_same(cuda, monkeypatch, body, make=Source, **options):
    """Compare with a pipeline that plans every iteration."""
    found = run_all(make(cuda), body, **options)
    with monkeypatch.context() as planned:
        planned.setattr(DeviceTemplates, "find", lambda self, edges, batch_size: None)
        expected = run_all(make(cuda), body, **options)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    return found


MATRIX = [1.1, 0.1, 1.0, -0.1, 0.9, 2.0]
PLACES = {
    "in_anchors": np.int32([[0, 0], [1, 1]]), "shapes": np.int32([[3, 4], [2, 3]]), "out_anchors": np.int32([[0, 0], [5, 6]]),
}  # fmt: skip
OPERATORS = {
    "resize": lambda x: fn.resize(x, size=[6, 7]),
    "shorter side": lambda x: fn.resize(x, resize_shorter=8),
    "crop_mirror_normalize": lambda x: fn.crop_mirror_normalize(x, crop=[6, 7], mirror=1, mean=[120.0], std=[60.0], dtype=types.FLOAT16),
    "resize inside crop_mirror_normalize": lambda x: fn.crop_mirror_normalize(fn.resize(x, size=[8, 9]), mean=[1.0], std=[2.0]),
    "rotate": lambda x: fn.rotate(x, angle=13.0, fill_value=0),
    "warp_affine": lambda x: fn.warp_affine(x, matrix=MATRIX, fill_value=0),
    "gaussian_blur": lambda x: fn.gaussian_blur(x, sigma=1.5, window_size=5),
    "laplacian": lambda x: fn.laplacian(x, window_size=3, dtype=types.FLOAT),
    "color_twist": lambda x: fn.color_twist(x, brightness=1.1, contrast=0.9, hue=20.0, saturation=1.2),
    "color_space_conversion": lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.YCbCr),
    "flip": lambda x: fn.flip(x, horizontal=1, vertical=1),
    "cast": lambda x: fn.cast(x, dtype=types.FLOAT),
    "normalize": lambda x: fn.normalize(x, axes=[0, 1]),
    "reductions.mean": lambda x: fn.reductions.mean(x, axes=[0, 1]),
    "transpose": lambda x: fn.transpose(x, perm=[2, 0, 1]),
    "erase": lambda x: fn.erase(x, anchor=[0.2, 0.2], shape=[0.3, 0.3], normalized=True, axes=[0, 1]),
    "pad": lambda x: fn.pad(x, axes=[0, 1], align=[8, 8]),
    "arithmetic": lambda x: x * 0.5 + 3.0,
    "grid_mask": lambda x: fn.grid_mask(x, tile=4, ratio=0.5),
    "slice": lambda x: fn.slice(x, start=[3, 5], shape=[20, 4], axes=[0, 1], out_of_bounds_policy="trim_to_shape"),
    "slice beyond the borders": lambda x: fn.slice(x, start=[-3, 5], shape=[20, 40], axes=[0, 1], out_of_bounds_policy="pad"),
    "cat": lambda x: fn.cat(x, fn.flip(x), axis=0),
    "cat, columns": lambda x: fn.cat(x, x, axis=1),
    "stack": lambda x: fn.stack(x, x),
    "copy": lambda x: fn.copy(x),
    "samples of the batch": lambda x: fn.multi_paste(x, in_ids=[2, 0], output_size=[20, 20], **PLACES),
    "samples of another operator's batch": lambda x: fn.multi_paste(fn.flip(x), in_ids=[2, 0], output_size=[20, 20], **PLACES),
    "two outputs": lambda x: (fn.flip(x), fn.cast(fn.flip(x), dtype=types.INT16)),
    "a view of the user's memory": lambda x: fn.reshape(x, shape=[-1]),
    "views, and a result": lambda x: (fn.expand_dims(x, axes=[0], new_axis_names="F"), fn.flip(x), fn.per_frame(x, replace=True)),
    "a table of all bytes": lambda x: fn.lookup_table(x, keys=list(range(256)), values=[255.0 - k for k in range(256)], dtype=types.UINT8),
    "tables of 16 bits": lambda x: fn.clahe(x, tiles_x=2, tiles_y=2, clip_limit=2.0),
    "constant arguments": lambda x: fn.warp_affine(x, fn.transforms.rotation(angle=20.0), fill_value=0),
}


@pytest.mark.parametrize("name", list(OPERATORS))
def test_copies_compute_the_same(cuda, copied, monkeypatch, name):
    """Pixels and addresses change, shapes do not. The first iteration is planned."""
    assert_same(cuda, monkeypatch, OPERATORS[name])
    assert copied["copies"] >= ITERATIONS - 4


def test_batches_of_several_sizes_have_a_copy_each(cuda, copied, monkeypatch):
    assert_same(cuda, monkeypatch, OPERATORS["normalize"], lambda cuda: Source(cuda, SHAPES, OTHERS))
    assert copied["copies"] >= ITERATIONS - 5


def test_batches_that_are_always_new_are_planned(cuda, copied, monkeypatch):
    def make(cuda):
        return Source(cuda, *[[(5 + k, 6, 3)] * 4 for k in range(ITERATIONS)])

    assert_same(cuda, monkeypatch, OPERATORS["flip"], make)
    assert copied["copies"] == 0


@pytest.mark.parametrize("name", ["flip", "cat", "erase", "slice"])
def test_the_same_arrays_and_later_others(cuda, copied, monkeypatch, name):
    """Tables say what an address belongs to, also while all iterations have equal addresses."""
    assert_same(cuda, monkeypatch, OPERATORS[name], lambda cuda: Source(cuda, kept=dict.fromkeys(range(6), 0)), iterations=16)
    assert copied["copies"] >= 10


@pytest.mark.parametrize("name", ["flip", "cat", "slice"])
def test_one_array_as_all_samples_and_later_others(cuda, copied, monkeypatch, name):
    def make(cuda):
        return Source(cuda, [(9, 9, 3)] * 4, twice=range(6))

    assert_same(cuda, monkeypatch, OPERATORS[name], make, iterations=14)
    assert copied["copies"] >= 4


def test_arguments_that_change_are_planned(cuda, copied, monkeypatch):
    def body(x):
        return fn.rotate(x, angle=fn.external_source(lambda k: [np.float32(k + i) for i in range(4)]), fill_value=0, keep_size=True)

    found = assert_same(cuda, monkeypatch, body)
    assert copied["copies"] == 0
    assert not np.array_equal(found[0][0], found[1][0])


def test_arguments_that_repeat_are_part_of_the_comparison(cuda, copied, monkeypatch):
    def body(x):
        angle = fn.external_source(lambda k: [np.float32(10 * (k % 2) + i) for i in range(4)])
        return fn.rotate(x, angle=angle, fill_value=0, keep_size=True)

    assert_same(cuda, monkeypatch, body, iterations=14)
    assert copied["copies"] >= 8


def test_uploaded_batches_are_copied_too(cuda, copied, monkeypatch):
    def body(x):
        host = fn.external_source(lambda k: [np.full((4 + i, 5, 3), k, np.uint8) for i in range(4)], layout="HWC")
        return fn.flip(host.gpu()), fn.flip(x)

    assert_same(cuda, monkeypatch, body)
    assert copied["copies"] >= ITERATIONS - 4


def test_draws_and_preparations_are_planned(cuda, copied, monkeypatch):
    assert_same(cuda, monkeypatch, lambda x: fn.noise.gaussian(x, stddev=9.0))
    assert_same(cuda, monkeypatch, lambda x: fn.normalize(fn.crop(x, crop=[5, 5]), batch=True))
    assert copied["copies"] == 0
    assert_same(cuda, monkeypatch, lambda x: (fn.flip(x), fn.flip(x).cpu()))


@pytest.mark.parametrize(
    "body",
    [
        lambda x: (x, fn.reinterpret(fn.crop(x, crop=[4, 4]), shape=[8, 6])),
        lambda x: fn.flip(fn.reshape(x, layout="CHW")),  # the view is read, and not returned
        lambda x: fn.reshape(fn.reshape(x, shape=[-1]), shape=[1, -1]),
    ],
    ids=["of results", "that are read", "of views"],
)
def test_other_views_are_planned(cuda, copied, monkeypatch, body):
    assert_same(cuda, monkeypatch, body)
    assert copied["copies"] == 0


def test_views_of_memory_that_is_the_pipelines_are_planned(cuda, copied, monkeypatch):
    """Batches that come back in turn are the user's memory; copies of fed arrays are not, and need no second copy."""
    body = lambda x: fn.reshape(x, shape=[-1])  # noqa: E731
    assert_same(cuda, monkeypatch, body, no_copy=False)
    assert copied["copies"] == 0


def test_outputs_that_were_views_keep_their_contents(cuda, copied):
    """An output is a copy, so the user may write the arrays that were fed."""
    source = Source(cuda, kept=dict.fromkeys(range(ITERATIONS), 0))
    pipe = built(source, lambda x: fn.reshape(x, shape=[-1]))
    try:
        held = [pipe.run()[0] for _ in range(5)]
        assert copied["copies"] >= 3
        addresses = {output[0].data_ptr() for output in held}
        assert len(addresses) == 5 and not addresses & {array.address for array in source.held[0][1]}
    finally:
        pipe.close()


def test_statistics_count_copied_iterations(cuda, copied):
    source = Source(cuda)

    @pipeline_def(batch_size=4, num_threads=1, device_id=0, prefetch_queue_depth=1)
    def graph():
        return fn.cast(fn.flip(fn.external_source(source, device="gpu", no_copy=True, layout="HWC")), dtype=types.FLOAT)

    pipe = graph()
    pipe.build()
    for _ in range(40):
        pipe.run()
    assert copied["copies"] >= 30
    report = pipe.statistics()
    cast = next(item for item in report.operators if item.operator == "cast")
    assert cast.iterations == 40
    pipe.close()


def test_no_memory_for_an_output_names_its_operator(cuda, copied, monkeypatch):
    from asyncdali.device.cuda.driver import DeviceMemoryError
    from asyncdali.device.cuda.memory import DevicePool

    source = Source(cuda)

    @pipeline_def(batch_size=4, num_threads=1, device_id=0, prefetch_queue_depth=1)
    def graph():
        return fn.cast(fn.external_source(source, device="gpu", no_copy=True, layout="HWC"), dtype=types.FLOAT)

    pipe = graph()
    pipe.build()
    for _ in range(6):
        pipe.run()
    before, allocate = copied["copies"], DevicePool.allocate
    size = 4 * sum(int(np.prod(shape)) for shape in SHAPES)

    def failing(self, wanted, commands):
        if wanted == size:
            raise DeviceMemoryError("there is none")
        return allocate(self, wanted, commands)

    with monkeypatch.context() as full:
        full.setattr(DevicePool, "allocate", failing)
        with pytest.raises(MemoryError, match=r"asyncdali.fn.cast[\s\S]*there is none"):
            pipe.run()
    assert copied["copies"] == before + 1
    expected = source.contents(7)
    (output,) = pipe.run()
    for sample, data in zip(output.as_cpu(), expected, strict=True):
        np.testing.assert_array_equal(np.array(sample), data.astype(np.float32))
    pipe.close()


def kept_memory(pipe):
    """The memory that the copied iterations of a pipeline with one segment keep, and the uploads of its only template."""
    (segment,) = pipe._core.session.executor._program.segments
    kept = segment.templates._kept_memory
    return kept, [uploads.ready for uploads in kept._uploads.values()]


@pytest.mark.parametrize("name", ["flip", "gaussian_blur", "normalize", "stack"])
def test_more_addresses_than_uploads_that_are_kept(cuda, copied, monkeypatch, name):
    """Uploads are replaced in place."""
    assert_same(cuda, monkeypatch, OPERATORS[name], iterations=40)
    assert copied["copies"] >= 36


@pytest.mark.parametrize("name", ["flip", "gaussian_blur", "resize"])
def test_addresses_that_repeat_are_uploaded_once(cuda, copied, name):
    """The same arrays are fed, and outputs take a few blocks in turn."""
    pipe = built(Source(cuda, kept=dict.fromkeys(range(60), 0)), OPERATORS[name])
    try:
        for _ in range(30):
            pipe.run()
        copies, allocations = cuda.calls["copy"], pipe._core.session.gpu.pool.allocations
        for _ in range(20):
            pipe.run()
        assert cuda.calls["copy"] == copies
        assert pipe._core.session.gpu.pool.allocations == allocations
        assert copied["copies"] >= 40
    finally:
        pipe.close()


def test_uploads_of_an_iteration_that_failed_are_not_used(cuda, copied):
    """The commands before the failed one have been executed, the others have not."""
    source = Source(cuda, kept=dict.fromkeys(range(60), 0))
    pipe = built(source, OPERATORS["flip"])
    try:
        for _ in range(8):
            pipe.run()
        for name in ("copy", "launch", "event_record"):
            kept, (ready,) = kept_memory(pipe)
            ready.clear()  # the next iteration has an upload
            cuda.fails[name] = 700
            pipe.run()  # made before
            assert not kept.sure
            del cuda.fails[name]
            with pytest.raises(RuntimeError, match="700"):
                pipe.run()
            (output,) = pipe.run()
            for sample, data in zip(output.as_cpu(), source.contents(0), strict=True):
                np.testing.assert_array_equal(np.array(sample), data[::-1, ::-1])
            assert kept.sure and kept_memory(pipe)[1] != [ready]
    finally:
        pipe.close()


def test_a_closed_pipeline_keeps_no_memory(cuda, copied):
    pipe = built(Source(cuda), OPERATORS["resize"])
    for _ in range(6):
        pipe.run()
    (kept, uploads), device = kept_memory(pipe), pipe._core.session.gpu
    assert uploads and kept._scratch is not None and copied["copies"]
    pipe.close()
    assert not kept._uploads and kept._scratch is None
    assert device.pool.held_bytes() == 0


@pytest.mark.parametrize("failing, operator", [(0, "flip"), (1, "cast")])
def test_a_launch_that_fails_names_its_operator(cuda, copied, monkeypatch, failing, operator):
    pipe = built(Source(cuda), lambda x: (fn.flip(x), fn.cast(x, dtype=types.FLOAT)))
    try:
        for _ in range(6):
            pipe.run()
        before, launch, launches = copied["copies"], cuda._do_launch, []

        def counted(*words):
            launches.append(words)
            return 700 if len(launches) == failing + 1 else launch(*words)

        with monkeypatch.context() as broken:
            broken.setattr(cuda, "_do_launch", counted)
            pipe.run()  # made before
        assert copied["copies"] == before + 1
        with pytest.raises(RuntimeError, match=rf"asyncdali.fn.{operator}[\s\S]*700"):
            pipe.run()
        pipe.run()
    finally:
        pipe.close()
