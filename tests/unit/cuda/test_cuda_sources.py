"""external_source on a GPU, over the CUDA simulator: host data is uploaded, device arrays are used in place, and streams order both."""

from __future__ import annotations

import ctypes
import gc
import math
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import LazyArray, StandIn, use
from helpers.processes import wait_until

from asyncdali import fn, pipeline_def, types
from asyncdali.device.cuda.driver import ArrayPlaces, CupyDriver
from asyncdali.device.cuda.fed_arrays import FedArrays

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
BATCH = 4


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA simulator in place of the machine's CUDA. This thread has selected the device."""
    driver = StandIn()
    use(driver, monkeypatch)
    driver.use(0)
    return driver


def value_of(sample):
    """Samples of several shapes."""
    return np.full((3 + sample % 3, 5, 2), sample, np.uint8)


def picture(info):
    return value_of(info.idx_in_epoch)


def pictures(iteration):
    return [value_of(iteration * BATCH + k) for k in range(BATCH)]


def dense(iteration):
    return np.stack([np.full((3, 5, 2), iteration * BATCH + k, np.uint8) for k in range(BATCH)])


def built(body, depth=2, **options):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, prefetch_queue_depth=depth, **options)
    def graph():
        return body()

    pipe = graph()
    pipe.build()
    return pipe


def contents(output):
    return [np.array(sample) for sample in output.as_cpu()]


def assert_pictures(output, iteration, of=pictures):
    for made, expected in zip(contents(output), of(iteration), strict=True):
        np.testing.assert_array_equal(made, expected)


class Lender:
    """Lends arrays of a user's stream, which fills them only when something waits for the stream.

    Arrays are freed in the order of the stream, and freed memory is overwritten.
    """

    def __init__(self, cuda, named=True):
        self.cuda = cuda
        self.stream = cuda.stream_create()
        self.named = named

    def __call__(self, data):
        base = LazyArray(self.cuda, data.ctypes.data, data.shape, data.dtype, data)
        made = base.map(lambda _: data, stream=self.stream)
        if not self.named:
            made._stream = None
        return made


class Dlpack:
    """An object that supports DLPack only."""

    def __init__(self, array, device=0, kind=2):
        self._array, self._device = array, (kind, device)

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, **options):
        raise AssertionError("the driver asks for it")

    def map(self, function):
        cuda, array = self._array._driver, self._array
        event = cuda.event_create()  # as DLPack requires: the consumer's stream waits
        cuda.event_record(event, array._stream)
        cuda.stream_wait(cuda.current_stream(), event)
        return array.map(function)


# ------------------------------------------------------------------------------------------------------------- samples apart


def pieces_of(iteration, extent):
    """Samples of odd sizes; the second is empty."""
    return [np.full((0 if k == 1 else 7 + 3 * k, extent), iteration * BATCH + k, np.uint8) for k in range(BATCH)]


@pytest.mark.parametrize("extent, per_batch", [(5, {"copy": 2, "launch": 1}), (90_000, {"copy": 3, "launch": 0})])
def test_small_samples_apart_are_fetched_together(cuda, extent, per_batch):
    """Samples of the user go to the host with one launch and one copy beside that of its table; large samples with a copy each."""
    lender, asked = Lender(cuda), iter(range(100))

    def source():
        k = next(asked)
        return [lender(sample) for sample in pieces_of(k, extent)]

    pipe = built(lambda: fn.external_source(source, device="gpu", no_copy=True).cpu())
    pipe.run()
    pipe._core.session.wait_all()
    before = dict(cuda.calls)
    for k in range(1, 4):
        for made, expected in zip(pipe.run()[0], pieces_of(k, extent), strict=True):
            np.testing.assert_array_equal(np.array(made), expected)
    pipe._core.session.wait_all()
    pipe.close()
    assert {name: (cuda.calls[name] - before.get(name, 0)) / 3 for name in per_batch} == per_batch


@pytest.mark.parametrize("extent", [5, 90_000])
def test_samples_of_the_user_are_copied_with_one_launch(cuda, extent):
    lender, asked = Lender(cuda), iter(range(100))

    def source():
        k = next(asked)
        return [lender(sample) for sample in pieces_of(k, extent)]

    pipe = built(lambda: fn.external_source(source, device="gpu"))
    pipe.run()
    pipe._core.session.wait_all()
    before = dict(cuda.calls)
    outputs = [pipe.run()[0] for _ in range(3)]
    pipe._core.session.wait_all()
    counted = [(cuda.calls[name] - before.get(name, 0)) / 3 for name in ("copy", "launch")]
    for k, output in enumerate(outputs, 1):
        for made, expected in zip(contents(output), pieces_of(k, extent), strict=True):
            np.testing.assert_array_equal(made, expected)
    pipe.close()
    assert counted == [1, 1]


