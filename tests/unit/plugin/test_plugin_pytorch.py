"""PyTorch iterators: results, checkpoints and states, errors, sources, and data sets."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import itertools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pytest
from helpers.iterators import numbered_files, numbers, reader_pipelines, source_pipeline, walk
from helpers.pipelines import pipeline_of
from helpers.places import PROJECT, TESTS

from asyncdali import Pipeline, fn, pipeline_def, types
from asyncdali.errors import CheckpointError

torch = pytest.importorskip("torch", reason="torch is not installed")
from asyncdali.plugin import pytorch as plugin  # noqa: E402
from asyncdali.plugin.pytorch import DALIGenericIterator, DALIRaggedIterator, LastBatchPolicy  # noqa: E402

DRAWS = {"random": True, "random_shuffle": True, "initial_fill": 4}


def read(files, batch=4, shards=1, ids=(0,), checkpoints=None, policy=LastBatchPolicy.FILL, auto_reset=True, prepare=True, **reader):
    pipes = reader_pipelines(files, batch, shards, ids, checkpoints=checkpoints, **{**DRAWS, **reader})
    return DALIGenericIterator(
        pipes, ["x", "draw"], reader_name="reader", auto_reset=auto_reset, last_batch_policy=policy, prepare_first_batch=prepare
    )


# --- tensors


def test_types():
    for dtype, torch_type in plugin.to_torch_type.items():
        array = np.array([[0, 1], [1, 0]]).astype(types.to_numpy_type(dtype))
        pipe = pipeline_of(lambda array=array: fn.external_source(lambda i: array), batch_size=2)
        tensor = next(DALIGenericIterator(pipe, ["x"]))[0]["x"]
        assert tensor.dtype == torch_type and tensor.shape == (2, 2) and tensor.is_contiguous()
        assert tensor.to(torch.float32).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_tensors_are_views_that_stay_valid(device):
    """Tensors stay valid after further batches and after the pipeline was freed, also large ones."""
    def source(i):
        return np.full((4, 100, 100), i, np.float32)

    pipe = pipeline_of(lambda: fn.external_source(source) if device == "cpu" else fn.external_source(source).gpu(), batch_size=4)
    iterator = DALIGenericIterator(pipe, ["x"], size=40)
    held = [next(iterator)[0]["x"] for _ in range(10)]
    pipe.close()
    del iterator, pipe
    gc.collect()
    for i, tensor in enumerate(held):
        assert (tensor == i).all()
    assert len({tensor.data_ptr() for tensor in held}) == len(held)


def test_no_copy_is_made():
    pipe = pipeline_of(lambda: fn.external_source(lambda i: np.zeros((4, 100, 100), np.float32)), batch_size=4)
    output = pipe.run()[0]
    from asyncdali.plugin.pytorch.convert import tensor_of

    assert tensor_of(output).data_ptr() == output.data_ptr()


def test_enumerations_are_no_tensors():
    pipe = pipeline_of(lambda: fn.cast(fn.external_source(lambda i: np.int32([1, 2])), dtype=types.INTERP_TYPE), batch_size=2)
    with pytest.raises(TypeError, match="fn.cast"):
        next(DALIGenericIterator(pipe, ["kind"], prepare_first_batch=False))


def test_read_only_memory_is_copied():
    """Read-only memory (for example pages of a file) is copied, because torch does not know that it is read-only."""
    from asyncdali.batch import Batch, ReadOnlyMemory
    from asyncdali.tensors import TensorListCPU

    array = np.arange(6, dtype=np.float32)
    batch = Batch(np.full((2, 1), 3, np.int64), types.FLOAT, "", array.ctypes.data + np.int64([0, 12]))
    batch.owner, batch.contiguous = ReadOnlyMemory(array), True
    tensor = plugin.convert.tensor_of(TensorListCPU._from_batch(batch))
    tensor += 1
    assert array.tolist() == [0, 1, 2, 3, 4, 5] and tensor.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_constants_can_be_written_to():
    pipe = pipeline_of(lambda: (fn.constant(fdata=[1.0, 2.0], shape=[2]), fn.random.uniform()), batch_size=2)
    for _, batch in zip(range(3), DALIGenericIterator(pipe, ["c", "r"], size=6)):
        assert batch[0]["c"].tolist() == [[1, 2], [1, 2]]
        batch[0]["c"] += 5


def test_samples_of_different_shapes_are_refused_by_name():
    pipe = pipeline_of(lambda: fn.external_source(lambda i: [np.zeros(1), np.zeros(2)]), batch_size=2)
    with pytest.raises(RuntimeError, match=r"output 'boxes'.*different shapes.*DALIRaggedIterator"):
        next(DALIGenericIterator(pipe, ["boxes"]))


def test_ragged_partial_batches():
    def source(i):
        return [np.arange(n, dtype=np.float32) + 10 * i for n in (2, 0, 3)]

    def last(tag, policy=LastBatchPolicy.PARTIAL):
        pipe = pipeline_of(lambda: (fn.external_source(source), fn.random.uniform()), batch_size=3)
        types_of = [tag, DALIRaggedIterator.DENSE_TAG]
        return list(DALIRaggedIterator(pipe, ["x", "y"], size=5, output_types=types_of, last_batch_policy=policy))[-1][0]

    found = last(DALIRaggedIterator.SPARSE_LIST_TAG)
    assert [tensor.tolist() for tensor in found["x"]] == [[10, 11], []] and found["y"].shape == (2,)
    found = last(DALIRaggedIterator.SPARSE_COO_TAG)
    assert found["x"].is_sparse and found["x"].to_dense().tolist() == [[10, 11], [0, 0]]


def test_ragged_refuses():
    pipe = pipeline_of(lambda: fn.external_source(lambda i: [np.zeros((2, 2)), np.zeros((1, 2))]), batch_size=2)
    with pytest.raises(ValueError, match="output_types"):
        DALIRaggedIterator(pipe, ["x"], output_types=["dense", "dense"])
    with pytest.raises(ValueError, match="SPARSE_COO_TAG"):
        DALIRaggedIterator(pipe, ["x"], output_types=["coo"])
    with pytest.raises(RuntimeError, match="one-dimensional"):
        next(DALIRaggedIterator(pipe, ["x"], output_types=[DALIRaggedIterator.SPARSE_COO_TAG]))


def test_torch_utils():
    """`plugin.pytorch.torch_utils`: conversions as in DALI. `copy` decides whether the tensor owns its memory."""
    from asyncdali.plugin.pytorch import torch_utils

    assert torch_utils.to_torch_type is plugin.to_torch_type and torch_utils.feed_ndarray is plugin.feed_ndarray
    arrays = np.arange(6, dtype=np.int32).reshape(2, 3)
    (output,) = pipeline_of(lambda: fn.external_source(lambda: arrays), batch_size=2).run()
    for tensor, expected in ((output[1], [3, 4, 5]), (output.as_tensor(), arrays.tolist()), (output, arrays.tolist())):
        shared, copied = torch_utils.to_torch_tensor(tensor, copy=False), torch_utils.to_torch_tensor(tensor, True)
        assert shared.tolist() == copied.tolist() == expected
        assert shared.data_ptr() == torch_utils.to_torch_tensor(tensor, False).data_ptr() != copied.data_ptr()
    with pytest.raises(TypeError, match="tensors and tensor lists"):
        torch_utils.to_torch_tensor(arrays, False)
    (ragged,) = pipeline_of(lambda: fn.external_source(lambda: [np.zeros(1), np.zeros(2)]), batch_size=2).run()
    with pytest.raises(RuntimeError, match="different shapes"):
        torch_utils.to_torch_tensor(ragged, False)


def test_feed_ndarray():
    output = pipeline_of(lambda: fn.external_source(lambda i: np.arange(6, dtype=np.int32).reshape(2, 3)), batch_size=2).run()[0]
    target = torch.empty(2, 3, dtype=torch.int32)
    assert plugin.feed_ndarray(output, target) is target and target.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert plugin.feed_ndarray(output[1], torch.empty(3, dtype=torch.int32)).tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="shape"):
        plugin.feed_ndarray(output, torch.empty(3, dtype=torch.int32))
    with pytest.raises(TypeError, match=r"int32.*float32"):
        plugin.feed_ndarray(output, torch.empty(2, 3))
    for wrong in (torch.empty(3, dtype=torch.int32), torch.empty(2, 3)):
        with pytest.raises(AssertionError):  # DALI's type
            plugin.feed_ndarray(output, wrong)
    with pytest.raises(TypeError, match="list"):
        plugin.feed_ndarray([1], torch.empty(1))


def test_torch_python_function():
    data = np.arange(6, dtype=np.float32).reshape(2, 3)

    def graph():
        source = fn.external_source(lambda i: data + i)
        both = plugin.fn.torch_python_function(source, function=lambda xs: ([x * 2 for x in xs], torch.stack(xs).sum(1)), num_outputs=2)
        flipped = plugin.fn.torch_python_function(source, function=lambda x: x.flip(0)[None].T[:, 0], batch_processing=False)
        return (*both, flipped, plugin.TorchPythonFunction(lambda x: x.bool())(source))

    pipe = pipeline_of(graph, batch_size=2)
    for i in range(2):
        doubled, total, flipped, boolean = (np.asarray(output.as_tensor()) for output in pipe.run())
        assert (doubled == 2 * (data + i)).all() and (total == (data + i).sum(1)).all()
        assert (flipped == (data + i)[:, ::-1]).all() and (boolean == (data + i).astype(bool)).all()


def test_torch_python_function_errors():
    def broken(x):
        raise KeyError("mine")

    pipe = pipeline_of(lambda: plugin.fn.torch_python_function(fn.random.uniform(), function=broken, batch_processing=False))
    with pytest.raises(RuntimeError, match="KeyError"):
        pipe.run()
    pipe = pipeline_of(lambda: plugin.fn.torch_python_function(fn.random.uniform(), function=lambda x: "no", batch_processing=False))
    with pytest.raises(RuntimeError, match="returns tensors"):
        pipe.run()
    with pytest.raises(TypeError, match="callable"):
        pipeline_of(lambda: plugin.fn.torch_python_function(fn.random.uniform(), function=3))


# --- arguments


def test_arguments_that_are_refused(tmp_path):
    files = numbered_files(tmp_path, 6)

    def make(pipes=None, names=("x",), **arguments):
        return DALIGenericIterator(reader_pipelines(files, 2, 1, [0]) if pipes is None else pipes, names, **arguments)

    for error, match, arguments in [
        (ValueError, "2 names", {"names": ["a", "b"]}),
        (ValueError, "0 names", {"names": []}),
        (ValueError, "distinct", {"names": ["a", "a"]}),
        (TypeError, "list of names", {"names": "x"}),
        (ValueError, "output_map is missing", {"names": None}),
        (ValueError, "at least one pipeline", {"pipes": []}),
        (TypeError, "got int", {"pipes": [3]}),
        (ValueError, "size", {"size": 0}),
        (ValueError, "5.5", {"size": 5.5}),
        (ValueError, "not both", {"size": 5, "reader_name": "reader"}),
        (ValueError, "not both", {"last_batch_padded": True, "reader_name": "reader"}),
        (ValueError, "LastBatchPolicy", {"last_batch_policy": "FILL"}),
        (ValueError, "auto_reset", {"auto_reset": 2}),
        (RuntimeError, "Readers of this pipeline: 'reader'", {"reader_name": "other"}),
        (ValueError, "batch size", {"pipes": [source_pipeline(1, 2), source_pipeline(1, 3)], "size": 4}),
        (ValueError, "enable_checkpointing", {"pipes": [source_pipeline(1), source_pipeline(1, enable_checkpointing=True)], "size": 4}),
        (ValueError, "several pipelines", {"pipes": [source_pipeline(1), source_pipeline(1)]}),
        (ValueError, "differ in the number of shards",
         {"pipes": reader_pipelines(files, 2, 1, [0]) + reader_pipelines(files, 2, 2, [0]), "reader_name": "reader"}),
        (AssertionError, "distinct", {"names": ["a", "a"]}),  # programs for DALI catch these
        (AssertionError, "size", {"size": 0}),
        (AssertionError, "not both", {"size": 5, "reader_name": "reader"}),
        (AssertionError, "batch of 1 samples", {"pipes": [source_pipeline(1, last=1)], "size": 2}),
        (RuntimeError, "no data", {"pipes": [source_pipeline(0)]}),
        (RuntimeError, "no batch", {"pipes": reader_pipelines(files, 9, 1, [0]), "reader_name": "reader",
                                    "last_batch_policy": LastBatchPolicy.DROP}),
        (ValueError, "batch of 1 samples", {"pipes": [source_pipeline(1, last=1)], "size": 2}),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            make(**arguments)


def test_deprecated_fill_last_batch(tmp_path):
    files = numbered_files(tmp_path, 3)
    for value, last in ((True, [[2], [0]]), (False, [[2]])):
        with pytest.warns(DeprecationWarning, match="last_batch_policy"):
            iterator = DALIGenericIterator(reader_pipelines(files, 2, 1, [0]), ["x"], reader_name="reader", fill_last_batch=value)
        assert numbers(list(iterator)[-1]) == [{"x": last}]


def test_classification_iterator(tmp_path):
    files = numbered_files(tmp_path, 4)
    pipes = reader_pipelines(files, 2, 1, [0], random=True)
    batch = next(plugin.DALIClassificationIterator(pipes, reader_name="reader", dynamic_shape=True))
    assert list(batch[0]) == ["data", "label"]


def test_an_iterator_does_not_mix_with_run(tmp_path):
    iterator = read(numbered_files(tmp_path, 4))
    with pytest.raises(RuntimeError, match="Mixing"):
        iterator._pipes[0].run()


# --- requests to sources


def test_calls_of_the_source():
    """As in DALI, the constructor fetches one batch, and the queue is filled. Without `prepare_first_batch` it requests nothing."""
    for prepare, at_once in ((True, 4), (False, 0)):
        asked = []
        pipe = pipeline_of(lambda asked=asked: fn.external_source(lambda i: asked.append(i) or np.zeros((2, 1))),
                           batch_size=2, prefetch_queue_depth=3)  # fmt: skip
        iterator = DALIGenericIterator(pipe, ["x"], prepare_first_batch=prepare)
        assert asked == list(range(at_once))
        next(iterator)
        assert asked == list(range(4))
        next(iterator)
        assert asked == list(range(5))


def test_a_dropped_padded_batch_is_not_the_next_epoch(tmp_path):
    """DALI returns it as part of the next epoch."""
    files = numbered_files(tmp_path, 9)
    pipes = reader_pipelines(files, 2, 4, range(4), pad_last_batch=True, stick_to_shard=True)
    iterator = DALIGenericIterator(pipes, ["x"], reader_name="reader", auto_reset=True, last_batch_policy=LastBatchPolicy.DROP)
    for _ in range(3):
        assert [numbers(batch) for batch in iterator] == [[{"x": [[2 * k], [2 * k + 1]]} for k in range(4)]]


@pytest.mark.parametrize("auto_reset", [False, True])
def test_leaving_an_epoch_of_sources_in_the_middle(auto_reset, caplog):
    iterator = DALIGenericIterator(source_pipeline(3), ["x"], auto_reset=auto_reset)
    whole = [[{"x": [[10 * k], [10 * k + 1]]}] for k in range(3)]
    whole = [numbers(batch) for batch in iterator]
    for batch in iterator:
        assert numbers(batch) == whole[0]
        break
    iterator.reset()
    assert "not finished" in caplog.text
    assert [numbers(batch) for batch in iterator] == whole[1:]
    assert [numbers(batch) for batch in iterator] == whole


# --- errors


def failing(at, length=6, kind="operator"):
    """Batches [i, i]. At batch `at` the operator fails, or the source fails once."""
    tries = []

    def source(i):
        if i >= length:
            raise StopIteration
        if kind == "source" and i == at and not tries:
            tries.append(i)
            raise KeyError("once")
        return np.int64([[i], [i]])

    def check(x):
        if kind == "operator" and x[0] == at:
            raise KeyError("always")
        return x

    return pipeline_of(lambda: fn.python_function(fn.external_source(source), function=check), batch_size=2)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_an_operators_error_fails_its_batch_in_all_pipelines(depth):
    pipes = [failing(2), failing(99), failing(2)]
    iterator = DALIGenericIterator(pipes, ["x"], size=36)
    found = []
    while True:
        try:
            found.append([part["x"][0, 0].item() for part in next(iterator)])
        except RuntimeError as error:
            assert "always" in str(error)
            found.append("error")
        except StopIteration:
            break
    assert found == [[0] * 3, [1] * 3, "error", [3] * 3, [4] * 3, [5] * 3]


def test_a_sources_error_leaves_all_in_step():
    iterator = DALIGenericIterator([failing(99), failing(2, kind="source"), failing(99)], ["x"], size=36)
    found = []
    while True:
        try:
            found.append([part["x"][0, 0].item() for part in next(iterator)])
        except KeyError:
            found.append("error")
        except StopIteration:
            break
    assert found == [[0] * 3, [1] * 3, "error", [2] * 3, [3] * 3, [4] * 3, [5] * 3]


# --- checkpoints


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
@pytest.mark.parametrize("shards, ids, auto_reset", [(1, [0], True), (1, [0], False), (2, [0, 1], True), (3, [2], False)])
def test_restored_anywhere(tmp_path, policy, shards, ids, auto_reset):
    """Saved and restored at every step of two epochs. StopIteration is raised again, whether or not a batch was prepared."""
    files = numbered_files(tmp_path, 11)
    arguments = {"shards": shards, "ids": ids, "policy": policy, "auto_reset": auto_reset}
    first = read(files, 3, **arguments)
    saved, found = [], []
    for _ in range(2 * (len(first) + 1)):
        saved.append((first.checkpoints(), first.state_dict(), first._ended))
        found += walk(first, 1)
    saved.append((first.checkpoints(), first.state_dict(), first._ended))
    found += walk(first, 4)
    for step, (checkpoints, state, _) in list(enumerate(saved))[:: 3 if shards > 1 else 1]:
        again = read(files, 3, checkpoints=checkpoints, prepare=bool(step % 2), **arguments)
        assert again.checkpoints() == checkpoints
        assert walk(again, len(found) - step) == found[step:], step
        if step % 3 == 0:
            again.load_state_dict(pickle.loads(pickle.dumps(state)))
            assert walk(again, len(found) - step) == found[step:], step


@pytest.mark.slow
def test_restored_in_a_fresh_process(tmp_path):
    files = numbered_files(tmp_path, 10)
    iterator = read(files, shards=2, ids=[0, 1], policy=LastBatchPolicy.PARTIAL)
    walk(iterator, 3)
    (tmp_path / "state").write_bytes(pickle.dumps((iterator.checkpoints(), files)))
    code = (
        "import pickle, sys\nfrom helpers.iterators import walk\nsys.path.insert(0, sys.argv[2])\nimport test_plugin_pytorch as t\n"
        "checkpoints, files = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(walk(t.read(files, shards=2, ids=[0, 1], policy=t.LastBatchPolicy.PARTIAL, checkpoints=checkpoints), 8))\n"
    )
    here = Path(__file__).resolve().parent
    import os

    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PROJECT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", code, str(tmp_path / "state"), str(here)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == str(walk(iterator, 8)), done.stderr


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("auto_reset", [False, True])
def test_sources_resume_with_the_iterator(prepare, auto_reset):
    def make(**options):
        return DALIGenericIterator(
            source_pipeline(3, enable_checkpointing=True, **options), ["x"], auto_reset=auto_reset, prepare_first_batch=prepare
        )

    first, saved, found = make(), [], []
    for _ in range(9):
        saved.append(first.checkpoints()[0])
        found += walk(first, 1)
    found += walk(first, 3)
    assert found.count(None) == 3
    for step, checkpoint in enumerate(saved):
        assert walk(make(checkpoint=checkpoint), len(found) - step) == found[step:], step


class Counter:
    """An iterator with a state: epochs of 3 batches of consecutive numbers."""

    def __init__(self):
        self.value, self.left = 0, 3

    def __iter__(self):
        self.left = 3 if self.left < 0 else self.left
        return self

    def __next__(self):
        if self.left <= 0:
            self.left = -1
            raise StopIteration
        self.value, self.left = self.value + 1, self.left - 1
        return np.int64([[self.value], [self.value]])

    def state_dict(self):
        return {"value": self.value, "left": self.left}

    def load_state_dict(self, state):
        self.value, self.left = state["value"], state["left"]


def test_sources_with_a_state_go_back_too():
    """`load_state_dict` moves a source that was already read to any position, also back to its start."""
    def make():
        pipe = pipeline_of(lambda: fn.external_source(Counter(), cycle="raise"), batch_size=2, enable_checkpointing=True)
        return DALIGenericIterator(pipe, ["x"], auto_reset=True)

    first, saved, found = make(), [], []
    for _ in range(8):
        saved.append(first.state_dict())
        found += walk(first, 1)
    for step in (5, 0, 3, 4, 1):
        first.load_state_dict(saved[step])
        assert walk(first, len(found) - step) == found[step:], step
        other = make()
        other.load_state_dict(saved[step])
        assert walk(other, len(found) - step) == found[step:], step


def test_load_state_dict_while_batches_are_in_flight(tmp_path):
    files = numbered_files(tmp_path, 10)
    iterator = read(files)
    walk(iterator, 2)
    state = iterator.state_dict()
    after = walk(iterator, 6)
    held = next(iterator)[0]["x"]
    before = held.tolist()
    iterator.load_state_dict(state)
    assert walk(iterator, 6) == after and held.tolist() == before
    for wrong in ({}, {"checkpoints": []}, None, {"checkpoints": ["x", "y"]}):
        with pytest.raises(ValueError, match="state_dict"):
            iterator.load_state_dict(wrong)
    with pytest.raises(CheckpointError):
        iterator.load_state_dict({"checkpoints": ["junk"]})
    other = read(files, shards=2, ids=[0])
    with pytest.raises(CheckpointError, match="num_shards"):
        iterator.load_state_dict(other.state_dict())
    assert walk(iterator, 1)  # the iterator continues unchanged


def test_checkpoints_need_checkpointing():
    iterator = DALIGenericIterator(source_pipeline(3), ["x"])
    with pytest.raises(ValueError, match="checkpointing disabled"):
        iterator.checkpoints()
    with pytest.raises(ValueError, match="enable_checkpointing"):
        iterator.load_state_dict({})


def test_a_checkpoint_taken_without_the_iterator_is_logged(tmp_path, caplog):
    """A checkpoint of the pipeline alone has no epochs. The data continues, and a log line says so."""
    files = numbered_files(tmp_path, 10)
    pipe = reader_pipelines(files, 4, 1, [0])[0]
    pipe.run()
    iterator = DALIGenericIterator(reader_pipelines(files, 4, 1, [0], checkpoints=[pipe.checkpoint()]), ["x"], reader_name="reader")
    assert "not all restored" in caplog.text
    assert numbers(next(iterator)) == [{"x": [[4], [5], [6], [7]]}]


# --- epochs by number


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
@pytest.mark.parametrize("options", [{}, {"pad_last_batch": True}, {"shuffle_after_epoch": True, "random_shuffle": False}])
def test_set_epoch(tmp_path, policy, options):
    files = numbered_files(tmp_path, 10)

    def make():
        return read(files, policy=policy, auto_reset=False, **options)

    first = make()
    epochs = []
    for epoch in range(5):
        first.set_epoch(epoch)  # trainers make this call; here it changes nothing
        epochs.append([numbers(batch) for batch in first])
    again = make()
    for epoch in (3, 0, 4, 1, 1):
        again.set_epoch(epoch)
        assert [numbers(batch) for batch in again] == epochs[epoch], epoch
    again.set_epoch(2)
    next(again)
    again.set_epoch(2)  # in the middle of an epoch the call has no effect
    assert [numbers(batch) for batch in again] == epochs[2][1:]
    other = make()
    other.load_state_dict(again.state_dict())
    other.set_epoch(3)
    assert [numbers(batch) for batch in other] == epochs[3]


@pytest.mark.slow
def test_set_epoch_with_conditionals(tmp_path):
    """The number of samples that an operator gets in a branch is known only when the operator runs."""
    files = numbered_files(tmp_path, 10)

    @pipeline_def(batch_size=4, num_threads=1, seed=3, enable_conditionals=True, enable_checkpointing=True)
    def graph():
        _, label = fn.readers.file(files=files, labels=list(range(10)), name="reader", random_shuffle=True)
        if fn.random.coin_flip(dtype=types.BOOL):
            draw = fn.random.uniform()
        else:
            draw = fn.random.uniform() + 10.0
        return {"label": label, "draw": draw}

    def make():
        return DALIGenericIterator(graph(), reader_name="reader")

    first = make()
    epochs = [[numbers(batch) for batch in first] for _ in range(3)]
    again = make()
    for epoch in (2, 1):
        again.set_epoch(epoch)
        assert [numbers(batch) for batch in again] == epochs[epoch]


def test_set_epoch_refuses(tmp_path):
    iterator = read(numbered_files(tmp_path, 4))
    with pytest.raises(ValueError, match="-1"):
        iterator.set_epoch(-1)
    with pytest.raises(RuntimeError, match="sources"):
        DALIGenericIterator(source_pipeline(3), ["x"]).set_epoch(2)


def test_a_drawn_seed_is_kept(tmp_path):
    pipe = pipeline_of(lambda: (fn.readers.file(files=numbered_files(tmp_path, 4), name="reader")[1], fn.random.uniform()), batch_size=2,
                       seed=None)  # fmt: skip
    iterator = DALIGenericIterator(pipe, ["x", "draw"], reader_name="reader")
    first = [numbers(batch) for batch in iterator]
    iterator.set_epoch(1)
    iterator.set_epoch(0)
    assert [numbers(batch) for batch in iterator] == first


# --- names, debug mode, native epochs


@pipeline_def(batch_size=4, num_threads=1, seed=3)
def named(files):
    _, label = fn.readers.file(files=files, labels=list(range(len(files))), name="reader")
    return {"label": label, "draw": fn.random.uniform()}


def test_names_of_the_graph_function(tmp_path):
    files = numbered_files(tmp_path, 10)
    assert list(next(DALIGenericIterator(named(files), reader_name="reader"))[0]) == ["label", "draw"]
    pipe = named(files)
    assert [list(batch) for batch in pipe.epoch()] == [["label", "draw"]] * 3
    assert isinstance(pipe.run(), tuple)


def test_debug_mode(tmp_path):
    files = numbered_files(tmp_path, 10)
    iterator = DALIGenericIterator(named(files, debug=True), ["label", "draw"], size=8)
    assert [batch[0]["label"].flatten().tolist() for batch in iterator] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [list(batch[0]) for batch in iterator] == [["label", "draw"]] * 2
    with pytest.raises(RuntimeError, match="debug"):
        DALIGenericIterator(named(files, debug=True), ["label", "draw"], reader_name="reader")


# --- data sets


class Squares(torch.utils.data.Dataset):
    """A data set: item k is a vector of k * k, and k."""

    def __init__(self, count=10, kind="tuple"):
        self.count, self.kind = count, kind

    def __len__(self):
        return self.count

    def __getitem__(self, k):
        square = torch.full((2,), float(k * k))
        return {"tuple": (square, k), "dict": {"square": square, "k": k}, "one": square, "text": "no", "ragged": torch.zeros(k)}[self.kind]


def torch_pipeline(dataset, batch=4, checkpoint=None, workers=2, start="fork", **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=1, py_num_workers=workers, py_start_method=start, enable_checkpointing=True,
                    checkpoint=checkpoint, seed=5)  # fmt: skip
    with pipe:
        made = plugin.from_torch_dataset(dataset, **arguments)
        outputs = list(made.values()) if isinstance(made, dict) else made if isinstance(made, list) else [made]
        pipe.set_outputs(*outputs)
    return pipe


def test_a_torch_dataset_as_a_source():
    """A torch data set as a source gives the batches of torch's DataLoader: types, shapes, order, and a smaller last batch."""
    expected = [[x.tolist(), y.tolist(), x.dtype, y.dtype] for x, y in torch.utils.data.DataLoader(Squares(), batch_size=4)]
    for options in ({"workers": 2}, {"parallel": False}):
        iterator = DALIGenericIterator(torch_pipeline(Squares(), **options), ["x", "y"], auto_reset=True)
        for _ in range(2):
            found = [[part["x"].tolist(), part["y"].tolist(), part["x"].dtype, part["y"].dtype] for [part] in iterator]
            assert found == expected


