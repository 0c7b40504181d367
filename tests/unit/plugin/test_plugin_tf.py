"""DALIDataset: declared and inferred types of elements; saving and restoring; inputs."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.iterators import numbered_files
from helpers.pipelines import pipeline_of, run_script

from asyncdali import fn, pipeline_def, types

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
from asyncdali.plugin.tf import DALIDataset  # noqa: E402
from asyncdali.plugin.tf.cursors import Cursors  # noqa: E402
from asyncdali.plugin.tf.experimental import DALIDatasetWithInputs, Input  # noqa: E402


@pipeline_def(batch_size=4, num_threads=2, seed=7, enable_checkpointing=True)
def reader(files, shard_id=0, num_shards=1):
    _, number = fn.readers.file(
        files=files, labels=list(range(len(files))), random_shuffle=True, name="reader", shard_id=shard_id, num_shards=num_shards
    )
    return number, fn.random.uniform(shape=[2])


def expected(pipe, count):
    return [[np.asarray(output).tolist() for output in pipe.run()] for _ in range(count)]


def taken(iterator, count):
    return [[tensor.numpy().tolist() for tensor in next(iterator)] for _ in range(count)]


# --- elements


def test_batches_of_the_pipeline(tmp_path):
    files = numbered_files(tmp_path, 10)
    dataset = DALIDataset(reader(files))
    assert isinstance(dataset, tf.data.Dataset)
    assert dataset.element_spec == (tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None], tf.float32))
    assert taken(iter(dataset), 7) == expected(reader(files), 7)
    assert [batch[0].shape for batch in dataset.take(2)] == [(4, 1)] * 2
    assert int(dataset.cardinality()) == int(dataset.map(lambda *tensors: tensors).cardinality()) == tf.data.INFINITE_CARDINALITY


def test_declared_elements(tmp_path):
    files = numbered_files(tmp_path, 10)
    dataset = DALIDataset(reader(files), (tf.int32, tf.float32), ((4, 1), (None, 2)))
    assert dataset.element_spec == (tf.TensorSpec([4, 1], tf.int32), tf.TensorSpec([None, 2], tf.float32))
    next(iter(dataset))
    one = pipeline_of(lambda: fn.random.uniform(shape=[3]), batch_size=2)
    assert DALIDataset(one, tf.float32, (2, 3)).element_spec == tf.TensorSpec([2, 3], tf.float32)
    assert DALIDataset(one, (tf.float32,)).element_spec == (tf.TensorSpec([None, None], tf.float32),)
    known = pipeline_of(lambda: fn.random.uniform(shape=[3]), batch_size=2, output_dtype=types.FLOAT, output_ndim=1)
    assert DALIDataset(known).element_spec == (tf.TensorSpec([None, None], tf.float32),)


def test_named_elements(tmp_path):
    @pipeline_def(batch_size=2, num_threads=1)
    def graph():
        return {"draw": fn.random.uniform(), "coin": fn.random.coin_flip()}

    assert list(next(iter(DALIDataset(graph())))) == ["draw", "coin"]


@pytest.mark.parametrize("wrong, match", [
    (((tf.int64, tf.float32), None), "int32.*int64"), (((tf.int32, tf.float32), ((4, 1), (4, 3))), r"\(4, 2\).*\(4, 3\)"),
])  # fmt: skip
def test_declarations_are_checked_in_every_batch(tmp_path, wrong, match):
    with pytest.raises(tf.errors.OpError, match=match):
        next(iter(DALIDataset(reader(numbered_files(tmp_path, 10)), *wrong)))


def test_refused(tmp_path):
    files = numbered_files(tmp_path, 10)
    pipe = reader(files)
    for error, match, arguments in [
        (TypeError, "tf.DType", {"output_dtypes": (np.int32, tf.float32)}), (ValueError, "1 entries", {"output_dtypes": tf.int32}),
        (TypeError, "output_shapes", {"output_shapes": ("x", "y")}), (ValueError, "exec_separated", {"cpu_prefetch_queue_depth": 3}),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            DALIDataset(pipe, **arguments)
    with pytest.raises(TypeError, match="pipeline"):
        DALIDataset(3)
    with pytest.raises(ValueError, match="external sources"):
        DALIDataset(pipeline_of(lambda: fn.external_source(lambda i: np.zeros((2, 1)))))
    with pytest.raises(ValueError, match="seed"):
        DALIDataset(pipeline_of(lambda: fn.random.uniform(), seed=None, enable_checkpointing=True))


def test_options_replace_the_pipelines(tmp_path):
    files = numbered_files(tmp_path, 10)
    dataset = DALIDataset(reader(files), batch_size=2, num_threads=1, prefetch_queue_depth=1, exec_dynamic=False)
    assert next(iter(dataset))[0].shape == (2, 1)
    plain = pipeline_of(lambda: fn.random.uniform(shape=[2]), seed=7)
    assert next(iter(DALIDataset(plain, exec_separated=True, cpu_prefetch_queue_depth=3)))[0].shape == (3, 2)


def test_outputs_on_a_gpu(tmp_path):
    pipe = pipeline_of(lambda: fn.random.uniform(shape=[2]).gpu(), enable_checkpointing=True)
    with tf.device("/cpu:0"):
        with pytest.raises(ValueError, match=r"on a GPU.*without tf\.device"):
            DALIDataset(pipe)
        assert next(iter(DALIDataset(pipe, fail_on_device_mismatch=False)))[0].shape == (3, 2)
    iterator = iter(DALIDataset(pipe))
    assert next(iterator)[0].shape == (3, 2)
    with pytest.raises(tf.errors.UnimplementedError, match="GPU"):
        tf.train.Checkpoint(it=iterator).save(str(tmp_path / "x"))


@pytest.mark.parametrize("device", ["", "/gpu:0", "/device:GPU:1", "/job:localhost/replica:0/task:0/device:GPU:0"])
def test_outputs_on_a_gpu_under_a_device(device):
    """TF2 programs write `with tf.device("/gpu:0")`, or name no device. Without a GPU the batches come from the host device."""
    make = lambda: pipeline_of(lambda: (fn.random.uniform(shape=[2]).gpu(), fn.random.uniform()))  # noqa: E731
    with tf.device(device) if device else contextlib.nullcontext():
        dataset = DALIDataset(make(), (tf.float32, tf.float32), ((3, 2), (3,)), device_id=0)
        found = taken(iter(dataset), 3)
        mapped = dataset.map(lambda a, b: (a + 1, b)).prefetch(2)
        assert next(iter(mapped))[0].numpy().tolist() == (np.float32(found[0][0]) + 1).tolist()
    assert found == [[np.asarray(output.as_cpu()).tolist() for output in outputs] for outputs in runs(make(), 3)]
    with tf.device("/cpu:0"), pytest.raises(ValueError, match="on a GPU"):
        DALIDataset(make())


def runs(pipe, count):
    return [pipe.run() for _ in range(count)]


def test_outputs_on_a_gpu_in_a_graph_of_tensorflows():
    pipe = pipeline_of(lambda: fn.random.uniform(shape=[2]).gpu())
    with tf.Graph().as_default():
        with tf.device("/gpu:0"):
            assert DALIDataset(pipe, tf.float32, (3, 2)).element_spec == tf.TensorSpec([3, 2], tf.float32)
        assert DALIDataset(pipe, tf.float32, (3, 2)).element_spec == tf.TensorSpec([3, 2], tf.float32)
        with tf.device("/device:CPU:0"), pytest.raises(ValueError, match="on a GPU"):
            DALIDataset(pipe, tf.float32, (3, 2))


def test_training_under_a_gpu_device():
    pipe = pipeline_of(lambda: (fn.random.uniform(shape=[2]).gpu(), fn.random.uniform(shape=[1]).gpu()))
    with tf.device("/gpu:0"):
        dataset = DALIDataset(pipe, (tf.float32, tf.float32), ((3, 2), (3, 1)))
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(dataset, steps_per_epoch=2, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_inputs_with_outputs_on_a_gpu_under_a_device():
    def graph():
        return fn.external_source(name="x", dtype=types.INT64, ndim=1).gpu()

    inputs = {"x": tf.data.Dataset.from_tensor_slices(np.arange(6).reshape(6, 1))}
    pipe = pipeline_of(graph, batch_size=3)
    with tf.device("/cpu:0"), pytest.raises(ValueError, match="on a GPU"):
        DALIDatasetWithInputs(pipe, tf.int64, (None, 1), input_datasets=inputs)
    for place in (tf.device("/gpu:0"), contextlib.nullcontext()):
        with place:
            dataset = DALIDatasetWithInputs(pipe, tf.int64, (None, 1), input_datasets=inputs)
            assert [batch.numpy().ravel().tolist() for batch in dataset] == [[0, 1, 2], [3, 4, 5]]


def test_iterators_are_independent(tmp_path):
    files = numbered_files(tmp_path, 10)
    dataset = DALIDataset(reader(files))
    whole = expected(reader(files), 12)
    iterators = [iter(dataset) for _ in range(6)]
    for step in range(3):
        for k, iterator in enumerate(iterators):
            assert taken(iterator, 1 + k % 2) == whole[step * (1 + k % 2) : (step + 1) * (1 + k % 2)]


def test_an_error_belongs_to_its_batch(tmp_path):
    """An error fails only its batch. As with other iterators, the next element is the next batch."""
    files = numbered_files(tmp_path, 8)
    Path(files[5]).unlink()

    @pipeline_def(batch_size=4, num_threads=1, seed=1)
    def graph():
        return fn.readers.file(files=files, labels=list(range(8)))

    iterator = iter(DALIDataset(graph(), (tf.uint8, tf.int32), ((None, 1), (None, 1))))
    assert next(iterator)[1].numpy().tolist() == [[0], [1], [2], [3]]
    with pytest.raises(tf.errors.OpError, match="005.bin"):
        next(iterator)
    assert next(iterator)[1].numpy().tolist() == [[0], [1], [2], [3]]


class Pausing:
    """A pipeline whose callback lets the test act while an iteration runs."""

    closed = False

    def __init__(self, within=lambda: None):
        self.within = within
        self.runs = 0

    def run(self):
        self.within()
        assert not self.closed, "closed while it was used"
        self.runs += 1
        return (np.asarray([self.runs - 1]),)

    def close(self):
        self.closed = True


def test_pipelines_end_with_their_owner_but_not_within_a_call(monkeypatch):
    """A pipeline is closed with its data set, but not during a call. A thread of TensorFlow reads while and after the data set is freed."""
    monkeypatch.setattr("asyncdali.plugin.tf.cursors.arrays_of", list)
    monkeypatch.setattr("asyncdali.plugin.tf.cursors.seek", lambda pipe, position: setattr(pipe, "runs", position))
    made = []

    def make():
        made.append(Pausing(within=lambda: cursors.release() if cursors.going else None))
        return made[-1]

    cursors = Cursors(make)
    cursors.going = False
    assert cursors.batch(0)[0].tolist() == [0] and not made[0].closed
    cursors.going = True
    assert cursors.batch(1)[0].tolist() == [1]
    assert made[0].closed and len(made) == 1
    assert [cursors.batch(position)[0].tolist() for position in (2, 40)] == [[2], [40]]
    assert len(made) == 3 and all(pipe.closed for pipe in made)


# --- saving


def through(dataset, kind):
    if kind == "plain":
        return dataset
    if kind == "map":
        return dataset.map(lambda number, draw: (number + 1, draw * 2)).prefetch(2)
    if kind == "parallel":
        return dataset.map(lambda number, draw: (number + 1, draw * 2), num_parallel_calls=4).prefetch(3)
    return dataset.unbatch().batch(3).prefetch(tf.data.AUTOTUNE)


@pytest.mark.parametrize("kind", ["plain", "map", "parallel", "rebatched"])
def test_restored_mid_epoch(tmp_path, kind):
    files = numbered_files(tmp_path, 10)
    dataset = through(DALIDataset(reader(files)), kind)
    for stop in (0, 1, 4):
        iterator = iter(dataset)
        taken(iterator, stop)
        path = tf.train.Checkpoint(it=iterator).save(str(tmp_path / f"saved-{stop}"))
        rest = taken(iterator, 9)
        again = iter(through(DALIDataset(reader(files)), kind))
        tf.train.Checkpoint(it=again).restore(path).assert_consumed()
        assert taken(again, 9) == rest
        tf.train.Checkpoint(it=again).restore(path)  # an iterator that has run
        assert taken(again, 9) == rest


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_restored_in_a_fresh_process(tmp_path, shards):
    """Saved at every step of two epochs."""
    files = numbered_files(tmp_path, 10)
    iterator = iter(through(DALIDataset(reader(files, shards - 1, shards)), "map"))
    steps = 2 * -(-10 // shards // 4)
    for step in range(steps):
        tf.train.Checkpoint(it=iterator).write(str(tmp_path / f"saved-{step}"))
        next(iterator)
    code = """
        import sys
        folder, here, shards, steps, *files = sys.argv[1:]
        sys.path.insert(0, here)
        from test_plugin_tf import *
        for step in range(int(steps)):
            iterator = iter(through(DALIDataset(reader(files, int(shards) - 1, int(shards))), "map"))
            tf.train.Checkpoint(it=iterator).read(f"{folder}/saved-{step}").assert_consumed()
            print(taken(iterator, int(steps) + 2))
    """
    here = os.path.dirname(os.path.abspath(__file__))
    done = run_script(code, tmp_path, here, shards, steps, *files, timeout=300, PYTHONPATH=os.pathsep.join(sys.path))
    whole = taken(iter(through(DALIDataset(reader(files, shards - 1, shards)), "map")), 2 * steps + 2)
    assert done.stdout.splitlines()[-steps:] == [str(whole[step : step + steps + 2]) for step in range(steps)], done.stderr


def test_saving_needs_checkpointing(tmp_path):
    pipe = reader(numbered_files(tmp_path, 4), enable_checkpointing=False)
    dataset = DALIDataset(pipe)
    with pytest.raises(tf.errors.UnimplementedError, match="enable_checkpointing"):
        tf.train.Checkpoint(it=iter(dataset)).save(str(tmp_path / "saved"))
    with pytest.raises(tf.errors.FailedPreconditionError, match="stateful"):
        tf.train.Checkpoint(it=iter(dataset.prefetch(1))).save(str(tmp_path / "saved"))


# --- inputs


def added(batch=3, **options):
    def graph():
        return fn.external_source(name="a", layout="X") + fn.external_source(name="b"), fn.random.uniform()

    return pipeline_of(graph, batch_size=batch, **options)


def test_inputs():
    """Inputs of samples and of batches. The last batch is smaller, and a second iterator starts from the beginning."""
    a = tf.data.Dataset.range(8).map(lambda k: tf.fill([2], k))
    b = tf.data.Dataset.from_tensor_slices(np.arange(16).reshape(8, 2) * 10).batch(3)
    dataset = DALIDatasetWithInputs(
        added(), (tf.int64, tf.float32), ((None, 2), (None,)), input_datasets={"a": Input(a, layout="X"), "b": Input(b, batch=True)}
    )
    draws = []
    for _ in range(2):
        found = list(dataset)
        assert np.concatenate([x for x, _ in found]).tolist() == (np.arange(8)[:, None] + np.arange(16).reshape(8, 2) * 10).tolist()
        assert [len(x) for x, _ in found] == [3, 3, 2]
        draws.append([y.numpy().tolist() for _, y in found])
    assert draws[0] == draws[1]


def test_inputs_of_different_shapes():
    a = tf.data.Dataset.from_generator(lambda: (np.zeros(k + 1) for k in range(4)), output_signature=tf.TensorSpec([None], tf.float64))
    pipe = pipeline_of(lambda: fn.pad(fn.external_source(name="a")), batch_size=4)
    assert next(iter(DALIDatasetWithInputs(pipe, tf.float64, (None, None), input_datasets={"a": a}))).shape == (4, 4)


def test_inputs_beside_a_source():
    def graph():
        return fn.external_source(name="a") + fn.external_source(lambda i: np.int64([[i]] * 2))

    dataset = DALIDatasetWithInputs(pipeline_of(graph, batch_size=2), tf.int64, (None, 1),
                                    input_datasets={"a": tf.data.Dataset.from_tensors(np.int64([5])).repeat(6)})  # fmt: skip
    for _ in range(2):
        assert [x.numpy().tolist() for x in dataset] == [[[5 + i]] * 2 for i in range(3)]


def test_refused_inputs(tmp_path):
    numbers = tf.data.Dataset.range(4)
    given = {"a": numbers, "b": numbers}
    for error, match, inputs in [
        (ValueError, r"missing for the inputs \['b'\]", {"a": numbers}),
        (ValueError, r"unknown to the pipeline \['c'\]", {**given, "c": numbers}),
        (TypeError, "tf.data.Dataset", {**given, "a": [1]}),
        (TypeError, "single tensors", {**given, "a": tf.data.Dataset.zip((numbers, numbers))}),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            DALIDatasetWithInputs(added(), (tf.int64, tf.float32), input_datasets=inputs)
    with pytest.raises(ValueError, match="output_dtypes"):
        DALIDatasetWithInputs(added(), input_datasets=given)
    inputs = {"a": Input(numbers, layout=""), "b": numbers}
    dataset = DALIDatasetWithInputs(added(output_ndim=0), (tf.int64, tf.float32), input_datasets=inputs)
    with pytest.raises(tf.errors.UnimplementedError, match="inputs"):
        tf.train.Checkpoint(it=iter(dataset)).save(str(tmp_path / "saved"))


def test_keras_fits():
    """A model learns a linear function from the random numbers of a pipeline."""
    @pipeline_def(batch_size=32, num_threads=1, seed=3)
    def graph():
        x = fn.random.uniform(range=(-1.0, 1.0), shape=[1])
        return x, x * 3.0 + 1.0

    dataset = DALIDataset(graph(), (tf.float32, tf.float32), ((None, 1), (None, 1)))
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.3), loss="mse")
    model.fit(dataset, steps_per_epoch=60, epochs=1, verbose=0)
    kernel, bias = model.get_weights()
    assert abs(kernel[0, 0] - 3) < 0.1 and abs(bias[0] - 1) < 0.1


def _drawn():
    @pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=1)
    def graph():
        numbers = fn.random.uniform(range=[0, 10], dtype=types.INT32)
        return numbers, fn.cast(numbers, dtype=types.FLOAT)

    return graph()


def test_dali_iterator():
    """DALIIterator returns one batch per call. It takes a pipeline or a serialized pipeline."""
    import asyncdali.plugin.tf as plugin

    reference = _drawn()
    next_batch = plugin.DALIIterator()
    stored = plugin.serialize_pipeline(_drawn())
    for _ in range(3):
        expected = [np.array(output.as_array()) for output in reference.run()]
        given = next_batch(serialized_pipeline=stored, shapes=[(3,), (3,)], dtypes=[tf.int32, tf.float32])
        for one, other in zip(given, expected, strict=True):
            np.testing.assert_array_equal(one.numpy(), other)
    sparse, dense = next_batch(serialized_pipeline=stored, batch_size=3, sparse=[True, False])
    assert isinstance(sparse, tf.sparse.SparseTensor)
    assert dense.shape == (3,)
    with pytest.raises(ValueError, match="`shapes` of the outputs, or `batch_size`"):
        next_batch(serialized_pipeline=stored)
    with pytest.raises(ValueError, match="must be a number"):
        next_batch(serialized_pipeline=stored, batch_size=3, exec_dynamic=True, prefetch_queue_depth={"cpu_size": 1, "gpu_size": 1})


def test_deprecated_names_of_a_data_set():
    import asyncdali.plugin.tf as plugin

    with pytest.warns(Warning, match="is called 'output_dtypes' now"):
        data = plugin.DALIDataset(_drawn(), dtypes=[tf.int32, tf.float32], shapes=[(3,), (3,)])
    assert [spec.dtype for spec in data.element_spec] == [tf.int32, tf.float32]
    with pytest.raises(ValueError, match="deprecated name"):
        plugin.DALIDataset(_drawn(), dtypes=[tf.int32, tf.float32], output_dtypes=(tf.int32, tf.float32))
    assert plugin.dataset_compatible_tensorflow() and plugin.dataset_inputs_compatible_tensorflow()
    assert plugin.dataset_distributed_compatible_tensorflow()
    assert plugin.dataset_options().autotune.enabled is False


INTERRUPTED = """
    import functools, os, signal, sys
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import numpy as np
    import tensorflow as tf
    import asyncdali.plugin.tf as plugin
    from asyncdali import Pipeline, fn
    from asyncdali.plugin.tf.wrapper import _Iterator
    from helpers.storms import Late, Storm

    def drawn():
        pipe = Pipeline(3, 1, seed=1)
        with pipe:
            pipe.set_outputs(fn.random.uniform(range=(0, 1)))
        return pipe

    reference, stored, iterator = drawn(), plugin.serialize_pipeline(drawn()), plugin.DALIIterator()
    storm, done = Storm(signal.SIGALRM, Late, _Iterator.__call__, longest=2e-2), 0
    next_batch = functools.partial(iterator, serialized_pipeline=stored, shapes=[(3,)], dtypes=[tf.float32])
    np.testing.assert_array_equal(next_batch()[0].numpy(), reference.run()[0].as_array())
    storm.begin()
    while storm.count < int(sys.argv[1]):
        try:
            found = next_batch()[0].numpy()
        except Late:
            continue
        storm.on = False
        np.testing.assert_array_equal(found, reference.run()[0].as_array(), err_msg=str((done, storm.count)))
        storm.on, done = True, done + 1
        storm.begin()
    storm.end()
    print("nothing lost", done > 0)
"""


@pytest.mark.parametrize("count", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_exceptions_of_handlers_lose_no_batch_of_an_iterator(count):
    """The exception keeps its class: without a data set, no thread of TensorFlow's is between the handler and the program."""
    done = run_script(INTERRUPTED, count, timeout=300)
    assert done.stdout == "nothing lost True\n", done.stderr[-4000:]