def test_a_part_of_a_list_is_gathered_for_the_host(cuda):
    pipe = built(lambda: fn.external_source(lambda: pieces_of(0, 5), device="gpu"))
    (output,) = pipe.run()
    before = dict(cuda.calls)
    part = output[::3]
    for made, expected in zip(contents(part), pieces_of(0, 5)[::3], strict=True):
        np.testing.assert_array_equal(made, expected)
    assert cuda.calls["launch"] - before.get("launch", 0) == 1
    expected = np.concatenate([sample.ravel() for sample in pieces_of(0, 5)[::3]]).tobytes()
    target = cuda.malloc(len(expected))
    output[::3].copy_to_external(target)
    assert ctypes.string_at(target, len(expected)) == expected
    cuda.free(target)
    pipe.close()


# --------------------------------------------------------------------------------------------------------------------- host data


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("source, options", [(picture, {"batch": False}), (pictures, {}), (dense, {})])
def test_data_of_a_callable_are_uploaded(cuda, source, options, no_copy):
    pipe = built(lambda: fn.flip(fn.flip(fn.external_source(source, device="gpu", layout="HWC", no_copy=no_copy, **options))))
    for i in range(4):
        (output,) = pipe.run()
        assert type(output).__name__ == "TensorListGPU" and output.layout() == "HWC"
        assert_pictures(output, i, dense if source is dense else pictures)
    pipe.close()


def test_uploads_do_not_wait_for_the_gpu(cuda):
    """Data is uploaded from pinned memory, which is kept until the upload is done."""
    pipe = built(lambda: fn.external_source(pictures, device="gpu"), depth=1)
    stream = cuda.stream_create()
    made = [pipe.run(stream)[0] for _ in range(4)]
    assert cuda.calls["stream_synchronize"] == cuda.calls["event_synchronize"] == 0
    for i, output in enumerate(made):
        assert_pictures(output, i)
    pipe.close()


def test_iterables_and_several_outputs(cuda):
    def batches():
        for i in range(3):
            yield pictures(i), dense(i)

    pipe = built(lambda: fn.external_source(batches, num_outputs=2, device="gpu"))
    for i in range(3):
        ragged, equal = pipe.run()
        assert_pictures(ragged, i)
        assert_pictures(equal, i, dense)
    with pytest.raises(StopIteration):
        pipe.run()
    pipe.close()


def test_fed(cuda):
    pipe = built(lambda: fn.external_source(name="x", device="gpu"))
    data = dense(0)
    pipe.feed_input("x", data)
    data[:] = 99  # it is copied
    pipe.feed_input("x", dense(1))
    for i in range(2):
        assert_pictures(pipe.run()[0], i, dense)
        pipe.feed_input("x", dense(i + 2))
    pipe.close()


def test_the_last_batch_again_and_an_empty_one(cuda):
    pipe = built(lambda: fn.external_source(name="x", device="gpu", repeat_last=True, dtype=types.UINT8, ndim=3), depth=1)
    assert len(pipe.run()[0]) == 0
    pipe.feed_input("x", dense(3))
    for _ in range(3):
        assert_pictures(pipe.run()[0], 3, dense)
    pipe.close()


def test_parallel(cuda):
    pipe = built(lambda: fn.external_source(picture, device="gpu", batch=False, parallel=True), py_start_method="fork", py_num_workers=1)
    for i in range(3):
        assert_pictures(pipe.run()[0], i)
    pipe.close()


# ---------------------------------------------------------------------------------------------------------------- data of the GPU


def run_lent(cuda, lend, source, iterations=4, of=pictures, **options):
    """Run a source that lends arrays and drops them immediately. Returns the outputs, read on arrival and again at the end."""
    pipe = built(lambda: fn.external_source(lambda i: lend(source(i)), device="gpu", layout="HWC", **options))
    downloads = cuda.calls["pageable downloads"]
    outputs = [pipe.run()[0] for _ in range(iterations)]
    assert cuda.calls["pageable downloads"] == downloads
    for i, output in enumerate(outputs):
        assert_pictures(output, i, of)
    pipe.close()


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("named", [True, False])
def test_lists_of_arrays(cuda, named, no_copy):
    lend = Lender(cuda, named)
    if no_copy and not named:
        stream, lend.stream = lend.stream, 0  # an array that names no stream is complete, or belongs to the default stream
        cuda.stream_destroy(stream)
    stream = None if named else lend.stream
    run_lent(cuda, lambda arrays: [lend(array) for array in arrays], pictures, no_copy=no_copy, cuda_stream=stream)


