"""Results that a callable may return, refused results and their messages, and errors of callables."""

from __future__ import annotations

import os
import pickle
import signal
import threading

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerCallbackError, WorkerError, WorkerPool
from helpers import worker_sources as ws


@pytest.fixture
def run():
    """Runs a callback as the only source of a pool, and returns its batches."""
    pools = []

    def make(callback, kind="samples", batch_size=3, workers=2, **options):
        pool = WorkerPool([Source(callback, kind, batch_size, name="letters", **options)], num_workers=workers)
        pools.append(pool)
        pool.start()
        return lambda iteration=0, epoch=0: pool.receive(pool.submit(0, iteration, epoch), timeout=300)

    yield make
    for pool in pools:
        pool.close()


class WithInterface:
    def __init__(self):
        self._array = np.arange(6, dtype=np.int16).reshape(2, 3)
        self.__array_interface__ = self._array.__array_interface__


class WithArray:
    def __array__(self, dtype=None, copy=None):
        return np.arange(6, dtype=np.int16).reshape(2, 3)


class WithDLPack:
    def __dlpack__(self, **_):
        return np.arange(6, dtype=np.int16).reshape(2, 3).__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class Tensor(WithInterface):
    def layout(self):
        return "HW"


def subclass():
    class Own(np.ndarray):
        pass

    return np.arange(6, dtype=np.int16).reshape(2, 3).view(Own)


GRID = np.arange(6, dtype=np.int16).reshape(2, 3)