@pytest.mark.parametrize("policy, sizes", [(LastBatchPolicy.PARTIAL, [4, 1]), (LastBatchPolicy.FILL, [4, 4]), (LastBatchPolicy.DROP, [4])])
def test_shuffled_shards_of_a_torch_dataset(policy, sizes):
    """Shards are disjoint, epochs differ in order, and a source resumes at every place."""
    def make(shard, checkpoint=None):
        pipe = torch_pipeline(Squares(), shuffle=True, shard_id=shard, num_shards=2, last_batch_policy=policy, parallel=False,
                              checkpoint=checkpoint)  # fmt: skip
        return DALIGenericIterator(pipe, ["x", "k"], auto_reset=True)

    shards = []
    for shard in range(2):
        iterator = make(shard)
        saved, found = [], []
        for _ in range(2 * (len(sizes) + 1)):
            saved.append(iterator.checkpoints()[0])
            found += walk(iterator, 1)
        assert [len(item[0]["k"]) for item in found if item] == sizes * 2
        assert found[: len(sizes)] != found[len(sizes) + 1 : -1]
        for step in (0, 1, len(found) - 2):
            assert walk(make(shard, saved[step]), len(found) - step) == found[step:]
        shards.append([k for item in found[: len(sizes)] for k in item[0]["k"]][:5])
    if policy is LastBatchPolicy.PARTIAL:
        assert sorted(shards[0] + shards[1]) == list(range(10))


