"""Conditional execution in debug mode: branches run with their samples, and results equal those of a graph."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from helpers.conditional_programs import Program, library_names, load, picture_files, run, seeded
from helpers.marks import seeds
from helpers.pipelines import values

import asyncdali
import asyncdali.fn
import asyncdali.types
from asyncdali import fn, pipeline_def, types
from asyncdali.pipeline import do_not_convert
from asyncdali.pipeline.debug.definition import DataNodeDebug

SIZE = 6
BASE = {"batch_size": SIZE, "num_threads": 2, "device_id": None, "seed": 11, "enable_conditionals": True}


def debug(function, **options):
    return pipeline_def(**{**BASE, **options}, debug=True)(function)()


def same_runs(function, runs=4, **options):
    """Run a function as a graph and in debug mode. The results must be equal."""
    graph, eager = pipeline_def(**{**BASE, **options})(function)(), debug(function, **options)
    for _ in range(runs):
        assert values(eager.run()) == values(graph.run())


def counted(start=0, step=1):
    return fn.external_source(lambda k: np.arange(SIZE, dtype=np.int32) * step + start + k, batch=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return picture_files(tmp_path_factory.mktemp("pictures"))


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_random_programs_equal_graphs(seed, files, tmp_path):
    """Every operator has a seed, because automatic seeds differ in debug mode."""
    text = seeded(Program(seed, depth=2, images=seed % 2 == 0).text)
    graph = load(text, tmp_path / "program.py", library_names(asyncdali, files, seed=3))
    assert run(asyncdali, graph, debug=True) == run(asyncdali, graph), text


def test_both_branches_run_with_their_samples():
    seen = []

    def graph():
        x = counted()
        if x % 2 == 0:
            x = x + 10
            seen.append(("even", x.get().as_array().tolist(), x.shape()))
        else:
            seen.append(("odd", len(x.get())))
        return x

    pipe = debug(graph)
    assert values(pipe.run()) == [[10, 1, 12, 3, 14, 5]]
    assert seen == [("even", [10, 12, 14], [(), (), ()]), ("odd", SIZE)]  # data that the branch did not use still has all samples
    pipe.run()
    assert seen[2][1] == [12, 14, 16]


def test_a_branch_without_samples_has_no_type():
    seen = []

    def graph():
        x = counted()
        y = fn.stack(x, x)
        if x > 100:
            y = fn.cast(y[0:1], dtype=types.FLOAT)
            seen.append((type(y), y.ndim, y.dtype, y.layout))
            y = fn.cast(y, dtype=types.INT32) + 1
        return y

    same_runs(graph, runs=1)
    assert seen[-1] == (DataNodeDebug, None, None, None)


def test_draws_readers_and_sources_in_branches(files):
    def graph():
        x = counted()
        c = counted(step=7) % 3 == 0
        if c:
            image = fn.decoders.image(fn.readers.file(files=files, random_shuffle=True, seed=4)[0])
            x = fn.cast(fn.random.uniform(range=[0, 100], seed=1), dtype=types.INT32) + counted(50)
        else:
            noise = fn.random.normal(np.zeros((4, 5, 3), np.float32), mean=fn.cast(x, dtype=types.FLOAT), stddev=3.0, seed=2)
            image = fn.reshape(fn.cast(noise, dtype=types.UINT8), layout="HWC")
        return x, fn.flip(image, horizontal=fn.random.coin_flip(seed=8)), fn.batch_permutation(seed=5)

    same_runs(graph)


def test_batches_of_different_sizes():
    def graph():
        x = fn.external_source(lambda k: np.arange(2 + k % 3, dtype=np.int32), batch=True)
        if x > 0:
            x = x + fn.random.coin_flip(seed=3)
        return x

    same_runs(graph, runs=6)


def test_assertions():
    def function():
        x = counted()
        if x % 2 == 0:
            assert x < SIZE + 2, f"too large in {x.name}"
            x = x + 1
        else:
            assert x >= 0
        return x

    graph, eager = pipeline_def(**BASE)(function)(), debug(function)
    for _ in range(2):
        assert values(eager.run()) == values(graph.run())
    eager, errors = debug(function), []
    for _ in range(4):
        try:
            eager.run()
        except RuntimeError as error:
            errors.append(str(error))
    assert len(errors) == 1 and "too large in" in errors[0] and "AssertionError" in errors[0]


def test_moving_between_devices():
    def graph():
        x = counted()
        y = x.gpu()
        if x > 2:
            y = (x + 1).gpu() * 2
        return y.cpu(), y

    same_runs(graph)


def test_arrays_and_input_sets_in_branches():
    def graph():
        x = counted()
        one, two = x, x + 10
        if x > 2:
            one, two = fn.cat(*fn.reshape([x, x + 1], shape=[1])), x + [np.array(k, np.int32) for k in range(SIZE)]
        else:
            one = fn.stack(x, x)
        return one, two

    assert values(debug(graph).run()) == [
        [[0, 0], [1, 1], [2, 2], [3, 4], [4, 5], [5, 6]], [10, 11, 12, 6, 8, 10],
    ]  # fmt: skip


def test_python_conditions_on_data_may_leave_out_operators():
    """The first operator that uses a node in a branch makes the split. Another operator may be the first one in the next run."""

    def graph():
        x, y = counted(), counted(100)
        flag = bool(x.get().at(0) % 2 == 0)
        if x > 2:
            if flag:
                y = y + 1
            x = y * 2
        return x

    pipe = debug(graph)
    assert values(pipe.run()) == [[0, 1, 2, 208, 210, 212]]
    assert values(pipe.run()) == [[1, 2, 206, 208, 210, 212]]
    assert values(pipe.run()) == [[2, 208, 210, 212, 214, 216]]


def test_escaped_nodes_and_plain_errors():
    def escapes():
        x, kept = counted(), []
        if x > 2:
            kept.append(x + 1)
        return kept[0]

    with pytest.raises(RuntimeError, match="was made in a branch of an `if` on nodes(?s:.*)test_debug_conditionals.py"):
        debug(escapes).run()

    def fails():
        x = counted()
        if x > 2:
            x = x // (x - x)  # here
        return x

    with pytest.raises(RuntimeError, match="(?s)division by zero") as caught:
        debug(fails).run()
    assert "# here" in str(caught.value)

    def wrong_condition():
        x = fn.stack(counted(), counted())
        if x:
            x = x + 1
        return x

    with pytest.raises(RuntimeError, match="(?s)in wrong_condition.*restricted to scalar"):
        debug(wrong_condition).run()

    @do_not_convert
    def marked():
        return counted()

    with pytest.raises(ValueError, match="do_not_convert"):
        debug(marked)


def test_random_streams_after_an_error_in_a_branch_equal_a_graphs():
    def graph():
        x = counted()
        if x == 5 + 2:  # from the third iteration on
            x = x + fn.python_function(x, function=only_once)
        y = fn.random.uniform(seed=3)
        if x > 3:
            y = y + fn.random.normal(y, seed=4)
        return x, y

    failed = []

    def only_once(value):
        if len(failed) < 2:
            failed.append(1)
            raise ValueError("once")
        return value

    graph_pipe, eager = (pipeline_def(**BASE, debug=flag, prefetch_queue_depth=1)(graph)() for flag in (False, True))
    found = []
    for pipe in (graph_pipe, eager):
        failed[:] = [1]
        runs = []
        for _ in range(5):
            try:
                runs.append(values(pipe.run()))
            except RuntimeError:
                runs.append("failed")
        found.append(runs)
    assert found[0] == found[1] and found[0].count("failed") == 1


def test_data_of_an_iteration_is_freed():
    nodes = []

    def graph():
        x = counted()
        if x > 2:
            x = fn.copy(x + 1)
        nodes.append(x._batch.memory_owner)
        return fn.copy(x)

    pipe = debug(graph)
    for _ in range(3):
        pipe.run()
    del nodes[:]
    gc.collect()
    alive = [item for item in gc.get_objects() if isinstance(item, DataNodeDebug) and item._home is pipe._core.debugged]
    assert not alive
