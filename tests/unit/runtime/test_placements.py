"""Every placement of an executor, with every kind of segment, and everything that may happen to an iteration.

Which threads work on an iteration is a hint: the data, the errors and the order are those of :class:`OnThreads`.
"""

from __future__ import annotations

import io
import itertools
import os
import signal
import threading
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.cuda import StandIn, use
from helpers.engines import data_files, pipeline
from helpers.processes import wait_until
from PIL import Image

from asyncdali import fn, types
from asyncdali.errors import OperatorError, PipelineClosed
from asyncdali.runtime.order.placement import BesideEngines, OnCaller, OnLanes, OnLoop, OnThreads

BATCH, RUNS, BAD = 4, 9, 4
"""Samples of an iteration, iterations of a test, and the iteration that fails or is interrupted."""


@dataclass(frozen=True)
class Case:
    """A way to build a pipeline, and the placement that it gets. `gpu`: the pixels are made on the simulated GPU. `beside`: iterations
    are planned beside each other, if the operators allow it."""

    expected: type
    engines: int = 0
    gpu: bool = False
    beside: bool = False
    options: dict = field(default_factory=dict)


ALONE = {"num_threads": 1, "prefetch_queue_depth": 1}
CASES = {
    "threads": Case(OnThreads),
    "caller": Case(OnCaller, options=ALONE),
    "lanes": Case(OnLanes, beside=True, options={"prefetch_queue_depth": 3}),
    "lanes, depth 1": Case(OnLanes, beside=True, options=ALONE),
    "gpu threads": Case(OnThreads, gpu=True),
    "engines": Case(OnLoop, engines=1),
    "engines, depth 1": Case(OnLoop, engines=1, options=ALONE),
    "engines and gpu": Case(BesideEngines, engines=1, gpu=True),
}
KINDS = ("instant", "pixels", "files", "decoded", "python")


@pytest.fixture
def cuda(monkeypatch):
    driver = StandIn()
    use(driver, monkeypatch)
    return driver


def picture(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 255, (6 + number % 3, 8, 3), np.uint8)


def encoded(number: int) -> np.ndarray:
    out = io.BytesIO()
    Image.fromarray(picture(number)).save(out, "PNG")
    return np.frombuffer(out.getvalue(), np.uint8)


def checked(value: np.ndarray) -> np.ndarray:
    if value.size == 1:
        raise ValueError("the function refuses this sample")
    return value[::-1].copy()