def test_items_of_torch_datasets():
    assert numbers(next(DALIGenericIterator(torch_pipeline(Squares(kind="one"), parallel=False), ["x"])))[0]["x"][2] == [4, 4]
    pipe = torch_pipeline(Squares(kind="dict"), parallel=False)
    assert numbers(next(DALIGenericIterator(pipe, ["x", "k"])))[0]["k"] == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="str"):
        torch_pipeline(Squares(kind="text"), parallel=False).run()
    for error, match, arguments in [
        (TypeError, "map-style", {"dataset": iter([])}), (ValueError, "empty", {"dataset": Squares(0)}),
        (ValueError, "shard_id", {"dataset": Squares(), "shard_id": 1}),
        (ValueError, "LastBatchPolicy", {"dataset": Squares(), "last_batch_policy": "x"}),
        (ValueError, "parallel", {"dataset": Squares(), "parallel": False, "prefetch_queue_depth": 3}),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            torch_pipeline(**arguments)
    with pytest.raises(RuntimeError, match="being defined"):
        plugin.from_torch_dataset(Squares())


@pytest.mark.parametrize("items, match", [
    ([(1, 2), (1,)], "must be alike, one is a tuple of 2, another a tuple of 1"), ([(1, 2), 3], "another a int"),
    ([{"a": 1}, {"b": 1}], "must all have the keys"), ([{"a": 1}, 4], "must all have the keys"),
])  # fmt: skip
def test_different_items_are_refused(items, match):
    with pytest.raises(ValueError, match=match):
        torch_pipeline(items, parallel=False).run()


def test_too_few_items_are_an_error_and_no_smaller_batch():
    class Short(Squares):
        def __getitems__(self, indices):
            return [self[k] for k in indices[:-1]]

    with pytest.raises(ValueError, match="returned 3 items for 4 indices"):
        torch_pipeline(Short(), parallel=False).run()


def made_pipeline(shard_id=0, num_shards=1):
    pipe = Pipeline(batch_size=2, num_threads=1, seed=4, enable_checkpointing=True)
    with pipe:
        def source(i):
            if i >= 3:
                raise StopIteration
            return np.int64([[10 * i + shard_id]] * 2)

        pipe.set_outputs(fn.external_source(source))
    return pipe


def test_a_pipeline_as_a_torch_dataset():
    dataset = plugin.PipelineDataset(made_pipeline, ["x"])
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)
    for _ in range(2):
        assert [batch["x"][0, 0].item() for batch in loader] == [0, 10, 20]
    walked = iter(loader)
    next(walked)
    state = dataset.state_dict()
    rest = [batch["x"].tolist() for batch in walked]
    other = plugin.PipelineDataset(made_pipeline(), ["x"])
    other.load_state_dict(state)
    assert [batch["x"].tolist() for batch in other] == rest
    with pytest.raises(TypeError, match="length"):
        len(dataset)
    with pytest.raises(TypeError, match="auto_reset"):
        plugin.PipelineDataset(made_pipeline, ["x"], auto_reset=True)


