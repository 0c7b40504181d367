"""Debug mode on a GPU, over the CUDA simulator: the same results as without debug mode."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import LazyArray, StandIn, StandInNvjpeg, use
from helpers.debug_programs import BATCH, PROGRAMS, assert_equal, images, jpeg, observed, reader, run, square, write_files

from asyncdali import fn, pipeline_def, types
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.device.cuda.arrays import CudaMemory
from asyncdali.device.cuda.device import CudaStream
from asyncdali.device.cuda.memory import CudaEvent, Events
from asyncdali.device.cuda.nvjpeg import HYBRID_MINIMUM, AllDecoded
from asyncdali.operators.base import REGISTRY
from asyncdali.runtime.gpu.device_segments import DeviceSegmentRun
from asyncdali.tensors import TensorListGPU
from asyncdali.tensors.lists import memory_of

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


@pytest.fixture
def nvjpeg(monkeypatch):
    library = StandInNvjpeg(StandIn())
    use(library.driver, monkeypatch)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    return library


@pytest.fixture
def cuda(nvjpeg):
    return nvjpeg.driver


def debugged(function, **options):
    options = {"batch_size": BATCH, "num_threads": 2, "device_id": 0, "seed": 7, **options}
    return pipeline_def(function, debug=True, **options)()


def is_on_gpu(output):
    return isinstance(output, TensorListGPU) and isinstance(memory_of(output), CudaMemory)


def contents(output):
    return [np.array(sample) for sample in output.as_cpu()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_the_graph(cuda, name):
    made = run(PROGRAMS[name], True)
    assert cuda.calls["copy"]
    assert_equal(made, run(PROGRAMS[name], False))


@pytest.mark.parametrize("options", [{"num_threads": 1}, {"enable_statistics": False}, {"device_id": None}])
def test_options(cuda, options):
    for name in ("conditional", "mixed_decoding"):
        assert_equal(run(PROGRAMS[name], True, **options), run(PROGRAMS[name], False, **options))


def test_readers(cuda, tmp_path):
    function = reader(write_files(tmp_path))
    assert_equal(run(function, True), run(function, False))


def decoded(decoder, batch=BATCH):
    def body():
        return fn.decoders.image(fn.external_source(jpeg, batch=False), device="mixed", decoder=decoder)

    return body, {"batch_size": batch, "enable_conditionals": False}


@pytest.mark.parametrize("decoder", ["hardware", "hybrid", "dynamic", "cpu", ""])
def test_decoders(nvjpeg, decoder):
    """In a batch of this size and depth all decoders share the pictures of a graph. Debug mode decodes each with the same decoder."""
    body, options = decoded(decoder, HYBRID_MINIMUM)
    options = {**options, "iterations": 2, "prefetch_queue_depth": 5}
    made = run(body, True, **options)
    batches = nvjpeg.driver.calls["nvjpegDecodeBatched"]
    assert not nvjpeg.open  # states and handles were destroyed
    assert_equal(made, run(body, False, **options))
    graphs = nvjpeg.driver.calls["nvjpegDecodeBatched"] - batches  # also of iterations that were made ahead
    assert bool(batches) == bool(graphs) == (decoder != "cpu")


@pytest.mark.parametrize("interrupts", [0, 1])
def test_the_gpus_decoders_are_waited_for(nvjpeg, monkeypatch, interrupts):
    """They decode slowly: no earlier than the calling thread waits for them. An interrupted wait goes on before memory is released."""
    due, decode, wait, left = threading.Event(), nvjpeg._decode, AllDecoded.wait, [KeyboardInterrupt] * interrupts

    def slow(*args):
        assert due.wait(30)
        decode(*args)

    def waited(self):
        if left:
            raise left.pop()
        due.set()
        wait(self)

    monkeypatch.setattr(nvjpeg, "_decode", slow)
    monkeypatch.setattr(AllDecoded, "wait", waited)
    body, options = decoded("hardware")
    pipe = debugged(body)
    for _ in range(interrupts):
        with pytest.raises(KeyboardInterrupt):
            pipe.run()
        assert due.is_set()
    made = [[observed(output) for output in pipe.run()] for _ in range(3)]
    pipe.close()
    assert_equal(made, run(body, False, iterations=3, **options))


def test_nodes_show_their_data(cuda):
    seen = []

    def body():
        x = images(square)
        y = fn.flip(x.gpu())
        seen.append((x.get(), y.get(), str(y), y.shape(), y[1:3].get(), y.cpu().get(), y.device, y.layout, len(y.get())))
        with pytest.raises(TypeError, match="has no truth value"):
            bool(y)
        return y

    pipe = debugged(body)
    (output,) = pipe.run()
    host, made, text, shape, rows, back, device, layout, count = seen[0]
    assert (device, layout, count) == ("gpu", "HWC", BATCH)
    assert is_on_gpu(output) and is_on_gpu(made) and is_on_gpu(rows) and not isinstance(back, TensorListGPU)
    assert text.startswith('DataNodeDebug(\n    name="') and "TensorListGPU" in text
    assert shape == [(9, 11, 3)] * BATCH
    for sample, turned, part, same in zip(host, contents(made), contents(rows), back, strict=True):
        np.testing.assert_array_equal(turned, np.array(sample)[:, ::-1])
        np.testing.assert_array_equal(part, turned[1:3])
        np.testing.assert_array_equal(same, turned)
    pipe.close()


def test_python_functions(cuda):
    def body():
        x = fn.flip(images().gpu())
        made = fn.python_function(x, function=lambda array: array.map(lambda data: 255 - data), device="gpu", output_layouts="HWC")
        total = fn.python_function(
            x, device="gpu", batch_processing=True,
            function=lambda arrays: [array.map(lambda data: data.sum(dtype=np.int64).reshape(1), (1,), np.int64) for array in arrays],
        )  # fmt: skip
        return fn.flip(made), total, fn.python_function(x.cpu(), function=lambda array: array + np.uint8(1))

    assert_equal(run(body, True, enable_conditionals=False), run(body, False, enable_conditionals=False))


class Lender:
    """Arrays of a user's stream, filled when something waits for the stream."""

    def __init__(self, cuda):
        self.cuda, self.stream = cuda, cuda.stream_create()

    def __call__(self, data):
        return LazyArray(self.cuda, data.ctypes.data, data.shape, data.dtype, data).map(lambda _: data, stream=self.stream)