class Batches:
    """The source of one of the graphs. `fails`: the batch with this number cannot be used. `acts`: called before each batch."""

    def __init__(self, kind: str, fails: int | None = None, acts=lambda number: None):
        self.kind, self.fails, self.acts, self.numbers = kind, fails, acts, itertools.count()

    def __call__(self) -> list[np.ndarray]:
        number = next(self.numbers)
        self.acts(number)
        return [self.sample(number * BATCH + k, number == self.fails and k == 2) for k in range(BATCH)]

    def sample(self, number: int, bad: bool) -> np.ndarray:
        if self.kind == "decoded":
            whole = encoded(number)
            return whole[: len(whole) // 2].copy() if bad else whole
        if self.kind == "instant":
            return np.float32([5, 1] if bad else [0, 1 + number])
        if self.kind == "python":
            return np.zeros(1, np.uint8) if bad else picture(number)
        return np.zeros((1, 1, 3), np.uint8) if bad else picture(number)


def graph(kind: str, batches: Batches, gpu: bool, files: list[str]):
    """The nodes of a graph whose CPU part has the given kind of segment."""

    def define():
        given = fn.external_source(batches, batch=True, dtype=types.FLOAT if kind == "instant" else types.UINT8)
        if kind == "instant":
            made = fn.random.uniform(range=given, shape=(3,))
        elif kind == "pixels":
            made = fn.slice(given, (1, 1), (3, 4), axes=(0, 1), normalized_anchor=False, normalized_shape=False)
        elif kind == "decoded":
            made = fn.decoders.image(given)
        elif kind == "python":
            made = fn.python_function(given, function=checked)
        else:
            read, _ = fn.readers.file(files=files, name="Reader", random_shuffle=True)
            made = fn.cat(read, fn.reshape(fn.slice(given, 0, 2, axes=(0,), normalized_anchor=False, normalized_shape=False), shape=[-1]))
        return (made.gpu() if kind == "files" else made.gpu() + 1, made) if gpu else made

    return define


def contents(outputs) -> list[list[tuple]]:
    batches = [output.as_cpu() if hasattr(output, "as_cpu") else output for output in outputs]
    return [[(np.array(batch[k]).shape, np.array(batch[k]).tobytes()) for k in range(len(batch))] for batch in batches]


def made(kind: str, batches: Batches, gpu: bool, files: list[str], engines: int = 0, **options):
    define = graph(kind, batches, gpu, files)
    return pipeline(define, engines, device_id=0 if gpu else None, enable_checkpointing=False, **options)


def expected(kind: str, gpu: bool, files: list[str], count: int = RUNS) -> list:
    """The results of the pipeline with the usual placement."""
    with closing(made(kind, Batches(kind), gpu, files)) as pipe:
        return [contents(pipe.run()) for _ in range(count)]


PLACED = [
    pytest.param((name, kind), id=f"{name}-{kind}", marks=() if (j + k) % 2 == 0 else pytest.mark.slow)
    for j, name in enumerate(CASES) for k, kind in enumerate(KINDS)
]  # fmt: skip
"""Each case with two or three kinds by default, each kind with four cases."""


@pytest.fixture(params=PLACED)
def placed(request):
    return request.param


@pytest.fixture
def case(placed, cuda):
    return CASES[placed[0]]


@pytest.fixture
def kind(placed):
    return placed[1]


def built(case: Case, kind: str, batches: Batches, files: list[str]):
    pipe = made(kind, batches, case.gpu, files, case.engines, **case.options)
    pipe._core.beside = case.beside
    pipe.build()
    usual = OnCaller if case.options == ALONE else OnThreads
    expected = usual if case.beside and kind == "python" else case.expected  # the function may depend on the order of its calls
    assert type(pipe._core.session.executor.placement) is expected
    return pipe


def test_a_waiting_caller_plans_a_pipeline_for_a_gpu(cuda):
    with closing(pipeline(lambda: fn.random.uniform(range=(0, 1), shape=(3,), device="gpu"), 0, device_id=0)) as pipe:
        found = [contents(pipe.run()) for _ in range(RUNS)]
        assert type(pipe._core.session.executor.placement) is OnCaller
    assert len({str(one) for one in found}) == RUNS


def test_data(case, kind, tmp_path):
    files = data_files(tmp_path)
    with closing(built(case, kind, Batches(kind), files)) as pipe:
        assert [contents(pipe.run()) for _ in range(RUNS)] == expected(kind, case.gpu, files)


def test_an_error_fails_its_iteration_only(case, kind, tmp_path):
    files = data_files(tmp_path)
    right = expected(kind, case.gpu, files)
    with closing(built(case, kind, Batches(kind, fails=BAD), files)) as pipe:
        for number in range(RUNS):
            if number == BAD:
                with pytest.raises(OperatorError):
                    pipe.run()
            else:
                assert contents(pipe.run()) == right[number]


def test_an_interrupt_loses_nothing(case, kind, tmp_path):
    """The signal comes while the source is called, which is inside of `run()`."""
    files, sent = data_files(tmp_path), []

    def acts(number: int) -> None:
        if number == BAD and not sent:
            sent.append(number)
            os.kill(os.getpid(), signal.SIGINT)

    found, interrupts = [], 0
    with closing(built(case, kind, Batches(kind, acts=acts), files)) as pipe:
        while len(found) < RUNS:
            try:
                found.append(contents(pipe.run()))
            except KeyboardInterrupt:
                interrupts += 1
    assert interrupts == 1
    assert found == expected(kind, case.gpu, files)


def test_closing_with_iterations_in_flight(case, kind, tmp_path):
    files = data_files(tmp_path)
    pipe = built(case, kind, Batches(kind), files)
    name = pipe._core.session.executor.stages.name
    for _ in range(case.options.get("prefetch_queue_depth", 2)):
        pipe.schedule_run()
    pipe.close()
    with pytest.raises(PipelineClosed):
        pipe.outputs()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith(name)])


def test_the_next_epoch(case, kind, tmp_path):
    """The source ends after five batches; after `reset` it begins again, and positions of readers and draws go on."""
    files, left = data_files(tmp_path), []

    def ends(number: int) -> None:
        left.append(number)
        if len(left) % 6 == 0:
            raise StopIteration

    def epochs(pipe) -> list:
        found = []
        for _ in range(2):
            for _ in range(5):
                found.append(contents(pipe.run()))
            with pytest.raises(StopIteration):
                pipe.run()
            pipe.reset()
        return found

    with closing(made(kind, Batches(kind, acts=ends), case.gpu, files)) as pipe:
        right = epochs(pipe)
    left.clear()
    with closing(built(case, kind, Batches(kind, acts=ends), files)) as pipe:
        assert epochs(pipe) == right
