"""Checkpoints: a pipeline continues exactly from any position. Checkpoints of other graphs are refused. Files are complete or absent."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, run_script, values
from helpers.probes import CounterProbe, Probe, call, fail_at
from helpers.rewriting import rewritten
from helpers.stateful import Counted
from helpers.warm import run_warm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncdali import Pipeline, fn, types
from asyncdali.checkpoint import decode
from asyncdali.errors import CheckpointError


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    for k in range(23):
        (root / f"{k:02}").write_bytes(bytes([k] * (k + 1)))
    return [str(root / f"{k:02}") for k in range(23)]


def make(graph, *, state=None, **options):
    return pipeline_of(graph, **{"batch_size": 4, "seed": 5, "enable_checkpointing": True, **options}, checkpoint=state)


def draws():
    return fn.random.uniform(name="U"), fn.copy(fn.random.normal(shape=[2], name="N"))


def everything(files, reader=None, gpu=True):
    """A graph of readers, draws that depend on each other, a counter, an unnamed operator and transfers."""
    def graph():
        contents, labels = fn.readers.file(files=files, name="R", **(reader or {}))
        size = fn.random.uniform(range=[1, 4], dtype=types.INT32, shape=[1])
        noise = fn.random.normal(shape=size, name="N")
        flip = fn.random.coin_flip(probability=fn.random.uniform(range=[0.0, 1.0]))
        moved = fn.copy(noise.gpu()).cpu() if gpu else fn.copy(noise)
        return contents, labels, moved, flip, call(CounterProbe, name="C")

    return graph


# --- continuing

READERS = st.fixed_dictionaries(
    {},
    optional={
        "num_shards": st.integers(1, 5), "pad_last_batch": st.booleans(), "stick_to_shard": st.booleans(), "random_shuffle": st.booleans(),
        "initial_fill": st.integers(1, 30), "prefetch_queue_depth": st.integers(1, 3), "lazy_init": st.booleans(),
    },
)  # fmt: skip
EXECUTORS = st.sampled_from(
    [{}, {"exec_dynamic": False}, {"exec_async": False}, {"exec_pipelined": False}, {"exec_async": False, "exec_pipelined": False}]
)
RUNS = st.fixed_dictionaries({"num_threads": st.integers(1, 4), "prefetch_queue_depth": st.integers(1, 5)})


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reader=READERS, shard=st.integers(0, 4), executors=st.tuples(EXECUTORS, EXECUTORS), runs=st.tuples(RUNS, RUNS),
       batch=st.integers(1, 9), steps=st.lists(st.integers(0, 7), min_size=1, max_size=3), epoch=st.booleans())  # fmt: skip
def test_any_position_continues_exactly(files, reader, shard, executors, runs, batch, steps, epoch):
    """Each pipeline of a chain is restored from the previous one, with other threads, depths and executors.

    Together the pipelines give the batches of one uninterrupted pipeline.
    """
    reader = {**reader, "shard_id": shard % reader.get("num_shards", 1)}
    if epoch and not reader.get("random_shuffle") and not reader.get("stick_to_shard"):
        reader["shuffle_after_epoch"] = True
    graph = everything(files, reader, gpu=False)
    whole = make(graph, batch_size=batch, **executors[0], **runs[0])
    state = None
    for number, count in enumerate(steps):
        # Every pipeline after the first has another seed, which the restored state replaces.
        which = number % 2
        part = make(graph, state=state, batch_size=batch, seed=5 + number, **executors[which], **runs[which])
        for _ in range(count):
            assert values(part.run()) == values(whole.run())
        state = part.checkpoint()
        assert part.is_restored_from_checkpoint is (number > 0)
        assert state == part.checkpoint()
        part.close()
    last = make(graph, state=state, batch_size=batch, seed=99)
    assert last.checkpoint() == state  # a restored pipeline that has not run gives the same checkpoint
    for _ in range(3):
        assert values(last.run()) == values(whole.run())
    whole.close()
    last.close()


@pytest.mark.slow
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reader=READERS, executors=st.tuples(EXECUTORS, EXECUTORS), runs=st.tuples(RUNS, RUNS), batch=st.integers(1, 9),
       count=st.integers(0, 40))  # fmt: skip
def test_any_position_continues_exactly_long(files, reader, executors, runs, batch, count):
    graph = everything(files, reader, gpu=False)
    whole = make(graph, batch_size=batch, **executors[0], **runs[0])
    for _ in range(count):
        whole.run()
    part = make(graph, state=whole.checkpoint(), batch_size=batch, **executors[1], **runs[1])
    for _ in range(6):
        assert values(part.run()) == values(whole.run())
    whole.close()
    part.close()


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_prefetched_iterations_are_not_part_of_a_checkpoint(files, depth):
    """A checkpoint describes the position behind the returned batches, however many batches were prefetched."""
    graph = everything(files, {"random_shuffle": True})
    reference = make(graph)
    batches = [values(reference.run()) for _ in range(8)]
    pipe = make(graph, prefetch_queue_depth=depth)
    fresh = pipe.checkpoint()
    assert isinstance(fresh, bytes) and pipe._core.session is not None
    for _ in range(3):
        pipe.schedule_run()
    pipe._core.session.wait_all()
    assert pipe.checkpoint() == fresh
    assert values(make(graph, state=fresh, seed=0).run()) == batches[0]
    for k in range(3):
        assert values(pipe.share_outputs() if k % 2 else pipe.outputs()) == batches[k]
        state = pipe.checkpoint()
        if k % 2:
            pipe.release_outputs()
        assert pipe.checkpoint() == state
        assert values(make(graph, state=state, seed=0).run()) == batches[k + 1]


def test_taking_checkpoints_changes_nothing(files):
    graph = everything(files)
    one, two = make(graph), make(graph, enable_checkpointing=False)
    for _ in range(8):
        one.checkpoint()
        assert values(one.run()) == values(two.run())
    assert not one.is_restored_from_checkpoint and not two.is_restored_from_checkpoint


def test_a_checkpoint_after_a_failed_iteration_continues_at_the_next_one():
    graph = lambda: (*draws(), call(CounterProbe, hook=fail_at(2), name="C"), call(Probe))  # noqa: E731
    clean = lambda: (*draws(), call(CounterProbe, name="C"), call(Probe))  # noqa: E731
    reference = make(clean)
    batches = [values(reference.run())[:3] for _ in range(5)]
    pipe = make(graph)
    for k in range(2):
        assert values(pipe.run())[:3] == batches[k]
    with pytest.raises(RuntimeError, match=r"planned failure 2"):
        pipe.run()
    assert values(make(clean, state=pipe.checkpoint()).run())[:3] == batches[3]
    assert values(pipe.run())[:3] == batches[3]


def test_a_lazy_reader_saved_before_it_returned_anything(files):
    graph = lambda: fn.readers.file(files=files, lazy_init=True, name="R")[1]  # noqa: E731
    pipe = make(graph, prefetch_queue_depth=4)
    pipe.schedule_run()
    pipe._core.session.wait_all()
    assert values(make(graph, state=pipe.checkpoint()).run())[0] == [[0], [1], [2], [3]]


def test_one_state_per_random_operator_that_counts_samples():
    """The position of a random operator is one number. It advances by the batch size."""
    pipe = make(draws, batch_size=3)
    states = []
    for _ in range(3):
        states.append(decode(pipe.checkpoint())["operators"]["U"])
        pipe.run()
    high = [int(state.split("_")[2].split(":")[0], 16) for state in states]
    assert [value - high[0] for value in high] == [0, 3, 6]


def test_a_smaller_batch_keeps_the_streams():
    state_of = make(draws)
    state_of.run()
    state = state_of.checkpoint()
    wanted = values(state_of.run())
    assert [column[:2] for column in wanted] == values(make(draws, state=state, batch_size=2).run())


def test_reader_positions_follow_the_golden_trace(files):
    """(epoch, age) after each batch, as recorded from DALI."""
    def trace(count, batch, steps, **reader):
        pipe = make(lambda: fn.readers.file(files=files[:count], name="R", **reader)[1], batch_size=batch)
        result = []
        for _ in range(steps):
            result.append(tuple(decode(pipe.checkpoint())["operators"]["R"][1:]))
            pipe.run()
        return result

    assert trace(10, 4, 9) == [(0, 0), (0, 4), (0, 8), (1, 2), (1, 6), (2, 0), (2, 4), (2, 8), (3, 2)]
    assert trace(10, 4, 9, pad_last_batch=True) == [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4), (1, 8), (2, 0), (2, 4), (2, 8)]
    assert trace(9, 4, 7, pad_last_batch=True, num_shards=2) == [(0, 0), (0, 4), (1, 0), (1, 4), (2, 0), (2, 4), (3, 0)]
    assert trace(10, 4, 9, num_shards=3, shard_id=1) == [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3), (6, 0), (7, 1), (8, 1), (9, 2)]
    assert trace(3, 8, 7) == [(0, 0), (2, 2), (5, 1), (8, 0), (10, 2), (13, 1), (16, 0)]
    assert trace(3, 8, 4, pad_last_batch=True) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_restoring_reads_no_file_again(files, tmp_path):
    """The delivered files are deleted. A restored pipeline continues without them."""
    copies = []
    for name in files:
        copies.append(str(tmp_path / os.path.basename(name)))
        Path(copies[-1]).write_bytes(Path(name).read_bytes())
    graph = lambda: fn.readers.file(files=copies, name="R", random_shuffle=True)[1]  # noqa: E731
    pipe = make(graph, batch_size=1, exec_pipelined=False)
    delivered = [values(pipe.run())[0][0][0] for _ in range(20)]
    state = pipe.checkpoint()
    for k in delivered:
        os.unlink(copies[k])
    restored = make(graph, state=state, batch_size=1, exec_pipelined=False)
    assert sorted(delivered + [values(restored.run())[0][0][0] for _ in range(3)]) == list(range(23))


def test_a_fresh_process(files, tmp_path):
    script = """