@pytest.mark.slow
def test_a_pipeline_in_each_worker_of_a_data_loader():
    dataset = plugin.PipelineDataset(made_pipeline, ["x"])
    next(iter(dataset))  # a worker does not use a pipeline of this process
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
    assert sorted(batch["x"][0, 0].item() for batch in loader) == [0, 1, 10, 11, 20, 21]
    with pytest.raises(RuntimeError, match="shard_id"):
        next(iter(torch.utils.data.DataLoader(plugin.PipelineDataset(lambda: made_pipeline(), ["x"]), batch_size=None, num_workers=2)))


def reading_pipeline(folder, shard_id=0, num_shards=1):
    files = [str(folder / f"{k:03d}.bin") for k in range(14)]  # written before the workers start
    pipe = Pipeline(batch_size=2, num_threads=1, seed=4, enable_checkpointing=True)
    with pipe:
        _, labels = fn.readers.file(files=files, labels=list(range(14)), random_shuffle=True, shard_id=shard_id, num_shards=num_shards,
                                    name="reader")  # fmt: skip
        pipe.set_outputs(labels, fn.random.uniform())
    return pipe


def stateful_loader(folder, workers):
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    numbered_files(folder, 14)
    dataset = plugin.PipelineDataset(functools.partial(reading_pipeline, folder), ["k", "draw"], reader_name="reader")
    return torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