@pytest.mark.parametrize("no_copy", [False, True])
def test_one_array_for_a_batch(cuda, no_copy):
    run_lent(cuda, Lender(cuda), dense, of=dense, no_copy=no_copy)


@pytest.mark.parametrize("no_copy", [False, True])
def test_dlpack(cuda, no_copy):
    lend = Lender(cuda)
    run_lent(cuda, lambda array: Dlpack(lend(array)), dense, of=dense, no_copy=no_copy)


def test_arrays_that_are_not_dense_are_copied(cuda):
    lend = Lender(cuda)

    def fortran(array):
        made = lend(array)
        made.strides = (1, 4, 12, 60)
        return made

    run_lent(cuda, fortran, dense, of=dense)


def test_the_host_waits_only_where_no_stream_is_named(cuda):
    for named in (True, False):
        lend = Lender(cuda, named)
        pipe = built(lambda: fn.external_source(name="x", device="gpu"), depth=1)
        array = lend(dense(0))
        if not named:
            cuda.stream_synchronize(lend.stream)
        cuda.calls.clear()
        pipe.feed_input("x", array)
        assert (cuda.calls["event_synchronize"] == 0) == named
        assert_pictures(pipe.run()[0], 0, dense)
        pipe.close()


def test_the_users_stream_continues_after_the_copy(cuda):
    """The pipeline sees writes that the user's stream queued before `feed_input`, and no later ones."""
    pipe = built(lambda: fn.external_source(name="x", device="gpu"), depth=1)
    lend = Lender(cuda, named=False)
    array = lend(dense(0))

    def spoil():
        array._owner[:] = 77

    pipe.feed_input("x", array, cuda_stream=lend.stream)
    cuda._queue(lend.stream, ("write", spoil))
    cuda.stream_synchronize(lend.stream)
    assert_pictures(pipe.run()[0], 0, dense)
    pipe.close()


def test_without_a_copy_the_memory_is_used_where_it_is(cuda):
    """With `no_copy` the pipeline sees writes until the iteration runs. Outputs are copies, and arrays are released afterwards."""
    lend = Lender(cuda)
    gone = []
    kept = []

    def source(iteration):
        made = lend(dense(iteration))
        gone.append(weakref.ref(made))
        kept[:] = [made._owner]
        return made

    pipe = built(lambda: fn.external_source(source, device="gpu", no_copy=True), depth=1)
    (first,) = pipe.run()
    kept[0][:] = 123  # the iteration is over
    assert_pictures(first, 0, dense)
    for i in range(1, 12):
        assert_pictures(pipe.run()[0], i, dense)
    gc.collect()
    assert sum(item() is not None for item in gone) <= 3
    pipe.close()


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("fed", [dense, pictures])
def test_addresses_of_cupy_arrays_come_from_the_driver(cuda, monkeypatch, fed, no_copy):
    """CuPy's arrays name its current stream, so no array is asked for its interface. The batch has one buffer and one event."""
    asked = []
    interface = LazyArray.__cuda_array_interface__.fget
    monkeypatch.setattr(LazyArray, "__cuda_array_interface__", property(lambda self: (asked.append(1), interface(self))[1]))
    monkeypatch.setattr(cuda, "places", lambda values: places(values, 0))
    lend, gone = Lender(cuda), []
    monkeypatch.setattr(cuda, "current_stream", lambda: lend.stream)

    def source(iteration):
        made = [lend(sample) for sample in fed(iteration)]
        gone.extend(weakref.ref(item) for item in made)
        return made

    pipe = built(lambda: fn.flip(fn.flip(fn.external_source(source, device="gpu", layout="HWC", no_copy=no_copy))), depth=1)
    for i in range(8):
        assert_pictures(pipe.run()[0], i, fed)
    assert not asked
    gc.collect()
    assert sum(item() is not None for item in gone) <= 3 * BATCH
    monkeypatch.setattr(cuda, "places", lambda values: places(values, 3))
    with pytest.raises(RuntimeError, match=r"the data is on GPU 3, the pipeline runs on GPU 0: copy the data there first"):
        for _ in range(4):
            pipe.run()
    pipe.close()


