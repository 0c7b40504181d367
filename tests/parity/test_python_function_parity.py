"""python_function beside DALI."""

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


def run(library, function, options):
    pipe = library.Pipeline(batch_size=3, num_threads=2, device_id=None)
    with pipe:
        data = library.fn.external_source(lambda k: np.int32([[k, 10 * j] for j in range(3)]))
        made = library.fn.python_function(data, function=function, **options)
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