def listed(loader):
    return [tuple(part.tolist() for part in batch.values()) for batch in loader]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_torchdatas_loader_saves_and_restores(tmp_path, workers):
    """A StatefulDataLoader is restored in the middle of the second epoch and at its ends. Samples and draws are the same."""
    loader = stateful_loader(tmp_path, workers)
    every = [listed(loader), listed(loader), listed(loader)]
    assert every[0] != every[1] != every[2]
    loader = stateful_loader(tmp_path, workers)
    assert listed(loader) == every[0]
    for step, _ in enumerate(loader, 1):
        if step == 3:
            break
    saved = pickle.loads(pickle.dumps(loader.state_dict()))
    resumed = stateful_loader(tmp_path, workers)
    resumed.load_state_dict(saved)
    assert listed(resumed) == every[1][3:]
    assert listed(resumed) == every[2]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_restored_loader_finishes_its_epoch(tmp_path, workers):
    """Saved after any batch, also if some workers have delivered their last batch. The rest of the epoch and the next epoch follow."""
    loader, saved = stateful_loader(tmp_path, workers), []
    every = [listed(loader)]
    loader = stateful_loader(tmp_path, workers)
    for _ in loader:
        saved.append(loader.state_dict())
    every.append(listed(loader))
    assert len(saved) == len(every[0]) == 7 + (workers == 2)
    for step, state in list(enumerate(saved, 1))[-3:]:
        resumed = stateful_loader(tmp_path, workers)
        resumed.load_state_dict(state)
        assert [listed(resumed), listed(resumed)] == [every[0][step:], every[1]], step