def places(values, device):
    """The driver's answer for arrays of one type and rank."""
    addresses, shapes = ([getattr(item, name) for item in values] for name in ("address", "shape"))
    size = sum(map(math.prod, shapes)) * values[0].dtype.itemsize
    return ArrayPlaces(np.array(addresses), np.array(shapes), values[0].dtype, {device}, size)


class CupyArray:
    """The properties of a CuPy array that the driver reads."""

    def __init__(self, address, shape, dtype=np.uint8, dense=True, device=0):
        self.data = SimpleNamespace(ptr=address, device_id=device)
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.nbytes = math.prod(shape) * self.dtype.itemsize
        self.flags = SimpleNamespace(c_contiguous=dense)


def test_the_driver_reads_each_property_of_an_array_once():
    driver = CupyDriver.__new__(CupyDriver)
    driver.array_type = CupyArray
    found = driver.places([CupyArray(64, (2, 3)), CupyArray(128, (4, 5), device=1)])
    assert found.addresses.tolist() == [64, 128] and found.shapes.tolist() == [[2, 3], [4, 5]]
    assert found.dtype == np.uint8 and found.devices == {0, 1} and found.size == 26
    found = driver.places([CupyArray(64, (2, 3), np.int16), CupyArray(128, (2, 3), np.int16)])
    assert found.shapes.tolist() == [[2, 3], [2, 3]] and found.size == 24
    others = [
        CupyArray(0, (4, 0)), CupyArray(64, (4, 5), dense=False), CupyArray(64, (4, 5), np.int8), CupyArray(64, (4, 5, 6)), np.zeros((4, 5))
    ]
    for other in others:
        assert driver.places([CupyArray(64, (2, 3)), other]) is None
        assert driver.places([other, CupyArray(64, (2, 3))]) is None


@pytest.mark.parametrize("no_copy", [False, True])
def test_contents_of_arrays_of_a_gpu_are_read_behind_their_copy(cuda, no_copy):
    """The operator that reads matrices is planned when they are on the host. Each iteration has other ones."""
    lend = Lender(cuda)

    def rows(iteration):
        return np.broadcast_to(np.arange(40, dtype=np.uint8)[None, :, None, None], (BATCH, 40, 5, 2)) + np.uint8(iteration)

    def shifts(iteration):
        return np.float32([[[1, 0, 0], [0, 1, iteration + k]] for k in range(BATCH)])

    def fed(of, layout=None):
        return fn.external_source(lambda i: lend(np.ascontiguousarray(of(i))), device="gpu", no_copy=no_copy, layout=layout)

    def body():
        images, matrices, angles = fed(rows, "HWC"), fed(shifts), fed(lambda i: np.full(BATCH, 90 * i, np.float32))
        return fn.warp_affine(images, matrices, size=[6, 5], interp_type=types.INTERP_NN), fn.rotate(images, angle=angles.cpu())

    pipe = built(body)
    for i in range(8):
        moved, turned = pipe.run()
        for k, sample in enumerate(contents(moved)):
            np.testing.assert_array_equal(sample[:, 0, 0], rows(i)[k, i + k : i + k + 6, 0, 0])
        assert {sample.shape for sample in contents(turned)} == {(5, 40, 2) if i % 2 else (40, 5, 2)}
    pipe.close()


def test_dropped_arrays_are_kept_until_they_are_read(cuda):
    """Without a reference, the user's stream would free the memory before the pipeline's stream has read it."""
    lend = Lender(cuda)
    stream = cuda.stream_create()
    pipe = built(lambda: fn.flip(fn.external_source(lambda i: lend(dense(i)), device="gpu", no_copy=True, layout="HWC")), depth=1)
    outputs = []
    for _ in range(3):
        outputs.append(pipe.run(stream)[0])
        gc.collect()
        cuda.stream_synchronize(lend.stream)
    for i, output in enumerate(outputs):
        assert_pictures(output, i, dense)
    pipe.close()


def test_views_of_lent_memory_are_copied_for_the_user(cuda):
    lend = Lender(cuda)
    kept = []

    def source(iteration):
        made = lend(dense(iteration))
        kept.append(made._owner)
        return made

    def body():
        data = fn.external_source(source, device="gpu", no_copy=True, layout="HWC")
        return fn.reshape(data, shape=[15, 2]), fn.flip(data), data.cpu()

    pipe = built(body, depth=1)
    for i in range(3):
        views, flipped, host = pipe.run()
        kept[-1][:] = 200
        for k in range(BATCH):
            np.testing.assert_array_equal(contents(views)[k], dense(i)[k].reshape(15, 2))
            np.testing.assert_array_equal(contents(flipped)[k], dense(i)[k])
            np.testing.assert_array_equal(host.at(k), dense(i)[k])
    pipe.close()