import json, sys
from asyncdali import Pipeline, fn
from helpers.pipelines import values
files, path, checkpoint, steps = json.loads(sys.argv[1])
pipe = Pipeline(batch_size=3, num_threads=1, seed=8 if not checkpoint else 1, enable_checkpointing=True,
                checkpoint=open(path, "rb").read() if checkpoint else None)
with pipe:
    pipe.set_outputs(fn.readers.file(files=files, random_shuffle=True)[1], fn.random.uniform())
print(json.dumps([values(pipe.run()) for _ in range(steps)]))
pipe.checkpoint(path)
"""

    def run(checkpoint, steps):
        arguments = json.dumps([files, str(tmp_path / "state"), checkpoint, steps])
        done = run_script(script, arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first, rest = run(False, 5), run(True, 6)
    whole = Pipeline(batch_size=3, num_threads=1, seed=8)
    with whole:
        whole.set_outputs(fn.readers.file(files=files, random_shuffle=True)[1], fn.random.uniform())
    assert first + rest == [values(whole.run()) for _ in range(11)]


# --- when it is not enabled


def test_checkpoints_must_be_enabled():
    """Saving and restoring need `enable_checkpointing`. Separated queues exclude checkpoints."""
    pipe = make(draws, enable_checkpointing=False)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"Cannot save the checkpoint.*`enable_checkpointing`"):
            pipe.checkpoint()
        pipe.run()
    restoring = make(draws, enable_checkpointing=False, state=make(draws).checkpoint())
    with pytest.raises(RuntimeError, match=r"Cannot restore checkpoint.*`enable_checkpointing`"):
        restoring.build()
    separated = {"prefetch_queue_depth": {"cpu_size": 2, "gpu_size": 2}}
    with pytest.raises(RuntimeError, match=r"`separated` pipeline execution"):
        make(draws, **separated).build()
    make(draws, enable_checkpointing=False, **separated).run()


def test_operators_from_outside_are_refused():
    outside = fn.random.uniform()
    with pytest.raises(RuntimeError, match=r"defined outside the pipeline scope.*_detached_"):
        make(lambda: fn.copy(outside)).build()
    make(lambda: fn.copy(outside), enable_checkpointing=False).run()


# --- checkpoints of other graphs


def refusal(graph, state, **options):
    with pytest.raises(CheckpointError) as caught:
        make(graph, state=state, **options).build()
    assert isinstance(caught.value, RuntimeError) and "might come from another pipeline" in str(caught.value)
    return str(caught.value)


def test_another_graph_is_refused_readably(files):
    def graph(**changes):
        reader = {"files": files, "num_shards": 2, **changes.get("reader", {})}
        noise = changes.get("noise", fn.random.uniform)
        outputs = lambda: (fn.readers.file(name="R", **reader)[1], noise(name="U"))  # noqa: E731
        return changes.get("outputs", outputs)

    state = make(graph()).checkpoint()
    make(graph(), state=state).build()
    make(graph(reader={"prefetch_queue_depth": 3, "read_ahead": True, "lazy_init": True}), state=state).build()  # these options may differ
    moved = [f"{os.path.dirname(name)}/./{os.path.basename(name)}" for name in files]
    make(graph(reader={"files": moved}), state=state, batch_size=2, num_threads=1, seed=None).build()
    assert "R: argument num_shards is 2 in the checkpoint, 3 in this pipeline" in refusal(graph(reader={"num_shards": 3}), state)
    assert "argument random_shuffle is default" in refusal(graph(reader={"random_shuffle": True}), state)
    assert "data set size 23 in the checkpoint, 22" in refusal(graph(reader={"files": files[:-1]}), state)
    text = refusal(graph(noise=fn.random.normal), state)
    assert "U: operator random.uniform in the checkpoint, random.normal in this pipeline" in text
    text = refusal(lambda: fn.random.uniform(name="V"), state)
    assert '"R" as a name of an operator' in text and "There's no checkpoint for operator \"V\"" in text and "outputs:" in text
    assert "inputs" in refusal(lambda: (graph()()[0], fn.random.uniform(fn.random.uniform(seed=1, name="S"), name="U")), state)


def test_the_order_of_definition_does_not_matter_for_named_operators():
    """Named operators are found by name."""
    one = make(lambda: (fn.random.uniform(name="A"), fn.random.normal(name="B")))
    one.run()

    def other():
        b = fn.random.normal(name="B")
        return fn.random.uniform(name="A"), b

    assert values(make(other, state=one.checkpoint()).run()) == values(one.run())


def test_with_strict_false_the_matching_states_are_restored(files, caplog):
    state_of = make(lambda: (fn.random.uniform(name="U"), fn.random.normal(name="N"), fn.random.coin_flip(name="F")))
    state_of.run()
    state = state_of.checkpoint()
    wanted = values(state_of.run())[0]
    graph = lambda: (fn.random.uniform(name="U"), fn.readers.file(files=files, name="N")[1], fn.random.uniform(name="new"))  # noqa: E731
    with caplog.at_level(logging.WARNING, "asyncdali"):
        pipe = make(graph, state=state, strict=False)
        uniform, labels, _ = values(pipe.run())
    assert uniform == wanted and labels == [[0], [1], [2], [3]] and pipe.is_restored_from_checkpoint
    assert '"F" as a name' in caplog.text and 'operator "N" cannot be restored' in caplog.text
    smaller = make(lambda: fn.readers.file(files=files, name="R")[1])
    for _ in range(4):
        smaller.run()
    make(lambda: fn.readers.file(files=files[:5], name="R")[1], state=smaller.checkpoint(), strict=False).run()


# --- data that is not a checkpoint


def test_damaged_checkpoints_are_refused():
    state = make(draws).checkpoint()
    with pytest.raises(CheckpointError, match=r"There's no checkpoint for operator"):
        make(draws, state=b"").build()
    for data in (b"\0\1\2", b"null", b"[]", b"{}", b'"x"', b"[" * 200_000, b'{"body": 3, "digest": 4}', "text", b"9" * 10_000,
                 bytes(range(256)) * 9):  # fmt: skip
        with pytest.raises(CheckpointError):
            make(draws, state=data).build()
    for wrong in (3, ["x"], memoryview(state), object()):
        with pytest.raises(TypeError):
            make(draws, state=wrong).build()
    for good in (bytearray(state), state.decode()):
        make(draws, state=good).build()


def test_every_altered_or_truncated_byte_is_noticed():
    state = make(draws).checkpoint()
    for k in range(0, len(state) - 2, 7):
        for data in (state[:k], state[:k] + bytes([state[k] ^ 1]) + state[k + 1 :], state[:k] + state[k + 1 :]):
            with pytest.raises(CheckpointError):
                decode(data)
    assert decode(state) and decode(state.strip())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.binary(max_size=300) | st.text(max_size=200))
def test_random_bytes_are_refused(data):
    with pytest.raises(CheckpointError):
        decode(data)


@pytest.mark.parametrize("value", [None, 3, "Philox", [], {}, "Philox_00_00:00_9", [1, 2, 3], [1, "x", 3], True])
def test_a_state_of_another_kind(files, value):
    """A state that is no position of the operator is refused."""
    graph = lambda: (fn.random.uniform(name="U"), fn.readers.file(files=files, name="R")[1])  # noqa: E731
    state = make(graph).checkpoint()
    for name in ("U", "R"):
        if (name, value) == ("R", [1, 2, 3]):
            continue  # this list is a valid position of a reader
        data = rewritten(state, lambda body, name=name: body["operators"].update({name: value}))
        with pytest.raises(CheckpointError, match=rf'"{name}" cannot be restored'):
            make(graph, state=data).build()


def test_missing_parts():
    state = make(draws).checkpoint()
    for key in ("operators", "graph", "iteration", "epoch", "version", "format"):
        for change in (lambda body, key=key: body.pop(key), lambda body, key=key: body.update({key: [1]})):
            with pytest.raises(CheckpointError):
                make(draws, state=rewritten(state, change)).build()
    with pytest.raises(CheckpointError, match=r"There's no checkpoint for operator \"U\""):
        make(draws, state=rewritten(state, lambda body: body["operators"].pop("U"))).build()
    with pytest.raises(CheckpointError, match=r"version 2"):
        make(draws, state=rewritten(state, lambda body: body.update(version=2))).build()


def test_a_checkpoint_is_readable_text_of_constant_size(files):
    """The checkpoint is readable text, contains every operator, and does not grow with the data set or the position."""
    pipe = make(everything(files, {"random_shuffle": True}))
    before = pipe.checkpoint()
    for _ in range(10):
        pipe.run()
    body = decode(pipe.checkpoint())
    assert body["format"] == "asyncdali checkpoint" and body["version"] == 1 and body["iteration"] == 10 and body["epoch"] == 0
    assert {"R", "N", "C"} < set(body["operators"]) and {"R", "N", "C", "__Copy_6"} <= set(body["graph"]["operators"]) | {"__Copy_6"}
    assert body["graph"]["operators"]["R"]["samples"] == 23
    assert len(pipe.checkpoint()) < len(before) + 40
    assert files[0] not in before.decode()


# --- files


def test_checkpoints_are_written_to_files(tmp_path):
    """`checkpoint(path)` writes the file that it returns."""
    pipe = make(draws)
    path = tmp_path / "state.json"
    path.write_text("old")
    assert pipe.checkpoint(path) == path.read_bytes() == pipe.checkpoint(filename=str(path))
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    with pytest.raises(FileNotFoundError):
        pipe.checkpoint(tmp_path / "no" / "state")
    assert os.listdir(tmp_path) == ["state.json"]


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_a_crash_while_writing_leaves_the_old_file(tmp_path, moment):
    script = """