@pytest.mark.slow
def test_set_epoch_reaches_the_workers_of_a_data_loader(tmp_path):
    """Workers start again for every epoch. Without `set_epoch` every epoch would be the first one."""
    numbered_files(tmp_path, 14)
    dataset = plugin.PipelineDataset(functools.partial(reading_pipeline, tmp_path), ["k", "draw"], reader_name="reader")
    lasting = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    expected = [listed(lasting), listed(lasting)]
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2)
    found = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        found.append(listed(loader))
    assert found == expected and found[0] != found[1]


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["break", "error", "islice"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("read", [True, False], ids=["reader", "source"])
def test_persistent_workers_begin_the_next_epoch_after_a_break(tmp_path, workers, ends, read):
    """The loader drops the batches that its workers have made ahead. No sample is missing in the loop after it, nor in the next ones."""
    numbered_files(tmp_path, 14)
    if read:
        dataset = plugin.PipelineDataset(functools.partial(reading_pipeline, tmp_path), ["k", "draw"], reader_name="reader")
    else:
        dataset = plugin.PipelineDataset(counting_pipeline, ["k"])

    def loader():
        more = {"batch_size": None, "num_workers": workers, "persistent_workers": True, "prefetch_factor": 2}
        return torch.utils.data.DataLoader(dataset, **more, multiprocessing_context="fork")

    whole = loader()
    epochs = [listed(whole) for _ in range(3)]
    left = loader()
    if ends == "islice":
        assert len(list(itertools.islice(left, 2))) == 2
    else:
        with contextlib.suppress(ZeroDivisionError):
            for number, _ in enumerate(left):
                if number == 1 and ends == "break":
                    break
                if number == 1:
                    raise ZeroDivisionError
    found = [listed(left), listed(left)]
    assert found == epochs[1:] if read else found == epochs[:2]


@pipeline_def(batch_size=2, num_threads=1)
def counting_pipeline(shard_id=0, num_shards=1):
    def source(info):
        if info.iteration >= 5:
            raise StopIteration
        return np.int64([10 * shard_id + info.idx_in_epoch])

    return fn.external_source(source, batch=False)


@runtime_checkable
class Stateful(Protocol):
    """The attributes that trainers (for example Lightning's) look for in a loader."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def trained(loader, epochs, first=(0, 0), save_at=None):
    """The loop of a trainer. The state is taken inside the loop after a batch, or between epochs, and is stored with torch.save."""
    assert isinstance(loader, Stateful)
    seen, file, place = [], io.BytesIO(), None
    for epoch in range(first[0], epochs):
        start = first[1] if epoch == first[0] else 0
        for step, [batch] in enumerate(loader, start + 1):
            seen.append((batch["k"].tolist(), batch["draw"].tolist()))
            if (epoch, step) == save_at:
                torch.save(loader.state_dict(), file)
                place = len(seen)
        if (epoch, None) == save_at:
            torch.save(loader.state_dict(), file)
            place = len(seen)
    return seen, file.getvalue(), place


@pytest.mark.parametrize("auto_reset", [True, False])
@pytest.mark.parametrize("where", [(0, 1), (1, 4), (1, 7), (1, None)])
def test_a_trainer_that_stores_states(tmp_path, where, auto_reset):
    """States are taken in an epoch, after its last batch and between epochs. An iterator with a prepared batch loads them before `iter`."""

    numbered_files(tmp_path, 14)

    def made():
        return DALIGenericIterator(reading_pipeline(tmp_path), ["k", "draw"], reader_name="reader", auto_reset=auto_reset)

    seen, data, place = trained(made(), 3, save_at=where)
    loader = made()
    loader.load_state_dict(torch.load(io.BytesIO(data)))
    epoch, step = where
    assert trained(loader, 3, (epoch + 1, 0) if step in (None, 7) else where)[0] == seen[place:]