def test_in_branches(cuda):
    lend = Lender(cuda)

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, enable_conditionals=True)
    def graph():
        data = fn.external_source(lambda i: lend(dense(i)), device="gpu", no_copy=True, layout="HWC")
        odd = fn.external_source(lambda info: np.bool_(info.idx_in_batch % 2), batch=False)
        if odd:
            made = fn.flip(data)
        else:
            made = data
        return made

    pipe = graph()
    for i in range(3):
        assert_pictures(pipe.run()[0], i, dense)
    pipe.close()


@pytest.mark.parametrize("name, at", [(b"dltensor", 1), (b"dltensor_versioned", 5)])
def test_the_device_of_a_bare_capsule_is_found(name, at):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    for kind, on_gpu in ((1, False), (2, True), (13, True)):
        words = np.zeros(16, np.int64)  # the struct has an address, then the device; a versioned struct has 32 bytes in between
        words[at : at + 1].view(np.int32)[0] = kind
        assert FedArrays.has(make(words.ctypes.data, name, None)) == on_gpu
    assert not FedArrays.has(np.zeros(3).__dlpack__())


@pytest.mark.parametrize("no_copy", [False, True])
def test_outputs_of_another_pipeline(cuda, no_copy):
    first = built(lambda: fn.external_source(pictures, device="gpu", layout="HWC"))
    second = built(lambda: fn.external_source(name="x", device="gpu", no_copy=no_copy), depth=1)
    stream = cuda.stream_create()
    for i in range(4):
        (output,) = first.run(stream)
        second.feed_input("x", output if i % 2 else [output[k] for k in range(BATCH)])
        cuda.calls.clear()
        del output
        (made,) = second.run(stream)
        assert made.layout() == "HWC"
        assert_pictures(made, i)
    first.close()
    second.close()


def test_declared_types_and_ranks_are_checked(cuda):
    lend = Lender(cuda)
    pipe = built(lambda: fn.external_source(name="x", device="gpu", dtype=types.FLOAT), depth=1)
    pipe.feed_input("x", lend(dense(0)))
    with pytest.raises(RuntimeError, match="Expected data of type FLOAT and got UINT8"):
        pipe.run()
    pipe.close()


@pytest.mark.parametrize(
    "made, error",
    [
        (lambda lend: [lend(value_of(0)), value_of(1)], "cannot be mixed"),
        (lambda lend: lend(np.zeros((), np.float32)), "at least one dimension"),
        (lambda lend: [lend(value_of(0)), lend(np.zeros((3, 5, 2), np.float32))], "same type"),
        (lambda lend: [lend(value_of(0)), lend(np.zeros((3, 5), np.uint8))], "number of dimensions"),
        (lambda lend: lend(np.zeros((2, 3), np.complex64)), "complex64"),
        (lambda lend: Dlpack(lend(value_of(0)), device=1), "the data is on GPU 1, the pipeline runs on GPU 0"),
        (lambda lend: [lend(value_of(0))] * (BATCH + 1), "the batch size of the pipeline is 4"),
    ],
)
def test_refused(cuda, made, error):
    pipe = built(lambda: fn.external_source(name="x", device="gpu"), depth=1)
    lend = Lender(cuda)
    with pytest.raises(RuntimeError, match=error):
        pipe.feed_input("x", made(lend))
    pipe.feed_input("x", lend(dense(0)))  # the input continues
    assert_pictures(pipe.run()[0], 0, dense)
    pipe.close()


# ------------------------------------------------------------------------------------------------------------------- properties


def test_properties_of_data_on_the_gpu(cuda):
    def body():
        data = fn.external_source(pictures, device="gpu", layout="HWC")
        return fn.get_property(data, key="layout"), fn.get_property(data, key="source_info"), data.shape()

    pipe = built(body)
    for _ in range(2):
        layout, info, shape = pipe.run()
        assert [bytes(sample) for sample in contents(layout)] == [b"HWC"] * BATCH
        assert [sample.size for sample in contents(info)] == [0] * BATCH
    assert [tuple(sample) for sample in contents(shape)] == [value_of(BATCH + k).shape for k in range(BATCH)]
    pipe.close()


