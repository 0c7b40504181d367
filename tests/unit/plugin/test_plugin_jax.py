"""JAX iterators on four CPU devices: arrays, shardings, factories, checkpoints, functions."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import helpers.jax_devices as jax_devices
import numpy as np
import pytest
from helpers.iterators import numbered_files, numbers, reader_pipelines, source_pipeline, walk
from helpers.pipelines import pipeline_of, run_script

from asyncdali import fn, pipeline_def

jax = pytest.importorskip("jax", reason="jax is not installed")
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

from asyncdali.plugin import jax as plugin  # noqa: E402
from asyncdali.plugin.jax import DALIGenericIterator, DALIGenericPeekableIterator, LastBatchPolicy  # noqa: E402

DEVICES = jax.devices("cpu")
four = pytest.mark.skipif(len(DEVICES) < jax_devices.COUNT, reason="jax was started with fewer than four CPU devices")


def mesh(*shape, names=("batch", "model")):
    return Mesh(np.array(DEVICES[: int(np.prod(shape))]).reshape(shape), names[: len(shape)])


def numbered(k, batch=2):
    """Batches [100 k + 10 i, ...] and their pictures."""
    def source(i):
        values = np.float32([[100 * k + 10 * i + j] for j in range(batch)])
        return values, np.broadcast_to(values[:, :, None, None], (batch, 4, 4, 3)).copy()

    return pipeline_of(lambda: tuple(fn.external_source(source, num_outputs=2)), batch_size=batch)


def test_one_pipeline():
    iterator = DALIGenericIterator(numbered(0), ["x", "picture"], size=6)
    held = list(iterator)
    assert [batch["x"].tolist() for batch in held] == [[[10 * i], [10 * i + 1]] for i in range(3)]
    assert all(isinstance(batch["picture"], jax.Array) and batch["picture"].shape == (2, 4, 4, 3) for batch in held)


def test_arrays_stay_valid():
    pipe = pipeline_of(lambda: fn.external_source(lambda i: np.full((2, 200, 100), i, np.float32)), batch_size=2)
    held = [batch["x"] for batch in DALIGenericIterator(pipe, ["x"], size=20)]
    pipe.close()
    assert [float(array.min()) for array in held] == [float(array.max()) for array in held] == list(range(10))


@four
@pytest.mark.parametrize("spec", [PartitionSpec("batch"), PartitionSpec(("batch", "model")), PartitionSpec()])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_global_arrays(spec, count):
    """The global array does not depend on the sharding. Each device has its slice."""
    sharding = NamedSharding(mesh(2, 2), spec)
    iterator = DALIGenericIterator([numbered(k, 4) for k in range(count)], ["x", "picture"], size=4 * count, sharding=sharding)
    batch = next(iterator)
    expected = [[100.0 * k + j] for k in range(count) for j in range(4)]
    assert batch["x"].tolist() == expected and batch["x"].sharding == sharding
    for shard in batch["picture"].addressable_shards:
        assert (np.asarray(shard.data)[:, 0, 0, :1] == np.array(expected)[shard.index[0]]).all()


@four
def test_a_sharding_over_two_dimensions():
    iterator = DALIGenericIterator([numbered(k) for k in range(2)], ["x", "picture"], size=4,
                                   sharding=NamedSharding(mesh(2, 2), PartitionSpec("batch")))  # fmt: skip
    picture = next(iterator)["picture"]
    again = jax.jit(lambda x: x.sum(axis=(1, 2, 3)))(picture)
    assert again.tolist() == [48 * value for value in (0, 1, 100, 101)]


@four
def test_arrays_for_pmap():
    pipes = [numbered(k) for k in range(4)]
    batch = next(DALIGenericIterator(pipes, ["x", "picture"], size=8, devices=DEVICES[:4]))
    assert batch["x"].shape == (4, 2, 1) and {shard.device for shard in batch["x"].addressable_shards} == set(DEVICES[:4])
    assert batch["x"].tolist() == [[[100.0 * k], [100.0 * k + 1]] for k in range(4)]
    flat = next(DALIGenericIterator([numbered(k) for k in range(4)], ["x", "p"], size=8, devices=DEVICES[:4], pmap_compatible=False))
    assert flat["x"].shape == (8, 1) and len(flat["x"].sharding.device_set) == 4
    on_one = next(DALIGenericIterator([numbered(k) for k in range(2)], ["x", "p"], size=8))
    assert on_one["x"].shape == (2, 2, 1) and len(on_one["x"].sharding.device_set) == 1
    assert next(DALIGenericIterator(numbered(0), ["x", "p"], pmap_compatible=True))["x"].shape == (1, 2, 1)


def test_refused():
    one = NamedSharding(mesh(1), PartitionSpec("batch"))
    for error, match, arguments in [
        (ValueError, "PARTIAL", {"last_batch_policy": LastBatchPolicy.PARTIAL}), (TypeError, "Sharding", {"sharding": "x"}),
        (ValueError, "not both", {"sharding": one, "devices": DEVICES[:1]}),
        (ValueError, "pmap", {"sharding": one, "pmap_compatible": True}),
        (ValueError, "devices", {"devices": DEVICES[:1] * 2}),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            DALIGenericIterator(numbered(0), ["x", "p"], size=4, **arguments)
    ragged = pipeline_of(lambda: fn.external_source(lambda i: [np.zeros(1), np.zeros(2)]), batch_size=2)
    with pytest.raises(RuntimeError, match=r"'boxes'.*different shapes"):
        next(DALIGenericIterator(ragged, ["boxes"]))
    with pytest.raises(RuntimeError, match="differ"):
        other = pipeline_of(lambda: (fn.random.uniform(), fn.random.uniform()), batch_size=2)
        next(DALIGenericIterator([numbered(0), other], ["x", "p"], size=4))


# --- checkpoints


@pytest.mark.parametrize("policy", [LastBatchPolicy.FILL, LastBatchPolicy.DROP])
@pytest.mark.parametrize("kind", [DALIGenericIterator, DALIGenericPeekableIterator])
@pytest.mark.parametrize("shards", [1, 3])
def test_restored_anywhere(tmp_path, policy, kind, shards):
    files = numbered_files(tmp_path, 11)

    def make(checkpoints=None):
        pipes = reader_pipelines(files, 2, shards, range(shards), checkpoints=checkpoints, random=True, random_shuffle=True)
        return kind(pipes, ["x", "draw"], reader_name="reader", auto_reset=True, last_batch_policy=policy)

    first = make()
    saved, found = [], []
    for _ in range(2 * (len(first) + 1)):
        saved.append(first.checkpoints())
        found += walk(first, 1)
        if kind is DALIGenericPeekableIterator:
            try:
                first.peek()  # this call changes nothing
            except StopIteration:
                pass
    found += walk(first, 3)
    for step in range(0, len(saved), 3):
        assert walk(make(saved[step]), len(found) - step) == found[step:], step


def test_peek():
    iterator = DALIGenericPeekableIterator(source_pipeline(2), ["x"], auto_reset=True)
    assert iterator.element_spec["x"].shape == (2, 1)
    first = iterator.peek()
    assert iterator.peek() is first and iterator.peek_async().result() is first and next(iterator) is first
    assert iterator.peek_async().result()["x"][0, 0] == 10
    next(iterator)
    assert iterator.peek_async().result() is None
    for _ in range(2):
        with pytest.raises(StopIteration):
            iterator.peek()
    assert list(iterator) == []  # `next` raises StopIteration, too
    assert len(list(iterator)) == 2


@pytest.mark.parametrize("auto_reset", [False, True])
def test_epochs_with_peek(tmp_path, auto_reset):
    """Each epoch is delivered once and completely, however often the program peeks."""
    files = numbered_files(tmp_path, 6)

    def make():
        pipes = reader_pipelines(files, 2, 1, [0])
        return DALIGenericPeekableIterator(pipes, ["x"], reader_name="reader", auto_reset=auto_reset)

    def epoch(iterator):
        return [batch["x"].flatten().tolist() for batch in iterator]

    whole = [[0, 1], [2, 3], [4, 5]]

    def peeked_to_the_end():
        iterator, found = make(), []
        while iterator.peek_async().result() is not None:
            found.append(next(iterator)["x"].flatten().tolist())
        assert found == whole
        return iterator

    iterator = peeked_to_the_end()
    iterator.reset()
    assert epoch(iterator) == epoch(iterator) == whole
    for number in (0, 1, 4):
        iterator = peeked_to_the_end()
        iterator.set_epoch(number)
        assert epoch(iterator) == whole and iterator._epoch == number + auto_reset

    def before_the_last():
        iterator = make()
        next(iterator), next(iterator), iterator.peek()
        return iterator

    iterator = before_the_last()
    assert epoch(iterator) == whole[2:] and epoch(iterator) == whole
    iterator = before_the_last()
    iterator.reset()  # in the middle of an epoch reset() does nothing
    assert epoch(iterator) == whole[2:]
    iterator = before_the_last()
    iterator.set_epoch(0)
    assert epoch(iterator) == whole[2:]
    iterator = before_the_last()
    iterator.set_epoch(1)
    assert epoch(iterator) == whole


def test_peekable_iterators_refuse_other_shapes():
    iterator = DALIGenericPeekableIterator(source_pipeline(2, last=1), ["x"])
    next(iterator)
    with pytest.raises(ValueError, match="must be alike"):
        next(iterator)


# --- factories


def shards_of(files):
    def graph(shard_id=0, num_shards=1, name="reader"):
        _, number = fn.readers.file(files=files, labels=list(range(len(files))), shard_id=shard_id, num_shards=num_shards, name=name)
        return number, fn.random.uniform()

    return graph


def test_data_iterator(tmp_path):
    files = numbered_files(tmp_path, 8)
    decorated = plugin.data_iterator(output_map=["x", "draw"], reader_name="reader", auto_reset=True)(shards_of(files))
    iterator = decorated(batch_size=4, seed=3, enable_checkpointing=True)
    assert [batch["x"].flatten().tolist() for batch in iterator] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    next(iterator)
    again = decorated(batch_size=4, seed=3, checkpoints=iterator.checkpoints())
    assert numbers(next(again)) == numbers(next(iterator))
    assert type(plugin.peekable_data_iterator(shards_of(files), output_map=["x", "draw"])(batch_size=4)) is DALIGenericPeekableIterator


@four
@pytest.mark.parametrize("kind", ["sharding", "devices"])
def test_data_iterator_over_devices(tmp_path, kind):
    files = numbered_files(tmp_path, 8)
    where = {"sharding": NamedSharding(mesh(4), PartitionSpec("batch"))} if kind == "sharding" else {"devices": DEVICES[:4]}
    decorated = plugin.data_iterator(shards_of(files), ["x", "draw"], reader_name="reader", **where)
    iterator = decorated(batch_size=4, enable_checkpointing=True, seed=2)
    batch = next(iterator)["x"]
    assert batch.flatten().tolist() == [0, 2, 4, 6] and batch.shape == ((4, 1) if kind == "sharding" else (4, 1, 1))
    assert numbers(next(decorated(batch_size=4, seed=2, checkpoints=iterator.checkpoints()))) == numbers(next(iterator))
    with pytest.raises(RuntimeError, match=r"\(1\) should match .* \(4\)"):
        decorated(batch_size=4, checkpoints=iterator.checkpoints()[:1])
    with pytest.raises(ValueError, match="divided"):
        decorated(batch_size=6)
    with pytest.raises(TypeError, match="shard_id"):
        plugin.data_iterator(lambda: fn.random.uniform(), ["x"], **where)(batch_size=4)
    with pytest.raises(ValueError, match="not both"):
        plugin.data_iterator(shards_of(files), sharding=where.get("sharding") or 1, devices=DEVICES)


@pytest.mark.slow
def test_a_global_array_of_two_processes(tmp_path):
    """Each process runs the pipelines of its devices. All processes compute with the whole array and resume in the middle of the epoch."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        coordinator = f"127.0.0.1:{found.getsockname()[1]}"
    program, outputs = Path(jax_devices.__file__).with_name("jax_process.py"), [tmp_path / str(k) for k in range(2)]
    processes = [
        subprocess.Popen([sys.executable, str(program), coordinator, "2", str(k), str(outputs[k])], stderr=subprocess.PIPE, text=True)
        for k in range(2)
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], errors
    results = [json.loads(path.read_text()) for path in outputs]
    shards = [[22 * k // 4 + j for j in range(22 * (k + 1) // 4 - 22 * k // 4)] for k in range(4)]  # the numbers of the files in each array
    for k, result in enumerate(results):
        assert result["length"] == len(result["found"]) == 3 and result["checkpoints"] == 2
        assert result["again"] == result["found"][1:]
        for step in range(2):  # the third batch is filled with samples of the next epoch
            batch = result["found"][step]
            assert batch["shape"] == [8, 1]
            assert batch["mine"] == {str(2 * d): shards[d][2 * step : 2 * step + 2] for d in (2 * k, 2 * k + 1)}
            assert batch["sum"] == sum(sum(shard[2 * step : 2 * step + 2]) for shard in shards)
        assert [batch["sum"] for batch in result["found"]] == [batch["sum"] for batch in results[0]["found"]]


# --- functions


def test_jax_function():
    data = np.arange(12, dtype=np.float32).reshape(2, 2, 3)

    @plugin.fn.jax_function
    @jax.jit
    def flipped(x):
        return x[:, :, ::-1]

    @plugin.fn.jax_function(num_outputs=2, output_layouts=["A", ""])
    def sums(x, y):
        return x.sum(axis=1), (x + y).sum(axis=(1, 2))

    def graph():
        x = fn.external_source(lambda i: data + i, layout="HW")
        return (flipped(x), *sums(x, x))

    pipe = pipeline_of(graph, batch_size=2)
    for i in range(3):
        one, two, three = pipe.run()
        assert (np.asarray(one) == (data + i)[:, :, ::-1]).all() and one.layout() == "HW"
        assert (np.asarray(two) == (data + i).sum(1)).all() and two.layout() == "A"
        assert (np.asarray(three) == 2 * (data + i).sum((1, 2))).all() and three.ndim() == 0


@four
def test_jax_functions_see_shardings():
    seen = []

    def function(x):
        seen.append(x.sharding)
        return x * 2

    sharding = NamedSharding(mesh(4), PartitionSpec("batch"))
    split = plugin.fn.jax_function(function, sharding=sharding)
    pipe = pipeline_of(lambda: split(fn.external_source(lambda i: np.ones((4, 2), np.float32))), batch_size=4)
    assert np.asarray(pipe.run()[0]).tolist() == [[2, 2]] * 4 and seen[0] == sharding


def test_arrays_kept_by_a_jax_function_do_not_change():
    kept = []

    def function(x):
        kept.append(x)
        return x

    def source(i):
        return np.full((2, 64), i, np.float32)

    pipe = pipeline_of(lambda: plugin.fn.jax_function(function)(fn.external_source(source) + 1), batch_size=2)
    for _ in range(6):
        pipe.run()
    assert [float(array[0, 0]) for array in kept[:6]] == [1, 2, 3, 4, 5, 6]


def test_jax_function_errors():
    def broken(x):
        raise KeyError("mine")

    def pipe(function, **arguments):
        def graph():
            made = plugin.fn.jax_function(function, **arguments)(fn.external_source(lambda i: [np.zeros(2), np.zeros(2)]))
            return tuple(made) if isinstance(made, list) else made

        return pipeline_of(graph, batch_size=2)

    for match, function, arguments in [
        ("KeyError", broken, {}), ("jax.Array", lambda x: "no", {}), ("batch size", lambda x: x[:1], {}),
        ("2 outputs", lambda x: x, {"num_outputs": 2}), ("layout", lambda x: x, {"output_layouts": "HWC"}),
    ]:  # fmt: skip
        with pytest.raises((RuntimeError, TypeError, ValueError), match=match):
            pipe(function, **arguments).run()
    with pytest.raises(TypeError, match="function"):
        plugin.fn.jax_function(3)


def test_the_function_runs_although_its_outputs_are_unused():
    calls = []

    @pipeline_def(batch_size=2, num_threads=1)
    def graph():
        plugin.fn.jax_function(lambda x: calls.append(1) or (), num_outputs=0)(fn.random.uniform())
        return fn.random.uniform()

    graph().run()
    assert calls


INTERRUPTED = """
    import itertools, os, random, signal, sys, tempfile
    import numpy as np
    from asyncdali import Pipeline, fn
    from asyncdali.plugin.jax.clu import DALIGenericPeekableIterator
    from helpers.storms import Late, Storm

    folder = tempfile.mkdtemp()
    for k in range(12):
        np.save(os.path.join(folder, f"{k:02d}.npy"), np.int32([k]))
    pipe = Pipeline(4, 2, seed=1)
    with pipe:
        pipe.set_outputs(fn.readers.numpy(file_root=folder, name="reader"))
    iterator = DALIGenericPeekableIterator(pipe, ["x"], reader_name="reader", auto_reset=True)
    next(iterator)  # jax chooses its backend
    storm, done = Storm(signal.SIGALRM, Late, DALIGenericPeekableIterator.__next__, DALIGenericPeekableIterator.peek, longest=1e-2), 0
    following = itertools.cycle([4, 8, None, 0])
    storm.begin()
    while storm.count < int(sys.argv[1]):
        peeks = random.random() < 0.5
        try:
            found = (iterator.peek if peeks else iterator.__next__)()["x"]
        except Late:
            continue
        except StopIteration:
            found = None
        wanted = next(following)
        if found is None:
            assert wanted is None, (done, wanted)
        else:
            assert wanted is not None and found.ravel().tolist() == list(range(wanted, wanted + 4)), (done, wanted, found)
        if peeks:
            following = itertools.chain([wanted], following)
        else:
            done += 1
    storm.end()
    print("nothing lost", done > 0)
"""


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_exceptions_of_handlers_lose_no_peeked_batch(count):
    done = run_script(INTERRUPTED, count, timeout=300)
    assert done.stdout == "nothing lost True\n", done.stderr[-4000:]