import os, sys
from asyncdali import checkpoint
from asyncdali.system import files
moment, path = sys.argv[1:]
def die(*args):
    os._exit(9)
if moment == "write":
    class Half:
        def __init__(self, file): self.file = file
        def __enter__(self): return self
        def __exit__(self, *exc): pass
        def fileno(self): return self.file.fileno()
        def write(self, data):
            self.file.write(data[:3]); self.file.flush(); die()
    files.open = lambda *args, **options: Half(open(*args, **options))
else:
    setattr(os, moment, die)
checkpoint.write(path, b"new" * 1000)
"""
    path = tmp_path / "state"
    path.write_bytes(b"old")
    done = run_warm(script, moment, path)
    assert done.returncode == 9 and path.read_bytes() == b"old"


def test_an_error_while_writing_cleans_up(tmp_path, monkeypatch):
    from asyncdali import checkpoint

    path = tmp_path / "state"
    path.write_bytes(b"old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space"):
        checkpoint.write(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["state"]


def test_arrays_are_unchanged_by_checkpoints():
    pipe = make(draws)
    kept = pipe.run()[1].as_array()
    copy = kept.copy()
    pipe.checkpoint()
    np.testing.assert_array_equal(kept, copy)


# --- the data set is the same


def test_a_renamed_file_is_refused(tmp_path):
    from helpers.iterators import numbered_files

    numbered_files(tmp_path, 5)
    graph = lambda: fn.readers.file(file_root=str(tmp_path.parent), dir_filters=[tmp_path.name], file_filters=["*.bin"], name="R")[1]  # noqa: E731
    state = make(graph).checkpoint()
    make(graph, state=state).build()
    os.rename(tmp_path / "002.bin", tmp_path / "0020.bin")  # the order of files is the same
    with pytest.raises(CheckpointError, match=r"R: the names of its files"):
        make(graph, state=state).build()
    make(graph, state=state, strict=False).build()


def test_a_moved_data_set_is_the_same(files, tmp_path):
    import shutil

    graph = lambda paths: lambda: fn.readers.file(files=paths, name="R")[1]  # noqa: E731
    state = make(graph(files)).checkpoint()
    moved = [shutil.copy(path, tmp_path) for path in files]
    make(graph(moved), state=state).build()
    make(graph([os.path.relpath(path) for path in moved]), state=state).build()
    with pytest.raises(CheckpointError, match=r"R: the names of its files, or their order"):
        make(graph([moved[1], moved[0], *moved[2:]]), state=state).build()


def test_a_checkpoint_without_names(files):
    """Earlier releases did not store the names of files."""
    graph = lambda: fn.readers.file(files=files, name="R")[1]  # noqa: E731
    state = rewritten(make(graph).checkpoint(), lambda body: body["graph"]["operators"]["R"].pop("names"))
    make(graph, state=state).build()


# --- hostile checkpoints: a valid digest over arbitrary contents

HOSTILE = [None, True, -1, 0, 3, 2**63, 10**30, 1.5, "", "x", [], [1], [[]], {}, {"x": 1}, [["batch", 10**18]],
           [["end", -1]], "ahead", "here"]  # fmt: skip


def places(data, path=()):
    """Paths of all values in JSON data."""
    yield path
    if isinstance(data, dict):
        for key in data:
            yield from places(data[key], (*path, key))
    elif isinstance(data, list):
        for k, item in enumerate(data):
            yield from places(item, (*path, k))


def put(body, path, value):
    """Put `value` at a path of the body. If the value is None, the item is removed."""
    *way, last = path
    for key in way:
        body = body[key]
    if value is None and isinstance(body, dict):
        del body[last]
    else:
        body[last] = value


def hostile_graph(files, parallel):
    def source(position):
        if position >= 3:
            raise StopIteration
        return [np.int64([position])]

    return lambda: (
        fn.readers.file(files=files, name="R", random_shuffle=True)[1], fn.random.uniform(name="U"),
        fn.external_source(Counted(9), snapshot_every=3, name="S", cycle="raise", parallel=parallel), fn.external_source(source, name="P"),
    )  # fmt: skip


def check_hostile(files, parallel, strides):
    graph = hostile_graph(files, parallel)
    pipe = make(graph, batch_size=1, prefetch_queue_depth=3)
    for _ in range(2):
        pipe.run()
    state = pipe.checkpoint()
    body = json.loads(state)["body"]
    assert body["ahead"]["ended"] == "ahead" and body["operators"]["S"]["asks"] == [["batch", 2]]
    tried, step = 0, 0
    for path in list(places(body))[1:]:
        for value in HOSTILE:
            step += 1
            if step % strides:
                continue
            data = rewritten(state, lambda body, path=path, value=value: put(body, path, value))
            restored = make(graph, state=data, batch_size=1)
            try:
                restored.build()
            except CheckpointError:
                pass
            else:
                if path[:1] in (("epoch",), ("iteration",)):
                    assert value is not True and 0 <= value < 2**62
                for _ in range(2):  # a checkpoint that is accepted must also work
                    try:
                        restored.run()
                    except StopIteration:
                        restored.reset()
                    except ValueError as error:  # a worker gets its state with the request for the first batch
                        assert parallel and "'S'" in str(error)
            restored.close()
            tried += 1
    return tried


def test_hostile_contents_are_refused_or_valid(files):
    assert check_hostile(files, False, 7) > 85


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [False, True])
def test_hostile_contents_everywhere(files, parallel):
    assert check_hostile(files, parallel, 1) > 500