def batch(k, shapes=((5, 7, 3), (6, 7, 3), (5, 9, 3), (4, 4, 3))):
    return [np.random.default_rng([k, i]).integers(0, 255, shape).astype(np.uint8) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("no_copy", [False, True])
def test_sources_on_the_gpu(cuda, no_copy):
    cuda.use(0)
    lend = Lender(cuda)

    def body():
        x = fn.external_source(lambda k: [lend(data) for data in batch(k)], device="gpu", layout="HWC", no_copy=no_copy)
        return x, fn.flip(x), x.cpu()

    made = run(body, True)
    assert_equal(made, run(body, False))
    for k, (same, turned, _) in enumerate(made):
        for x, y, data in zip(same[-1], turned[-1], batch(k), strict=True):
            np.testing.assert_array_equal(x, data)
            np.testing.assert_array_equal(y, data[:, ::-1])


@pytest.mark.parametrize("named", [False, True])
def test_feeding_arrays_of_the_gpu(cuda, named):
    """Also before the first run, when no input is known."""
    cuda.use(0)
    lend = Lender(cuda)
    pipe = debugged(lambda: fn.flip(fn.external_source(name="x", device="gpu", layout="HWC")))
    for k in range(3):
        pipe.feed_input("x", [lend(data) for data in batch(k)], **({"cuda_stream": lend.stream} if named else {}))
        if k:
            (output,) = pipe.run()
            for made, data in zip(contents(output), batch(k - 1), strict=True):
                np.testing.assert_array_equal(made, data[:, ::-1])
    pipe.close()


def test_arrays_and_tensor_lists_as_inputs(cuda):
    cuda.use(0)
    lend = Lender(cuda)
    other = debugged(PROGRAMS["only_a_transfer"])
    (given,) = other.run()

    def body():
        on_the_host = TensorListGPU(np.stack([np.eye(3)[..., None]] * BATCH), "HWC")
        return fn.flip([lend(data) for data in batch(1)]), fn.flip(given), fn.flip(on_the_host)

    pipe = debugged(body)
    arrays, lists, hosts = pipe.run()
    assert all(map(is_on_gpu, (arrays, lists, hosts)))
    for made, expected in ((arrays, batch(1)), (lists, contents(given)), (hosts, [np.eye(3)[..., None]] * BATCH)):
        for x, y in zip(contents(made), expected, strict=True):
            np.testing.assert_array_equal(x, y[:, ::-1])
    pipe.close()
    other.close()


def test_errors_name_the_line_of_the_user(cuda, monkeypatch):
    def with_function():
        return fn.python_function(images().gpu(), function=lambda array: array.no_such_method(), device="gpu")  # line A

    def without_kernel():
        x = images().gpu()
        return fn.flip(x)  # line B

    def too_large():
        return fn.crop(images().gpu(), crop=[500, 500])  # line C

    for body, text, line in (
        (with_function, "(?s)sample 0.*AttributeError", "line A"),
        (without_kernel, "no CUDA kernels yet for: flip", "line B"),
        (too_large, "(?s)crop.*sample 0", "line C"),
    ):
        monkeypatch.setattr(REGISTRY["flip"], "on_cuda", body is not without_kernel)
        pipe = debugged(body)
        with pytest.raises(RuntimeError, match=text) as raised:
            pipe.run()
        assert line in str(raised.value), str(raised.value)
        pipe.close()


def test_an_error_loses_its_iteration_only(cuda):
    def source(info):
        if info.iteration == 1:
            return np.zeros((2, 2, 3), np.uint8)
        return square(info)

    def body():
        return fn.crop(images(source).gpu(), crop=[4, 5])

    def results(debug):
        pipe = pipeline_def(body, debug=debug, batch_size=BATCH, num_threads=2, device_id=0)()
        found = []
        for k in range(4):
            if k == 1:
                with pytest.raises(RuntimeError, match="crop"):
                    pipe.run()
            else:
                found.append([observed(output) for output in pipe.run()])
        pipe.close()
        return found

    assert_equal(results(True), results(False))


def test_a_failing_gpu(cuda):
    """A call of CUDA fails: the error names the operator, and a later run works."""
    pipe = debugged(lambda: fn.flip(images(square).gpu()))  # line D
    pipe.run()
    cuda.fails["launch"] = 700
    with pytest.raises(RuntimeError, match="(?s)line D.*700"):
        pipe.run()
    cuda.fails.clear()
    (output,) = pipe.run()

    class Info:
        idx_in_epoch = 2 * BATCH

    np.testing.assert_array_equal(contents(output)[0], square(Info)[:, ::-1])
    pipe.close()


def test_the_threads_device_stays(cuda):
    chosen = []

    def work():
        pipe = debugged(PROGRAMS["mixed_decoding"])
        pipe.build()
        for _ in range(2):
            outputs = pipe.run()
            chosen.append(cuda.current())
        outputs[0].as_cpu()
        pipe.close()
        chosen.append(cuda.current())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert chosen == [0, 0, 0]


def test_memory_and_streams_are_released(cuda):
    """Pipelines in turn use the same streams, and their memory is freed."""
    left = []
    for _ in range(3):
        before = set(threading.enumerate())
        pipe = debugged(PROGRAMS["mixed_decoding"])
        for _ in range(3):
            pipe.run()
        kept = pipe.run()
        pipe.close()
        assert set(threading.enumerate()) <= before
        assert [len(sample.shape) for sample in contents(kept[0])] == [3] * BATCH  # outputs outlive the pipeline
        del pipe, kept
        gc.collect()
        left.append((len(cuda._streams), len(cuda._memory), len(cuda._pinned)))
    assert left[0][1:] == left[2][1:] == (0, 0)
    assert left[0] == left[2]


def test_a_dropped_pipeline_is_closed(cuda):
    pipe = debugged(PROGRAMS["transfers"])
    pipe.run()
    streams = len(cuda._streams)
    del pipe
    gc.collect()
    assert not cuda._memory
    debugged(PROGRAMS["transfers"]).run()
    assert len(cuda._streams) == streams


def test_a_pipeline_of_cpu_operators_uses_no_gpu(cuda):
    pipe = debugged(lambda: fn.flip(images()))
    pipe.run()
    assert not cuda.calls
    pipe.close()


def test_an_interrupt_loses_no_data(cuda):
    """The iteration is repeated, and memory of its unfinished work is not reused."""
    raised = []

    def body():
        x = fn.flip(images(square).gpu())
        y = fn.flip(x, vertical=1)
        if not raised:
            raised.append(True)
            raise KeyboardInterrupt
        return x, y

    pipe = debugged(body)
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    raised_first = [[observed(output) for output in pipe.run()] for _ in range(3)]
    pipe.close()
    assert_equal(raised_first, run(body, False, iterations=3, enable_conditionals=False))


@pytest.mark.parametrize("place", ["plan", "_order_inputs", "_launch", "_queue", "events", "keep", "wait"])
def test_an_interrupt_inside_of_an_operator(cuda, monkeypatch, place):
    """Wherever it comes, the work that was queued is waited for, and the next run repeats the iteration."""
    owner, name = {
        "plan": (REGISTRY["flip"], "plan"), "events": (Events, "last"), "keep": (CudaStream, "keep"), "wait": (CudaEvent, "wait"),
    }.get(place, (DeviceSegmentRun, place))  # fmt: skip
    inner, due = getattr(owner, name), set()

    def interrupted(self, *args):
        if "before" in due:
            due.clear()
            raise KeyboardInterrupt
        made = inner(self, *args)
        if "behind" in due:
            due.clear()
            raise KeyboardInterrupt
        return made

    monkeypatch.setattr(owner, name, interrupted)

    def body():
        x = images(square)
        drawn = fn.random.uniform(range=(0.0, 1.0), shape=[3], seed=5, device="gpu")
        return fn.flip(x.gpu()), fn.flip(x.gpu().cpu().gpu(), vertical=1), drawn

    pipe = debugged(body)
    made = []
    for k in range(6):
        if k % 3:
            due.add("before" if k % 2 else "behind")
            with pytest.raises(KeyboardInterrupt):
                pipe.run()
            stream = pipe._core.engine._place._stream.handle
            assert not cuda._streams[stream]  # no work is left that could read memory which the next run fills
        made.append([observed(output) for output in pipe.run()])
    pipe.close()
    assert_equal(made, run(body, False, iterations=6, enable_conditionals=False))


def test_statistics(cuda):
    pipe = debugged(PROGRAMS["equal_shapes"])
    for _ in range(3):
        pipe.run()
    report = pipe.statistics()
    assert report.consumer.iterations == 3
    assert [stream.name for stream in report.streams] == ["caller"]
    assert report.streams[0].device_seconds > 0
    pipe.close()


@pytest.mark.parametrize("device_id", [None, 0])
def test_without_cuda(monkeypatch, device_id):
    """A machine without CUDA: the host device, or an error if the user wants CUDA."""
    from asyncdali.device import select

    monkeypatch.setattr(select, "_driver", None)
    monkeypatch.setattr(select, "cuda_driver_present", lambda: False)
    monkeypatch.setattr(select, "make_driver", select._cupy_driver)
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    pipe = debugged(lambda: images(square).gpu(), device_id=device_id)
    with pytest.raises(RuntimeError, match="no CUDA driver was found"):
        pipe.run()
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    (output,) = debugged(lambda: images(square).gpu(), device_id=device_id).run()
    assert isinstance(output, TensorListGPU) and not is_on_gpu(output)


def test_gpu_sources_of_several_outputs(cuda):
    def body():
        a, b = fn.external_source(lambda k: (batch(k), [np.int32(k)] * BATCH), num_outputs=2, device="gpu", layout=["HWC", ""])
        return fn.flip(a), b + 1

    assert_equal(run(body, True, enable_conditionals=False), run(body, False, enable_conditionals=False))


def test_a_constant_array_of_numbers(cuda):
    def body():
        return images(square).gpu() * types.Constant(np.float32([1, 2, 3]))

    assert_equal(run(body, True, enable_conditionals=False), run(body, False, enable_conditionals=False))