# ----------------------------------------------------------------------------------------------------- one segment on a GPU


def noise(iteration):
    return np.random.default_rng(iteration).integers(0, 255, (BATCH, 6, 5, 2), np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("lent", [False, True])
def test_operators_that_read_contents_on_the_cpu_do_not_wait_on_the_gpu(cuda, lent):
    """On the CPU, normalize over a batch reads data while planning. On a GPU the host reads no data: all operators are one segment."""
    lend = Lender(cuda)

    def body():
        data = fn.external_source(lambda i: lend(noise(i)) if lent else noise(i), device="gpu", layout="HWC")
        return fn.normalize(fn.flip(data) + 1, batch=True, scale=2.0), fn.normalize(data, axes=[0, 1])

    pipe = built(body, depth=1)
    assert len(pipe._core.session.plan.segments) == 1
    for i in range(3):
        whole, single = pipe.run()
        values = noise(i).astype(np.float32)
        flipped = (values[:, :, ::-1] - values.mean()) / values.std() * 2
        for k in range(BATCH):
            expected = (values[k] - values[k].mean((0, 1))) / values[k].std((0, 1))
            np.testing.assert_allclose(contents(whole)[k], flipped[k], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(contents(single)[k], expected, rtol=1e-4, atol=1e-5)
    pipe.close()


@pytest.mark.slow
def test_expressions_of_data_on_the_gpu_are_made_there(cuda):
    lend = Lender(cuda)

    def body():
        data = fn.external_source(lambda i: lend(noise(i)), device="gpu", layout="HWC")
        return fn.normalize(data + 1, batch=True), fn.normalize((data + 1) * 2, mean=1.0, stddev=2.0)

    pipe = built(body, depth=1)
    for i in range(3):
        whole, single = pipe.run()
        values = noise(i).astype(np.float32) + 1
        for k in range(BATCH):
            np.testing.assert_allclose(contents(whole)[k], (values[k] - values.mean()) / values.std(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(contents(single)[k], (values[k] * 2 - 1) / 2, rtol=1e-5)
    pipe.close()


# ---------------------------------------------------------------------------------------------------------------------- engines


def test_blocks_of_engines_are_page_locked_once(cuda):
    """Uploads read the shared memory of engines directly. A block is page-locked once, however many iterations use it."""

    def body():
        wide = fn.external_source(source=lambda k: np.full((BATCH, 100, 300), k, np.float32))
        return (wide * 2).gpu() + 1

    wanted = built(body)
    expected = [contents(wanted.run()[0]) for _ in range(12)]
    pipe = built(body, engines=1)
    found = [contents(pipe.run()[0]) for _ in range(4)]
    registered = cuda.calls["host_register"]
    found += [contents(pipe.run()[0]) for _ in range(8)]
    assert all((a == b).all() for x, y in zip(found, expected) for a, b in zip(x, y))
    assert 0 < registered <= cuda.calls["host_register"] < 12
    assert cuda.calls["pageable uploads"] == 0
    pipe.close()
    del pipe
    wait_until(lambda: gc.collect() >= 0 and cuda.calls["host_unregister"] == cuda.calls["host_register"])


def test_blocks_that_cannot_be_page_locked_are_still_used(cuda):
    cuda.fails["host_register"] = 2
    pipe = built(lambda: fn.external_source(source=lambda k: np.full((BATCH, 100, 300), k, np.float32)).gpu() + 1, engines=1)
    assert all((sample == k + 1).all() for k in range(3) for sample in contents(pipe.run()[0]))
    assert cuda.calls["pageable uploads"] > 0
    pipe.close()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("options", [{}, {"exec_dynamic": False}, {"exec_pipelined": False, "exec_async": False, "exec_dynamic": False}])
def test_feeding_too_little(cuda, depth, no_copy, on_device, options):
    """Each batch is returned, and a missing one is an error that names the input."""
    lend = Lender(cuda)
    pipe = built(lambda: fn.external_source(name="x", device="gpu", no_copy=no_copy, layout="HWC"), depth, **options)
    for k in range(2):
        pipe.feed_input("x", lend(dense(k)) if on_device else pictures(k))
    for k in range(2):
        assert_pictures(pipe.run()[0], k, dense if on_device else pictures)
    for _ in range(2):
        with pytest.raises(IndexError, match="Nothing was fed to the external input 'x'"):
            pipe.run()
    pipe.close()
