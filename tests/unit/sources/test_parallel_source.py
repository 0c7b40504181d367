"""Parallel external sources give the same batches as sources in this process, for any number of workers, queue and start method."""

from __future__ import annotations

import functools
import glob
import json
import os
import warnings

import numpy as np
import pytest
from helpers.marks import slow
from helpers.pipelines import pipeline_of, values
from helpers.sources import SIZE, EncodedPhotos, Failing, Positions, Walk, awaited, batch_generator, batches
from helpers.warm import run_warm

from asyncdali import Pipeline, fn, ops, pipeline_def, types

PICTURES = sorted(glob.glob(os.path.join(os.path.dirname(fn.__file__), "..", "data", "pictures", "**", "*.jpg"), recursive=True))


def log_of(pipe, epochs=2, most=9):
    """The batches and the ends of some epochs."""
    seen = []
    for _ in range(epochs):
        for _ in range(most):
            try:
                seen.append(values(pipe.run()))
            except StopIteration:
                seen.append("end")
                break
        pipe.reset()
    return seen


def make(graph, **options):
    return pipeline_of(graph, **{"batch_size": SIZE, **options})


KINDS = {
    "SampleInfo": lambda: {"source": Positions(), "batch": False},
    "ragged": lambda: {"source": Positions(ragged=True), "batch": False},
    "trailing": lambda: {"source": Positions(trailing=1), "batch": False},
    "no batch": lambda: {"source": Positions(length=0), "batch": False},
    "index": lambda: {"source": Positions(batch=True)},
    "BatchInfo": lambda: {"source": Positions(batch=True), "batch_info": True},
    "lists": lambda: {"source": Positions(batch=True, ragged=True)},
    "list": lambda: {"source": batches(3)},
    "list, raise": lambda: {"source": batches(3), "cycle": "raise"},
    "list, quiet": lambda: {"source": batches(3), "cycle": "quiet"},
    "generator function": lambda: {"source": batch_generator},
    "generator function, raise": lambda: {"source": batch_generator, "cycle": "raise"},
    "partial generator function": lambda: {"source": functools.partial(batch_generator), "cycle": "quiet"},
}


OPTIONS = (2, 1, 1), (2, 2, 3)
EVERY = slow(*((kind, *options) for kind in KINDS for options in (*OPTIONS, (1, 1, 2), (4, 5, 2))))