ACCEPTED = {
    "array": (lambda: GRID, GRID),
    "scalar array": (lambda: np.array(3, np.uint16), np.uint16(3)),
    "numpy scalar": (lambda: np.float16(1.5), np.float16(1.5)),
    "numpy bool": (lambda: np.bool_(True), np.bool_(True)),
    "int": (lambda: -7, np.int32(-7)),
    "float": (lambda: 0.1, np.float32(0.1)),
    "bool": (lambda: True, np.bool_(True)),
    "bytes": (lambda: b"abc", np.frombuffer(b"abc", np.uint8)),
    "memoryview": (lambda: memoryview(b"abc"), np.frombuffer(b"abc", np.uint8)),
    "transposed": (lambda: GRID.T, GRID.T),
    "reversed": (lambda: GRID[::-1, ::-2], GRID[::-1, ::-2]),
    "read only": (lambda: np.broadcast_to(np.int8(4), (3, 3)), np.full((3, 3), 4, np.int8)),
    "big-endian": (lambda: GRID.astype(">i2"), GRID),
    "subclass": (subclass, GRID),
    "array interface": (WithInterface, GRID),
    "__array__": (WithArray, GRID),
    "DLPack": (WithDLPack, GRID),
    "DLPack capsule": (lambda: GRID.copy().__dlpack__(), GRID),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_samples(run, name):
    make, expected = ACCEPTED[name]
    ask = run(ws.Returns(make))
    for iteration in range(3):  # first without a prediction, then as predicted
        output = ask(iteration).outputs[0]
        assert output.dtype == expected.dtype and output.dtype.isnative
        for index in range(3):
            assert np.array_equal(output.sample(index), expected)


@pytest.mark.parametrize("name", ["int", "float", "numpy scalar", "array", "big-endian"])
def test_accepted_in_lists_of_a_batch(run, name):
    make, expected = ACCEPTED[name]
    ask = run(lambda i: [make(), make()], "batch")
    for iteration in range(3):
        batch = ask(iteration)
        assert batch.count == 2 and np.array_equal(batch.outputs[0].sample(1), expected)


def test_torch_tensors(run):
    torch = pytest.importorskip("torch")
    ask = run(lambda info: torch.full((2, 2), info.idx_in_batch, dtype=torch.float32, requires_grad=True))
    for iteration in range(3):
        assert ask(iteration).outputs[0].values[:, 0, 0].tolist() == [0, 1, 2]
    whole = run(lambda i: torch.arange(6).reshape(3, 2), "batch")
    for iteration in range(3):
        assert whole(iteration).outputs[0].values.tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(WorkerCallbackError, match="BFloat16"):
        run(lambda info: torch.zeros(2, dtype=torch.bfloat16))()


def test_layouts_of_tensors(run):
    ask = run(ws.Returns(Tensor))
    for iteration in range(3):
        output = ask(iteration).outputs[0]
        assert output.layout == "HW"
        assert all(np.array_equal(output.sample(i), GRID) for i in range(3))


class TensorList:
    def __init__(self, arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays)

    def at(self, index):
        return self.arrays[index]

    def layout(self):
        return "HW"


def test_tensor_lists_are_batches(run):
    ask = run(lambda i: TensorList([GRID, GRID[:1]]), "batch")
    for iteration in range(3):
        output = ask(iteration).outputs[0]
        assert output.layout == "HW" and output.shapes.tolist() == [[2, 3], [1, 3]]


def test_whole_tensors_keep_the_layout_of_a_sample(run):
    class Batch(Tensor):
        def layout(self):
            return "NH"

    assert run(ws.Returns(Batch), "batch")().outputs[0].layout == "H"


REFUSED = {
    "complex": (lambda: np.zeros(2, np.complex64), "complex"),
    "objects": (lambda: np.array([None]), "objects"),
    "text": (lambda: np.array(["a"]), "text"),
    "dates": (lambda: np.array(["2020-01-01"], "M8[D]"), "dates"),
    "structured": (lambda: np.zeros(2, "i4,f4"), "structured"),
    "long double": (lambda: np.zeros(2, np.longdouble), "extended"),
    "None": (lambda: None, "NoneType"),
    "str": (lambda: "abc", "'?str'?"),
    "dict": (lambda: {"a": 1}, "dict"),
    "list": (lambda: [1, 2], "list.*num_outputs"),
    "large int": (lambda: 2**40, "int32"),
    "object": (lambda: object(), "object"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_samples(run, name):
    make, words = REFUSED[name]
    if name == "long double" and np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long double is double here")
    ask = run(lambda info: make() if info.idx_in_epoch == 4 else np.int32(1))
    ask(0)
    with pytest.raises(WorkerCallbackError, match=words) as caught:
        ask(1)
    assert isinstance(caught.value, TypeError)
    assert "letters" in str(caught.value) and "sample 1 of iteration 1" in str(caught.value)
    assert ask(2).count == 3


def test_gpu_tensors_are_refused(run):
    class OnDevice:
        @property
        def __cuda_array_interface__(self):
            return {"data": (0, False), "shape": (1,), "typestr": "<f4", "version": 3}

    with pytest.raises(TypeError, match="GPU tensor"):
        run(ws.Returns(OnDevice))()


@pytest.mark.parametrize(
    "make", [lambda: None, lambda: "abc", lambda: {"a": 1}, lambda: 3, lambda: np.float32(3), lambda: iter([1]), lambda: b"abc"]
)
def test_refused_batches(run, make):
    with pytest.raises(TypeError, match="batch of type"):
        run(ws.Returns(make), "batch")()


def test_a_batch_without_an_axis(run):
    with pytest.raises(TypeError, match="no dimension"):
        run(lambda i: np.array(3), "batch")()


def test_a_batch_that_is_too_long(run):
    ask = run(lambda i: np.zeros((i, 2)), "batch")
    with pytest.raises(WorkerCallbackError, match=r"7 samples.*3 \(batch_size\)") as caught:
        ask(7)
    assert isinstance(caught.value, ValueError)
    assert ask(3).count == 3


def test_components_of_unequal_length(run):
    with pytest.raises(ValueError, match="equally many.*2, 3"):
        run(lambda i: (np.zeros(2), np.zeros(3)), "batch", num_outputs=2)()


@pytest.mark.parametrize("kind", ["samples", "batch"])
@pytest.mark.parametrize("result", [(np.zeros(1),), [np.zeros(1)], {0: np.zeros(1)}])
def test_too_few_components(run, kind, result):
    with pytest.raises(IndexError, match="2 components.*1 were given") as caught:
        run(lambda position: result, kind, num_outputs=2)()
    assert isinstance(caught.value, WorkerCallbackError)


@pytest.mark.parametrize("large", [False, True])
def test_samples_must_agree(run, large):
    extent = 20_000 if large else 2

    def mixed(info):
        if info.idx_in_epoch in (4, 10):
            return np.zeros(extent, np.float64)
        if info.idx_in_epoch == 7:
            return np.zeros((1, extent), np.int32)
        return np.zeros(extent, np.int32)

    ask = run(mixed, batch_size=3, workers=1)  # one slice
    ask(0)
    with pytest.raises(TypeError, match="dtype.*sample 0 has int32.*sample 1 has float64"):
        ask(1)
    with pytest.raises(TypeError, match="dimensions.*sample 0 has 1.*sample 1 has 2"):
        ask(2)
    across = run(mixed, batch_size=3, workers=3)  # three slices
    with pytest.raises(TypeError, match="dtype.*sample 0 has int32.*sample 1 has float64") as caught:
        across(1)
    assert isinstance(caught.value, WorkerCallbackError)
    assert across(0).count == 3


# ------------------------------------------------------------------------------------------------------------------- errors


def failure(ask, *position):
    with pytest.raises(WorkerError) as caught:
        ask(*position)
    return caught.value


def test_the_exception_of_the_callable_is_raised(run):
    ask = run(ws.FailsAt([4], KeyError("lost")))
    ask(0)
    error = failure(ask, 1)
    assert isinstance(error, KeyError) and isinstance(error, WorkerCallbackError)
    assert isinstance(error.__cause__, KeyError) and error.__cause__.args == error.args == ("lost",)
    for words in ("letters", "sample 1 of iteration 1", f"process {os.getpid()}"[:8], "worker_sources.py", "raise self.error"):
        assert words in str(error)
    assert ask(2).count == 3
    assert isinstance(failure(ask, 1), KeyError)  # the same position again


def test_exceptions_of_users_classes(run):
    error = failure(run(ws.FailsAt([0], ws.CustomError(7, "text"))))
    assert isinstance(error, ws.CustomError) and error.code == 7 and error.__cause__.code == 7
    assert isinstance(pickle.loads(pickle.dumps(error)), WorkerCallbackError)


def test_exceptions_that_cannot_be_made_again_from_their_arguments(run):
    error = failure(run(ws.FailsAt([0], ws.Awkward(1, 2, 3))))
    assert isinstance(error, ws.Awkward) and "Awkward: 1" in str(error)
    assert type(error.__cause__) is ws.Awkward and str(error.__cause__) == "1"


def test_exceptions_of_modules_that_this_process_lacks(run):
    def source(info):
        exec("class Strange(Exception): pass", scope := {"__name__": "nowhere"})
        raise scope["Strange"](lambda: 3)

    error = failure(run(source))
    assert type(error) is WorkerCallbackError and "nowhere.Strange" in str(error)


class Evil(Exception):
    def __init__(self, *args):
        super().__init__(*args)

    def __reduce__(self):
        return os.mkdir, ("/tmp/should-never-be-made",)


def test_errors_of_workers_cannot_run_code_in_the_parent(run):
    error = failure(run(ws.FailsAt([0], Evil(Evil("x")))))
    assert isinstance(error, WorkerCallbackError) and not os.path.exists("/tmp/should-never-be-made")


@pytest.mark.parametrize(
    "error", [OSError(2, "gone", "/x"), UnicodeDecodeError("utf8", b"a", 0, 1, "odd"), MemoryError("much"), AssertionError()]
)
def test_builtin_errors(run, error):
    found = failure(run(ws.FailsAt([0], error)))
    assert isinstance(found, type(error)) and type(error).__name__ in str(found)
    if isinstance(error, OSError):
        assert found.errno == 2 and found.filename == "/x"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_exceptions_that_end_programs_do_not_end_workers(run, error):
    ask = run(ws.FailsAt([0], error), workers=1)
    pid = failure(ask)
    assert type(pid) is WorkerCallbackError and type(error).__name__ in str(pid)
    assert ask(1).count == 3


def test_an_error_is_reported_before_the_end_of_data(run):
    def source(info):
        if info.idx_in_batch == 0:
            raise StopIteration
        if info.idx_in_batch in (2, 5):
            raise ValueError(info.idx_in_batch)
        return np.int32(0)

    ask = run(source, batch_size=6, workers=6)
    for iteration in range(10):
        assert failure(ask, iteration).args == (2,)


def test_the_end_inside_a_batch(run):
    ask = run(lambda info: np.int32(next(iter([] if info.idx_in_epoch >= 5 else [1]))))
    ask(0)
    with pytest.raises(StopIteration):
        ask(1)


def test_an_error_in_a_generator(run):
    def numbers():
        yield np.zeros((1, 1))
        raise ValueError("odd")

    ask = run(numbers, "stream", workers=1)
    ask(0)
    error = failure(ask, 1)
    assert isinstance(error, ValueError) and "batch 1" in str(error)
    with pytest.raises(StopIteration):
        ask(2)


def test_interrupts_leave_the_pool_usable(tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def source(iteration):
        if iteration == 0:
            open(gate).close()
        return np.full((1, 1), iteration)

    def interrupt():
        while not pool._dispatcher._pumping:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    with WorkerPool([Source(source, "batch", 1)], num_workers=1) as pool:
        tickets = [pool.submit(0, i, 0) for i in range(3)]
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            pool.receive(tickets[0], timeout=300)
        thread.join()
        open(gate, "w").close()
        assert [int(pool.receive(ticket, 300).outputs[0].values[0, 0]) for ticket in tickets] == [0, 1, 2]
