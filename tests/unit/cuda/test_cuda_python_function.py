"""User functions of arrays in GPU memory, over the CUDA simulator.

The pipeline's stream orders the calls, one call runs at a time, and results are copied before their memory is reused.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import LazyArray, PyCapsule

from asyncdali import fn, pipeline_def

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
BATCH = 4


def picture(info):
    return np.full((3 + info.idx_in_batch, 5, 2), info.idx_in_epoch, np.uint8)


def run(body, iterations=3):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def graph():
        return body(fn.flip(fn.external_source(picture, batch=False, layout="HWC").gpu()))

    pipe = graph()
    pipe.build()
    batches = [pipe.run() for _ in range(iterations)]
    made = [[[np.array(sample) for sample in output.as_cpu()] for output in batch] for batch in batches]
    pipe.close()
    return made


def plus(amount):
    return lambda array: array.map(lambda data: data + amount)


def assert_plus(made, amount):
    for i, (batch,) in enumerate(made):
        for k, sample in enumerate(batch):
            np.testing.assert_array_equal(sample, np.full((3 + k, 5, 2), i * BATCH + k + amount))


def test_per_sample(cuda):
    """The stream orders the function between the work before and after it. The host does not wait."""
    made = run(lambda x: fn.flip(fn.python_function(x, function=plus(3), device="gpu", output_layouts="HWC")))
    assert_plus(made, 3)


def test_no_wait(cuda):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, prefetch_queue_depth=1)
    def graph():
        return fn.python_function(fn.external_source(picture, batch=False).gpu(), function=plus(3), device="gpu")

    pipe = graph()
    cuda.use(0)
    stream = cuda.stream_create()
    for _ in range(4):
        pipe.run(stream)
    assert cuda.calls["stream_synchronize"] == cuda.calls["event_synchronize"] == 0
    pipe.close()


def test_whole_batches_and_several_outputs(cuda):
    def function(arrays):
        assert [array.shape for array in arrays] == [(3 + k, 5, 2) for k in range(BATCH)]
        return [plus(1)(array) for array in arrays], [array.map(lambda data: data.sum(dtype=np.int64), (), np.int64) for array in arrays]

    made = run(lambda x: fn.python_function(x, function=function, num_outputs=2, batch_processing=True, device="gpu"))
    assert_plus([batch[:1] for batch in made], 1)
    for i, (_, sums) in enumerate(made):
        assert [int(value) for value in sums] == [(i * BATCH + k) * (3 + k) * 10 for k in range(BATCH)]


def test_one_array_for_a_batch(cuda):
    def function(arrays):
        return arrays[1].map(lambda data: np.stack([data] * BATCH), (BATCH, *arrays[1].shape))

    for i, (batch,) in enumerate(run(lambda x: fn.python_function(x, function=function, batch_processing=True, device="gpu"))):
        assert len(batch) == BATCH
        for sample in batch:
            np.testing.assert_array_equal(sample, np.full((4, 5, 2), i * BATCH + 1))


def test_inputs_may_be_returned(cuda):
    assert_plus(run(lambda x: fn.python_function(x, function=lambda array: array, device="gpu")), 0)


def test_results_of_another_stream_are_waited_for(cuda):
    """The result's array interface names the stream, for which the pipeline's stream waits."""
    streams = {}

    def function(array):
        other = streams.setdefault(threading.get_ident(), cuda.stream_create())
        event = cuda.event_create()
        cuda.event_record(event, cuda.current_stream())
        cuda.stream_wait(other, event)
        return array.map(lambda data: data + 7, stream=other)

    assert_plus(run(lambda x: fn.python_function(x, function=function, device="gpu")), 7)


def test_capsules(cuda):
    calls = []

    def function(capsule):
        assert isinstance(capsule, PyCapsule)
        calls.append(cuda.calls["stream_synchronize"])
        return PyCapsule(plus(5)(capsule.array))

    options = {"function": function, "device": "gpu", "batch_processing": False}
    assert_plus(run(lambda x: fn.dl_tensor_python_function(x, **options), 1), 5)
    assert calls[0] >= 1  # the host waited for the data
    cuda.calls.clear()
    calls.clear()
    assert_plus(run(lambda x: fn.dl_tensor_python_function(x, synchronize_stream=False, **options), 1), 5)
    assert calls[0] == 0


def test_frameworks_have_the_pipelines_stream_as_their_current_one(cuda):
    entered = []

    class Function:
        def on_stream(self, stream, device):
            entered.append((stream, device))
            return cuda.on_stream(device, stream)

        def __call__(self, capsule):
            assert entered[-1] == (cuda.current_stream(), 0)
            return plus(2)(capsule.array)

    assert_plus(run(lambda x: fn.dl_tensor_python_function(x, function=Function(), device="gpu", batch_processing=False), 2), 2)


def test_arrays_that_are_not_dense_are_copied(cuda):
    def function(array):
        made = plus(4)(array)
        made.strides = tuple(4 * extent for extent in (40, 8, 4))
        return made

    assert_plus(run(lambda x: fn.python_function(x, function=function, device="gpu")), 4)


def test_side_effects_only(cuda):
    seen = []

    def body(x):
        fn.python_function(x, function=lambda array: seen.append(array.shape), num_outputs=0, device="gpu")
        return x

    run(body, 2)
    assert seen[: 2 * BATCH] == 2 * [(3 + k, 5, 2) for k in range(BATCH)]


def test_one_call_at_a_time_in_order(cuda):
    """Functions are called one at a time and in order, also together with a function on the CPU."""
    running, order = [], {"cpu": [], "gpu": []}

    def note(kind):
        def function(array):
            running.append(kind)
            assert len(running) == 1
            order[kind].append(array.shape[0] if kind == "gpu" else int(array.flat[0]))
            running.pop()
            return array

        return function

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def graph():
        data = fn.external_source(picture, batch=False)
        return fn.python_function(data.gpu(), function=note("gpu"), device="gpu"), fn.python_function(data, function=note("cpu"))

    pipe = graph()
    for _ in range(4):
        pipe.run()
    pipe.close()
    assert order["cpu"][: 4 * BATCH] == list(range(4 * BATCH))
    assert order["gpu"][: 4 * BATCH] == 4 * [3 + k for k in range(BATCH)]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda array: 1 / 0, "sample 0.*ZeroDivisionError"),
        (lambda array: np.zeros(3), "sample 0.*returns arrays in its memory .*got ndarray"),
        (lambda array: "text", "sample 0.*got str"),
        (lambda array: array if array.shape[0] != 5 else array.map(lambda data: data, dtype=np.int32), "sample 2 has int32"),
        (lambda array: array if array.shape[0] != 5 else array.map(lambda data: data.sum(), ()), "number of dimensions"),
    ],
)
def test_errors(cuda, function, text):
    with pytest.raises((RuntimeError, TypeError), match=f"(?s)python_function.*{text}"):
        run(lambda x: fn.python_function(x, function=function, device="gpu"), 1)


def test_the_simulated_driver_notices_results_that_are_not_copied(cuda):
    """The simulated driver reuses the memory of a function's result in the order of its stream, so a missing copy shows."""
    cuda.use(0)
    stream, late = cuda.stream_create(), cuda.stream_create()
    with cuda.on_stream(0, stream):
        array = LazyArray(cuda, cuda.malloc(4), (4,), np.dtype(np.uint8), None).map(lambda data: data * 0 + 1)
        target = cuda.host_alloc(4)
        event = cuda.event_create()
        cuda.event_record(event, stream)
        cuda.stream_wait(late, event)
        cuda.copy(target, array.address, 4, late)
        del array
        cuda.stream_synchronize(stream)
    cuda.stream_synchronize(late)
    assert (cuda._pinned[target] != 1).all()


def test_torch_functions_know_their_stream(monkeypatch):
    torch = pytest.importorskip("torch")
    from asyncdali.plugin.pytorch.function import _TorchFunction

    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle, device: ("stream", handle, device))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: ("current", stream))
    assert _TorchFunction(len).on_stream(77, 1) == ("current", ("stream", 77, 1))