@pytest.mark.parametrize("kind, workers, ahead, depth", [*((kind, *OPTIONS[k % 2]) for k, kind in enumerate(KINDS)), *EVERY])
def test_same_stream_as_in_this_process(kind, workers, ahead, depth):
    plain = make(lambda: fn.external_source(**KINDS[kind]()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*There will be run only")
        parallel = make(
            lambda: fn.external_source(**KINDS[kind](), parallel=True, prefetch_queue_depth=ahead),
            py_num_workers=workers, prefetch_queue_depth=depth,
        )  # fmt: skip
        parallel.build()
    wanted = log_of(plain, epochs=3)
    assert log_of(parallel, epochs=3) == wanted


MODES = [{"exec_pipelined": False}, {"prefetch_queue_depth": {"cpu_size": 2, "gpu_size": 3}}, {"exec_async": False}]


@pytest.mark.parametrize("options", MODES)
def test_executor_modes(options):
    graph = lambda parallel: fn.external_source(Positions(), batch=False, parallel=parallel)  # noqa: E731
    assert log_of(make(lambda: graph(True), **options)) == log_of(make(lambda: graph(False)))


@pytest.mark.parametrize("lengths", [(8, 4, 6), (1, 3, 2)])
@pytest.mark.parametrize("policies", [("raise", "raise", "raise"), ("quiet", "raise", None)])
def test_several_sources(lengths, policies):
    def graph(parallel):
        nodes = [fn.external_source(batches(n), cycle=policy, parallel=parallel) for n, policy in zip(lengths, policies)]
        return (*nodes, fn.external_source(Positions(5), batch=False, parallel=parallel))

    assert log_of(make(lambda: graph(True), py_num_workers=2), 4) == log_of(make(lambda: graph(False)), 4)


def test_beside_a_source_of_this_process():
    graph = lambda: (fn.external_source(Positions(), batch=False, parallel=True), fn.external_source(Positions(), batch=False))  # noqa: E731
    assert all(item == "end" or item[0] == item[1] for item in log_of(make(graph, py_num_workers=2)))


def test_outputs_of_one_source():
    def graph(parallel):
        made = fn.external_source(Positions(outputs=2), num_outputs=2, batch=False, parallel=parallel, layout=["A"], dtype=[types.INT32])
        return tuple(made)

    assert log_of(make(lambda: graph(True))) == log_of(make(lambda: graph(False)))
    (first, second) = make(lambda: graph(True)).run()
    assert (first.layout(), second.layout()) == ("A", "")


def big(info):
    return np.full((200, 301), info.idx_in_epoch, np.uint8)


def test_users_may_keep_outputs():
    """Batches stay unchanged while later batches are computed, and after the workers have ended."""
    pipe = make(lambda: fn.external_source(big, batch=False, parallel=True), py_num_workers=2)
    held = [pipe.run()[0] for _ in range(12)]
    pipe.close()
    for k, batch in enumerate(held):
        assert [int(np.asarray(sample).min()) for sample in batch] == [int(np.asarray(sample).max()) for sample in batch]
        assert int(np.asarray(batch[1])[0, 0]) == (k * SIZE + 1) % 256


def test_class_form_asks_for_samples_by_default():
    pipe = make(lambda: ops.ExternalSource(source=Positions(), parallel=True)())
    assert log_of(pipe) == log_of(make(lambda: fn.external_source(Positions(), batch=False)))


def test_async_callables():
    parallel = make(lambda: fn.external_source(awaited, batch=False, parallel=True), py_num_workers=2)
    assert log_of(parallel) == log_of(make(lambda: fn.external_source(awaited, batch=False)))


# -------------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("workers", [0, -1, None, 1.5])
def test_number_of_workers(workers):
    with pytest.raises(RuntimeError, match=r"py_num_workers"):
        make(lambda: fn.external_source(Positions(), batch=False, parallel=True), py_num_workers=workers).build()
    make(lambda: fn.external_source(Positions(), batch=False), py_num_workers=workers).build()


def test_pickler_needs_another_start_method():
    with pytest.raises(ValueError, match=r"py_callback_pickler"):
        Pipeline(batch_size=1, num_threads=1, py_callback_pickler=json)
    with pytest.raises(ValueError, match=r"py_start_method"):
        Pipeline(batch_size=1, num_threads=1, py_start_method="thread")
    pipe = make(lambda: fn.external_source(Positions(), batch=False, parallel=True), py_start_method="spawn", py_callback_pickler=5)
    with pytest.raises(ValueError):
        pipe.build()


def test_no_worker_starts_without_parallel_sources():
    pipe = make(lambda: fn.external_source(Positions(), batch=False))
    pipe.start_py_workers()
    pipe.build()
    assert pipe.external_source_shm_statistics() == {"capacities": [], "per_sample_capacities": []}
    assert pipe.worker_statistics() == {}


def test_unused_parallel_sources_start_nothing():
    pipe = Pipeline(batch_size=1, num_threads=1)
    with pipe:
        fn.external_source(Positions(), batch=False, parallel=True)
        pipe.set_outputs(fn.random.uniform())
    pipe.run()
    assert pipe.worker_statistics() == {}


# ---------------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("at", [0, 1, 6, 11])
def test_an_error_comes_in_its_place_and_the_batch_is_asked_for_again(at, ahead, tmp_path):
    source = Failing(at, tmp_path / "marker")
    pipe = make(lambda: fn.external_source(source, batch=False, parallel=True, prefetch_queue_depth=ahead), py_num_workers=2)
    seen = []
    for _ in range(9):
        try:
            seen.append(values(pipe.run())[0][0][0])
        except KeyError as error:
            assert "sample" in str(error) and "Traceback" in str(error) and error.__cause__ is not None
            seen.append("KeyError")
        except StopIteration:
            break
    wanted = [0, 4, 8]
    wanted.insert(at // SIZE, "KeyError")
    assert seen == wanted


def test_data_of_the_wrong_type():
    pipe = make(lambda: fn.external_source(Positions(), batch=False, parallel=True, dtype=types.FLOAT))
    with pytest.raises(RuntimeError, match=r"type FLOAT and got INT32"):
        pipe.run()


# ----------------------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("kind, places", [("SampleInfo", 5), *slow(*((kind, 9) for kind in ("SampleInfo", "index", "BatchInfo", "async")))])
def test_resume_under_other_workers_and_queues(kind, places):
    def graph(parallel, **options):
        given = {"source": awaited, "batch": False} if kind == "async" else KINDS[kind]()
        return fn.external_source(**given, parallel=parallel, **options), fn.random.uniform()

    pipe = make(lambda: graph(True, prefetch_queue_depth=2), enable_checkpointing=True, py_num_workers=2)
    for _ in range(places):
        saved = pipe.checkpoint()
        reference = make(lambda: graph(False), enable_checkpointing=True, checkpoint=saved)
        other = make(lambda: graph(True), enable_checkpointing=True, checkpoint=saved, prefetch_queue_depth=4, py_num_workers=1)
        wanted = log_of(reference, 2)
        assert log_of(other, 2) == wanted
        try:
            assert values(pipe.run()) == wanted[0]
        except StopIteration:
            assert wanted[0] == "end"
            pipe.reset()


@pytest.mark.parametrize("every", [1, 3])
def test_resume_a_source_with_a_state(every):
    def graph(parallel):
        return fn.external_source(Walk(), parallel=parallel, snapshot_every=every)

    pipe = make(lambda: graph(True), enable_checkpointing=True, prefetch_queue_depth=3)
    for _ in range(6):
        saved = pipe.checkpoint()
        other = make(lambda: graph(True), enable_checkpointing=True, checkpoint=saved)
        plain = make(lambda: graph(False), enable_checkpointing=True, checkpoint=saved)
        wanted = [values(plain.run()) for _ in range(3)]
        assert [values(other.run()) for _ in range(3)] == wanted
        assert values(pipe.run()) == wanted[0]


class Counted:
    """A data set with a state. It can be iterated repeatedly and counts its iterations."""

    def __init__(self):
        self.index, self.rounds = 0, 0

    def __iter__(self):
        while self.index < 3:
            self.index += 1
            yield np.int32([[self.index + 10 * self.rounds]])
        self.index = 0
        self.rounds += 1

    def state_dict(self):
        return {"index": self.index, "rounds": self.rounds}

    def load_state_dict(self, state):
        self.index, self.rounds = state["index"], state["rounds"]


@pytest.mark.parametrize("depth, every, places", [(2, 2, 5), *slow((2, 2, 9), (1, 1, 9), (3, 1, 9))])
def test_resume_a_source_with_a_state_at_any_place_of_its_epochs(depth, every, places):
    def graph(parallel):
        return fn.external_source(Counted(), cycle="raise", parallel=parallel, snapshot_every=every)

    def step(pipe):
        try:
            return values(pipe.run())
        except StopIteration:
            pipe.reset()
            return "end"

    pipe = make(lambda: graph(True), enable_checkpointing=True, prefetch_queue_depth=depth)
    for _ in range(places):
        saved = pipe.checkpoint()
        other = make(lambda: graph(True), enable_checkpointing=True, checkpoint=saved)
        plain = make(lambda: graph(False), enable_checkpointing=True, checkpoint=saved)
        wanted = [step(plain) for _ in range(5)]
        assert [step(other) for _ in range(5)] == wanted
        assert step(pipe) == wanted[0]


# ---------------------------------------------------------------------------------------------------------------- start methods

SPAWNED = """
    import sys, numpy as np
    from asyncdali import Pipeline, fn
    offset = 100

    def of_main(info):
        if info.iteration >= 2:
            raise StopIteration
        return np.int32([info.idx_in_epoch + offset])

    def graph(source):
        pipe = Pipeline(batch_size=3, num_threads=1, py_num_workers=2, py_start_method=sys.argv[1])
        with pipe:
            pipe.set_outputs(fn.external_source(source, batch=False, parallel=True))
        pipe.start_py_workers()
        got = []
        try:
            while True:
                got.append([int(np.asarray(x)[0]) for x in pipe.run()[0]])
        except StopIteration:
            print(got)

    def closure():
        step = 2
        return lambda info: of_main(info) * step

    if __name__ == "__main__":
        graph(of_main)
        graph(lambda info: of_main(info) + 1)
        graph(closure())
"""


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_start_methods_with_functions_of_main(method, tmp_path):
    done = run_warm(SPAWNED, method)
    assert done.stdout.split("\n")[:3] == [
        "[[100, 101, 102], [103, 104, 105]]", "[[101, 102, 103], [104, 105, 106]]", "[[200, 202, 204], [206, 208, 210]]",
    ], done.stderr  # fmt: skip


def test_a_forked_child_leaves_the_workers_alone():
    """The child may free or close the pipeline while batches are in flight. The parent continues."""
    expected, pipe = (make(lambda: fn.external_source(Positions(), batch=False, parallel=True)) for _ in range(2))
    first = values(pipe.run())
    child = os.fork()
    if child == 0:
        try:
            pipe.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [first, *log_of(pipe, epochs=1)] == log_of(expected, epochs=1)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_unpicklable_sources_name_the_attribute(method):
    import threading

    source = Positions()
    source.guard = threading.Lock()
    pipe = make(lambda: fn.external_source(source, batch=False, parallel=True), py_start_method=method)
    with pytest.raises(TypeError, match=r"guard"):
        pipe.start_py_workers()


# --------------------------------------------------------------------------------------------------------------- the tutorial


@pytest.mark.parametrize("method", ["fork", *slow("spawn", "forkserver")])
def test_the_tutorial(method):
    """Two pipelines with separate workers, which are started before either pipeline is built. The images are decoded and brightened."""

    @pipeline_def
    def photos(source):
        jpegs, labels = fn.external_source(source=source, num_outputs=2, batch=False, parallel=True, dtype=[types.UINT8, types.INT32])
        images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
        enhanced = fn.brightness_contrast(images, contrast=2)
        return enhanced, labels

    assert len(PICTURES) >= 8
    training = photos(EncodedPhotos(PICTURES, 4), batch_size=4, num_threads=2, device_id=0, py_num_workers=4, py_start_method=method)
    validation = photos(EncodedPhotos(PICTURES, 4), batch_size=4, num_threads=2, device_id=0, py_num_workers=4, py_start_method=method)
    for pipe in (training, validation):
        pipe.start_py_workers()
    for pipe in (training, validation):
        pipe.build()
    plain = Pipeline(batch_size=4, num_threads=2, device_id=0)
    with plain:
        jpegs, labels = fn.external_source(EncodedPhotos(PICTURES, 4), num_outputs=2, batch=False)
        plain.set_outputs(fn.brightness_contrast(fn.decoders.image(jpegs, device="mixed"), contrast=2), labels)
    for _ in range(2):
        for _ in range(len(PICTURES) // 4):
            wanted = [batch.as_cpu() for batch in plain.run()]
            for pipe in (training, validation):
                got = [batch.as_cpu() for batch in pipe.run()]
                for k in range(4):
                    assert np.array_equal(got[0].at(k), wanted[0].at(k))
                    assert np.array_equal(got[1].at(k), wanted[1].at(k))
        for pipe in (training, validation, plain):
            with pytest.raises(StopIteration):
                pipe.run()
            pipe.reset()


def test_statistics():
    pipe = make(lambda: fn.external_source(Positions(), batch=False, parallel=True, bytes_per_sample_hint=1 << 20), py_num_workers=2)
    pipe.run()
    shared = pipe.external_source_shm_statistics()
    assert shared["capacities"] and all(size >= 1 << 20 and size % 4096 == 0 for size in shared["capacities"])
    assert len(shared["per_sample_capacities"]) == len(shared["capacities"])
    found = pipe.worker_statistics()
    assert len(found["workers"]) == 2 and found["restarts"] == 0


def test_workers_end_with_the_pipeline():
    pipe = make(lambda: fn.external_source(Positions(), batch=False, parallel=True), py_num_workers=2)
    pipe.run()
    pids = pipe._core.processes.parallel.pool.pids
    assert len(pids) == 2
    pipe.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_large_samples_take_two_batches_of_memory():
    """The user holds one batch, and the workers compute another one. The memory of the first batch, whose size was unknown, is returned."""
    size = 12_000_000

    def give(info):
        return np.full(size, info.idx_in_epoch, np.uint8)

    pipe = Pipeline(batch_size=2, num_threads=1, py_num_workers=2, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.external_source(source=give, parallel=True, batch=False, prefetch_queue_depth=1))
    for k in range(5):
        (outputs,) = pipe.run()
        assert all((np.asarray(outputs[i])[[0, -1]] == 2 * k + i).all() for i in range(2))
        used = pipe.worker_statistics()["used_bytes"]
        del outputs
        assert k < 2 or used <= 4 * size + (6 << 20), (k, used)
    pipe.close()
