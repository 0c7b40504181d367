"""python_function beside DALI's: results, errors, DLPack capsules, and the current pipeline in a callback."""

from __future__ import annotations

import numpy as np
import pytest

import asyncdali
import asyncdali.fn

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
import nvidia.dali.fn  # noqa: E402, F401

LIBRARIES = (asyncdali, dali)

FUNCTIONS = {
    "one": (lambda a: a + 1, {}),
    "two": (lambda a: (a, a.astype(np.float32).sum(keepdims=True)), {"num_outputs": 2}),
    "tuple of one": (lambda a: (a * 2,), {}),
    "batch": (lambda samples: [a[::-1] for a in samples], {"batch_processing": True}),
    "batch of two": (lambda samples: (samples, [a * 3 for a in samples]), {"batch_processing": True, "num_outputs": 2}),
    "layout": (lambda a: a.reshape(1, -1), {"output_layouts": "AB"}),
    "layouts": (lambda a: (a, a), {"output_layouts": ["A", "B"], "num_outputs": 2}),
    "fewer layouts": (lambda a: (a, a), {"output_layouts": ["A"], "num_outputs": 2}),
}


def run(library, function, options, operator="python_function"):
    pipe = library.Pipeline(batch_size=3, num_threads=2, device_id=None)
    with pipe:
        data = library.fn.external_source(lambda k: np.int32([[k, 10 * j] for j in range(3)]))
        made = getattr(library.fn, operator)(data, function=function, **options)
        pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
    pipe.build()
    return [[(batch.layout(), [np.array(batch.at(k)).tolist() for k in range(len(batch))]) for batch in pipe.run()] for _ in range(3)]


@pytest.mark.parametrize("case", FUNCTIONS)
def test_function(case):
    ours, theirs = (run(library, *FUNCTIONS[case]) for library in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize("function", [lambda a: 1 / 0, lambda a: a.missing])
def test_errors(function):
    for library in LIBRARIES:
        with pytest.raises(RuntimeError) as caught:
            run(library, function, {})
        if library is asyncdali and "ZeroDivision" in str(caught.value):
            assert "division by zero" in str(caught.value)


class Carrier:
    """An object from which numpy takes a capsule."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **options):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0


def through_numpy(function):
    return lambda capsule: function(np.from_dlpack(Carrier(capsule))).__dlpack__()


CAPSULES = {
    "whole batches unless told otherwise": (lambda capsules: [through_numpy(lambda a: a + 1)(each) for each in capsules], {}),
    "one": (through_numpy(lambda a: a[::-1].copy()), {"batch_processing": False}),
    "two": (lambda capsules: (capsules, [np.ones((2, 1)).__dlpack__() for _ in capsules]), {"num_outputs": 2}),
    "layout": (through_numpy(lambda a: a.reshape(1, -1).copy()), {"output_layouts": "AB", "batch_processing": False}),
}


@pytest.mark.parametrize("case", CAPSULES)
def test_capsules(case):
    ours, theirs = (run(library, *CAPSULES[case], "dl_tensor_python_function") for library in LIBRARIES)
    assert ours == theirs


def current_inside(library):
    """The properties of `Pipeline.current()` in a callback."""
    found = []

    def look(a):
        pipe = library.Pipeline.current()
        assert isinstance(pipe, library.Pipeline)
        found.append((pipe.max_batch_size, pipe.num_threads, pipe.device_id, pipe.seed, pipe.exec_pipelined, pipe.exec_async))
        for name in ("run", "build", "schedule_run", "outputs", "share_outputs", "release_outputs", "checkpoint", "set_outputs"):
            with pytest.raises(RuntimeError):
                getattr(pipe, name)(None)  # DALI's properties are functions that expect an argument.
        return a

    run_with = library.Pipeline(batch_size=1, num_threads=2, device_id=None, seed=9, prefetch_queue_depth=1)
    with run_with:
        run_with.set_outputs(library.fn.python_function(library.fn.random.uniform(), function=look))
    run_with.build()
    run_with.run()
    return found[0]


def test_current_pipeline():
    ours, theirs = map(current_inside, LIBRARIES)
    assert ours == theirs == (1, 2, None, 9, True, True)
