"""An engine is refused if its results could differ from those of the training process. The error names the difference."""

from __future__ import annotations

import os

import numpy as np
import pytest
from helpers.engines import pipeline, stream

from asyncdali import fn
from asyncdali.engines.wire import handshake
from asyncdali.engines.wire.handshake import difference
from asyncdali.pipeline.front import core_of


def graph():
    return fn.python_function(fn.random.uniform(range=[0, 1]), function=lambda value: value + 1)


def described(define=graph, **options):
    pipe = pipeline(define, 1, **options)
    pipe.build()
    found = core_of(pipe).processes.engines._description
    pipe.close()
    return found


def test_a_description_is_the_same_in_every_process():
    for method in ("fork", "spawn", "forkserver"):
        pipe = pipeline(graph, 1, engine_start_method=method)
        stream(pipe, 1)
        pipe.close()


def test_different_graphs_are_distinguished():
    here = described()
    assert difference(here, described()) == ""
    assert "seed: 11 here, 12 there" in difference(here, described(seed=12))
    assert "batch size: 4 here, 5 there" in difference(here, described(batch_size=5))
    for other in (
        lambda: fn.python_function(fn.random.uniform(range=[0, 2]), function=lambda value: value + 1),
        lambda: fn.python_function(fn.random.uniform(range=[0, 1]), function=lambda value: value + 2),
        lambda: fn.python_function(fn.random.normal(), function=lambda value: value + 1),
    ):
        assert "graph, operator" in difference(here, described(other))
    arrays = [described(lambda k=k: fn.random.uniform(range=[0, 1]) + np.float32([1, k])) for k in (1, 2)]
    assert "graph" in difference(*arrays)


def test_a_difference_names_both_values():
    here = {"packages": {"numpy": "2.4"}, "processor": {"features": "+avx,+avx2,-avx512f"}}
    assert difference(here, {"packages": {"numpy": "2.4"}, "processor": {"features": "+avx,+avx2,-avx512f"}}) == ""
    assert difference(here, {"packages": {"numpy": "2.5"}, "processor": here["processor"]}) == "packages, numpy: 2.4 here, 2.5 there"
    found = difference(here, {"packages": here["packages"], "processor": {"features": "+avx,-avx2,-avx512f"}})
    assert found == "processor, features: +avx2 here, -avx2 there"
    for nothing in (None, 3, [], {"packages": 3}):
        assert "numpy: 2.4 here, nothing there" in difference(here, nothing)


def test_another_processor_is_refused(monkeypatch):
    """An engine with other environment variables compiles its kernels for another processor."""
    monkeypatch.setitem(os.environ, "NUMBA_CPU_NAME", "generic")  # Numba is imported in this process
    pipe = pipeline(graph, 1, engine_start_method="spawn")
    with pytest.raises(RuntimeError, match=r"engine 0 differs from this process.*processor, name: \S+ here, generic there"):
        pipe.build()
    pipe.close()


def test_other_packages_are_refused(monkeypatch):
    monkeypatch.setattr(handshake, "_packages", lambda: {"numpy": "1.0"})
    pipe = pipeline(graph, 1, engine_start_method="spawn")
    with pytest.raises(RuntimeError, match=r"packages, numpy: 1.0 here, \d"):
        pipe.build()
    pipe.close()


def test_a_replacement_that_differs_is_refused(monkeypatch):
    """The packages of the environment were replaced while the program ran."""
    pipe = pipeline(graph, 1, engine_start_method="spawn", prefetch_queue_depth=1)
    stream(pipe, 1)
    monkeypatch.setitem(os.environ, "NUMBA_CPU_NAME", "generic")
    os.kill(pipe.statistics().engines[0].pid, 9)
    with pytest.raises(RuntimeError, match=r"engine 0 differs from this process.*generic there"):
        stream(pipe, 5)
    pipe.close()
