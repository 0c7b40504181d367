"""Readers of dynamic mode: epochs, sizes, shards, calls, states. The orders are those that DALI 2.4 gave for the same arguments."""

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from helpers.containers import example, write_tfrecord
from helpers.readers import EVERY_KIND, MATRIX

import asyncdali
import asyncdali.dynamic as ndd
from asyncdali import fn, pipeline_def, tfrecord
from asyncdali.imperative.states import ReaderState
from asyncdali.operators.base import REGISTRY


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Ten files; file k has k + 1 bytes k."""
    root = tmp_path_factory.mktemp("files")
    paths = []
    for k in range(10):
        path = root / f"{k:02d}.bin"
        path.write_bytes(bytes([k]) * (k + 1))
        paths.append(str(path))
    return paths


@pytest.fixture
def reader(files):
    return lambda **arguments: ndd.readers.File(files=files, **arguments)


def numbers(item):
    """The labels of an item."""
    label = item[1]
    return [int(t.item()) for t in label.tensors] if isinstance(label, ndd.Batch) else label.item()


def epochs(made, size, count, **arguments):
    return [[numbers(item) for item in made.next_epoch(batch_size=size, **arguments)] for _ in range(count)]


# --- R1


def test_R1_arguments_are_checked_when_a_reader_is_made(files, tmp_path):
    for given, error in (
        ({"foo": 3}, TypeError), ({"num_shards": 2, "shard_id": 2}, ValueError),
        ({"num_shards": 2, "shard_id": 2, "lazy_init": True}, ValueError), ({"max_batch_size": 0}, ValueError),
        ({"max_batch_size": 2.0}, TypeError), ({"device": "gpu:0"}, (ValueError, RuntimeError)),
        ({"device": "mixed"}, ValueError), ({"num_inputs": 1}, ValueError), ({"name": 3}, TypeError), ({"seed": "x"}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            ndd.readers.File(**{"files": files, **given})
    with pytest.raises(TypeError, match="max_batch_size"):
        ndd.readers.File("/data")
    with pytest.raises(TypeError, match="path"):
        ndd.readers.TFRecord(features={})
    with pytest.raises(RuntimeError, match="file_root"):
        ndd.readers.File()
    with pytest.raises(OSError, match=r"^ndd\.readers\.File: .*nowhere"):
        ndd.readers.File(file_root=str(tmp_path / "nowhere"))
    with pytest.raises(TypeError, match=r"^ndd\.readers\.File: argument 'file_root' must be str, got 3"):
        ndd.readers.File(file_root=3)
    ndd.readers.File(file_root=str(tmp_path / "nowhere"), lazy_init=True)


def test_R1_errors_name_the_right_spelling():
    with pytest.raises(AttributeError, match=r"readers\.File\(\.\.\.\)\.next_epoch"):
        ndd.readers.file  # noqa: B018
    with pytest.raises(AttributeError, match="VideoResize"):
        ndd.readers.video_resize  # noqa: B018
    with pytest.raises(AttributeError):
        ndd.readers.something  # noqa: B018


def test_R1_all_thirteen_readers_are_classes():
    names = ["COCO", "Caffe", "Caffe2", "File", "MXNet", "NemoAsr", "Numpy", "TFRecord", "Video", "VideoResize", "Webdataset"]
    found = [getattr(ndd.readers, name) for name in names] + [ndd.experimental.readers.Fits, ndd.experimental.readers.Video]
    assert len(set(found)) == 13
    assert [kind.__name__ for kind in found] == [*names, "Fits", "Video"]
    assert all(isinstance(kind, type) and kind.__doc__ for kind in found)


# --- R2


def test_R2_items_are_tuples_of_batches_or_of_tensors(reader):
    made = reader().next_epoch(batch_size=4)
    item = next(made)
    assert isinstance(item, tuple) and [type(value) for value in item] == [ndd.Batch, ndd.Batch]
    assert item[0].shape == [(1,), (2,), (3,), (4,)] and item[0].dtype is ndd.uint8 and item[1].dtype is ndd.int32
    sample = next(reader().next_epoch())
    assert [type(value) for value in sample] == [ndd.Tensor, ndd.Tensor]
    assert len(list(reader(max_batch_size=4).next_epoch())) == 3
    array = ndd.batch([1, 2])
    assert isinstance(array, ndd.Batch)


def test_R2_readers_with_one_output_give_tuples_too(tmp_path):
    paths = []
    for k in range(3):
        np.save(tmp_path / f"{k}.npy", np.full((2, 2), k))
        paths.append(str(tmp_path / f"{k}.npy"))
    assert isinstance(next(ndd.readers.Numpy(files=paths).next_epoch(batch_size=2)), tuple)
    assert isinstance(ndd.readers.Numpy(files=paths)(), ndd.Tensor)


def test_R2_tfrecords_give_dicts(tmp_path):
    index = write_tfrecord(tmp_path / "x.rec", [example(a=k, b=2 * k) for k in range(5)])
    features = {name: tfrecord.FixedLenFeature((), tfrecord.int64, -1) for name in ("a", "b")}
    made = ndd.readers.TFRecord(path=str(tmp_path / "x.rec"), index_path=f"{index}.idx", features=features)
    item = next(made.next_epoch(batch_size=2))
    assert list(item) == ["a", "b"] and [t.item() for t in item["b"].tensors] == [0, 2]
    assert made.get_metadata()["epoch_size"] == 5


def test_R2_making_an_iterator_reads_nothing(reader):
    made = reader()
    made.next_epoch(batch_size=4)
    assert not made.is_used
    assert epochs(made, 3, 1)[0][0] == [0, 1, 2]


# --- R3

SHARDED = [
    # num_shards, shard_id, stick_to_shard, pad_last_batch, batch size, epochs of DALI
    (1, 0, False, False, 4, [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]], [[2, 3, 4, 5], [6, 7, 8, 9], [0, 1, 2, 3]]]),
    (3, 1, False, False, 2, [[[3, 4], [5, 6]], [[7, 8], [9, 0]], [[1, 2], [3, 4]], [[5, 6], [7, 8]]]),
    (3, 0, True, False, 2, [[[0, 1], [2, 0]], [[1, 2], [0, 1]], [[2, 0], [1, 2]]]),
    (3, 2, False, True, 3, [[[6, 7, 8], [9, 9, 9]], [[0, 1, 2], [2, 2, 2]], [[3, 4, 5], [5, 5, 5]]]),
    (1, 0, False, True, 4, [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9]], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9]]]),
    (4, 1, False, False, 3, [[[2, 3, 4]], [[5, 6, 7]], [[8, 9, 0]], [[1, 2, 3]]]),
    (4, 1, False, True, 3, [[[2, 3, 4]], [[5, 6, 6]], [[7, 8, 9]], [[0, 1, 1]]]),
    (4, 1, False, True, None, [[2, 3, 4], [5, 6, 6], [7, 8, 9], [0, 1, 1]]),
    (4, 1, False, False, None, [[2, 3, 4], [5, 6], [7, 8, 9], [0, 1]]),
]


@pytest.mark.parametrize("case", range(len(SHARDED)))
def test_R3_epochs_wrap(reader, case):
    shards, shard, stick, pad, size, expected = SHARDED[case]
    made = reader(num_shards=shards, shard_id=shard, stick_to_shard=stick, pad_last_batch=pad)
    assert epochs(made, size, len(expected)) == expected


def test_R3_finished_epochs_decide_the_shard_that_an_epoch_counts(reader):
    made = reader(num_shards=4)
    assert [len(items) for items in epochs(made, 2, 9)] == [1, 2, 1, 2, 1, 2, 1, 2, 1]
    made = reader(num_shards=4)
    for _ in range(8):
        next(made.next_epoch(batch_size=2))
    assert [len(items) for items in epochs(made, 2, 3)] == [1, 2, 1]


def test_R3_a_last_batch_may_be_partial_or_dropped(reader):
    whole, rest = [[0, 1, 2, 3], [4, 5, 6, 7]], [[8, 9]]
    assert epochs(reader(), 4, 2, last_batch="partial") == [whole + rest] * 2
    assert epochs(reader(), 4, 2, last_batch="drop") == [whole] * 2
    assert epochs(reader(num_shards=4), 2, 4, last_batch="partial") == [[[0, 1]], [[2, 3], [4]], [[5, 6]], [[7, 8], [9]]]
    assert epochs(reader(num_shards=4), 2, 4, last_batch="drop") == [[[0, 1]], [[2, 3]], [[5, 6]], [[7, 8]]]
    assert epochs(reader(num_shards=4, pad_last_batch=True), 2, 2, last_batch="partial") == [[[0, 1], [1]], [[2, 3], [4]]]
    with pytest.raises(ValueError, match="wrap"):
        reader().next_epoch(batch_size=2, last_batch="fill")


# --- R4


def test_R4_a_reader_keeps_its_batch_size(reader):
    made = reader(max_batch_size=6)
    first = made.next_epoch(batch_size=4)
    other = made.next_epoch(batch_size=np.int64(3))
    next(first)
    with pytest.raises(ValueError, match="batches of 4"):
        made.next_epoch(batch_size=3)
    with pytest.raises(ValueError, match="batches of 4"):
        next(other)
    for size, error in ((7, ValueError), (0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError), ("4", TypeError)):
        with pytest.raises(error):
            made.next_epoch(batch_size=size)


def test_R4_readers_and_epochs_have_a_length(reader):
    made = reader()
    assert len(made) == 10
    items = made.next_epoch(batch_size=4)
    assert len(items) == 3
    next(items)
    assert len(items) == 2
    list(items)
    assert len(items) == 0
    assert [len(made.next_epoch(batch_size=4, last_batch=last)) for last in ("wrap", "partial", "drop")] == [3, 2, 2]
    assert len(reader(num_shards=4)) == 2


# --- R5


def test_R5_samples_batches_and_calls_are_not_mixed(reader):
    def sample(made):
        return next(made.next_epoch())

    def batch(made):
        return next(made.next_epoch(batch_size=1))

    ways = {"sample": sample, "batch": batch, "call": lambda made: made()}
    for first, use in ways.items():
        made = reader()
        use(made)
        for second, other in ways.items():
            if first != second:
                with pytest.raises(RuntimeError, match="make another reader"):
                    other(made)
        use(made)


def test_R5_a_second_iterator_continues(reader):
    made = reader()
    first = made.next_epoch(batch_size=4)
    assert numbers(next(first)) == [0, 1, 2, 3]
    second = made.next_epoch(batch_size=4)
    assert [numbers(item) for item in second] == [[4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5]]
    assert [numbers(item) for item in first] == [[6, 7, 8, 9], [0, 1, 2, 3]]


# --- R6


def test_R6_calls_read_any_number_of_samples_and_drop_none(reader):
    made = reader(max_batch_size=4)
    assert [numbers(made(batch_size=3)), numbers(made()), numbers(made(batch_size=4))] == [[0, 1, 2], 3, [4, 5, 6, 7]]
    assert numbers(made(batch_size=4)) == [8, 9, 0, 1]
    for size, error in ((5, ValueError), (0, ValueError), (1.0, TypeError)):
        with pytest.raises(error):
            made(batch_size=size)
    assert numbers(made()) == 2


def test_R6_calls_take_their_samples_when_they_are_made(reader):
    made = reader()
    with ndd.EvalMode.deferred:
        first, second = made(batch_size=2), made(batch_size=3)
    assert numbers(second) == [2, 3, 4]
    assert numbers(first) == [0, 1]


# --- R7


def test_R7_metadata_have_no_effect(reader):
    made = reader(num_shards=3, shard_id=1, pad_last_batch=True)
    expected = {
        "epoch_size": 10, "epoch_size_padded": 12, "number_of_shards": 3, "shard_id": 1, "pad_last_batch": 1, "stick_to_shard": 0,
    }  # fmt: skip
    assert made.get_metadata() == expected
    assert made.get_metadata(batch_size=5) == expected
    assert epochs(made, 4, 1) == [[[3, 4, 5, 5]]]
    assert made.get_metadata() == expected


@pytest.mark.filterwarnings("ignore:capture")
def test_metadata_can_be_asked_for_after_a_captured_loop(reader):
    made = reader(num_shards=3)
    before = made.get_metadata()
    for data, _ in made.next_epoch(batch_size=2, capture=True):
        ndd.pad(data)
    assert made.get_metadata() == made.get_metadata(batch_size=2) == before


# --- R8


def test_R8_orders_are_those_of_pipelines(files, reader):
    @pipeline_def(batch_size=5, num_threads=1, device_id=None)
    def define(arguments):
        return fn.readers.file(files=files, **arguments)[1]

    for arguments in (
        {"random_shuffle": True, "seed": 5, "initial_fill": 4}, {"shuffle_after_epoch": True},
        {"random_shuffle": True, "seed": 7, "num_shards": 2},
        {"shuffle_after_epoch": True, "shuffle_after_epoch_seed": 3},
    ):  # fmt: skip
        for keeps in (False, True):
            pipe = define(arguments, enable_checkpointing=keeps)
            expected = [np.concatenate([np.asarray(label) for label in pipe.run()[0]]).tolist() for _ in range(8)]
            made = reader(**arguments, enable_checkpointing=keeps)
            assert [numbers(made(batch_size=5)) for _ in range(8)] == expected
    made = reader(random_shuffle=True, seed=5)
    assert epochs(made, 4, 1) == [[[1, 0, 6, 9], [4, 3, 5, 2], [7, 8, 6, 3]]]


def test_R8_without_a_seed_the_default_generator_decides(reader):
    def order(seed):
        ndd.random.set_seed(seed)
        before = str(ndd.random.get_default_rng().state)
        found = epochs(reader(random_shuffle=True), None, 1)
        assert str(ndd.random.get_default_rng().state) == before
        return found

    assert order(1) == order(1) != order(2)


# --- R9


def test_R9_tensors_are_given_to_the_constructor_or_to_the_call(tmp_path):
    paths = []
    for k in range(4):
        np.save(tmp_path / f"{k}.npy", np.arange(20).reshape(4, 5) + k)
        paths.append(str(tmp_path / f"{k}.npy"))
    window = {"roi_start": ndd.as_tensor([1, 2]), "roi_shape": ndd.as_tensor([2, 2])}
    expected = [np.arange(20).reshape(4, 5)[1:3, 2:4] + k for k in range(2)]
    for made in (ndd.readers.Numpy(files=paths, **window)(batch_size=2), ndd.readers.Numpy(files=paths)(batch_size=2, **window)):
        np.testing.assert_array_equal([np.asarray(t) for t in made.tensors], expected)
    made = ndd.readers.Numpy(files=paths)(batch_size=2, roi_start=ndd.batch([[0, 0], [1, 1]]), roi_shape=[1, 2])
    assert [np.asarray(t).tolist() for t in made.tensors] == [[[0, 1]], [[7, 8]]]
    with pytest.raises(ValueError, match="constructor"):
        ndd.readers.Numpy(files=paths, **window)(batch_size=2, roi_start=[0, 0])
    with pytest.raises(ValueError, match="Batch"):
        ndd.readers.Numpy(files=paths, roi_start=ndd.batch([[0, 0]]))
    with pytest.raises(TypeError, match="constructor"):
        ndd.readers.Numpy(files=paths)(files=paths)
    with pytest.raises(TypeError, match="foo"):
        ndd.readers.Numpy(files=paths)(foo=3)
    with pytest.raises(ValueError, match="3 samples"):
        ndd.readers.Numpy(files=paths)(batch_size=2, roi_start=ndd.batch([[0, 0]] * 3))
    assert len(list(ndd.readers.Numpy(files=paths, **window).next_epoch(batch_size=2))) == 2


def test_R3_shuffling_after_epochs_keeps_the_shard_and_the_length(tmp_path):
    """Three shards of five samples have 1, 2 and 2. DALI reads one shard too, but ends the epochs at the sizes of all three in turn."""
    names = [str(tmp_path / f"{k}") for k in range(5)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    for shard, size in enumerate((1, 2, 2)):
        made = ndd.readers.File(files=names, labels=list(range(5)), shuffle_after_epoch=True, num_shards=3, shard_id=shard)
        assert [len(list(made.next_epoch(batch_size=1))) for _ in range(4)] == [size] * 4


# --- R10, R11


def test_R10_a_context_is_entered_only_while_an_item_is_read(reader):
    context = ndd.EvalContext(num_threads=1)
    outside = ndd.EvalContext.current()
    for item in reader().next_epoch(batch_size=5, ctx=context):
        assert ndd.EvalContext.current() is outside
        assert len(numbers(item)) == 5
    with pytest.raises(TypeError, match="EvalContext"):
        reader().next_epoch(ctx=3)


def test_R10_another_thread_may_continue(reader):
    items = reader().next_epoch(batch_size=5, ctx=ndd.EvalContext(num_threads=1))
    assert numbers(next(items)) == [0, 1, 2, 3, 4]
    found = []
    thread = threading.Thread(target=lambda: found.extend(numbers(item) for item in items))
    thread.start()
    thread.join(30)
    assert found == [[5, 6, 7, 8, 9]]


def test_unfinished_loops_end_silently_with_the_process(files):
    code = f"""
import asyncdali.dynamic as ndd
kept = []
for capture in (False, True):
    items = ndd.readers.File(files={files!r}).next_epoch(batch_size=2, capture=capture)
    for data, _ in items:
        kept.append((items, ndd.pad(data)))
        break
kept.append(items := ndd.ExternalSource(range(9)).captured(2))
next(items)
"""
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    assert made.stdout + made.stderr == ""


def test_R11_nothing_is_read_before_it_is_asked_for(files, tmp_path):
    names = []
    for k in range(4):
        (tmp_path / f"{k}").write_bytes(b"x" * (k + 1))
        names.append(str(tmp_path / f"{k}"))
    items = ndd.readers.File(files=names).next_epoch(batch_size=2)
    next(items)
    (tmp_path / "2").write_bytes(b"other")
    assert next(items)[0].shape == [(5,), (4,)]


def test_an_error_belongs_to_one_item(tmp_path):
    names = []
    for k in range(6):
        (tmp_path / f"{k}").write_bytes(bytes([k]))
        names.append(str(tmp_path / f"{k}"))
    made = ndd.readers.File(files=names)
    (tmp_path / "2").unlink()
    items = made.next_epoch(batch_size=2)
    assert numbers(next(items)) == [0, 1]
    with pytest.raises(OSError, match=r"/2\b"):
        next(items)
    assert [numbers(item) for item in items] == [[4, 5]]


# --- every storage format


@pytest.mark.parametrize("name", [name for name in MATRIX if name != "sequence"])
def test_every_reader_reads_what_pipelines_read(name, tmp_path):
    kind = EVERY_KIND[name]
    arguments = {**kind.write(tmp_path), "random_shuffle": True, "seed": 4, "initial_fill": 4}

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def define():
        return tuple(kind.outputs(asyncdali, arguments))

    pipe = define()
    expected = [[[np.asarray(sample) for sample in output] for output in pipe.run()] for _ in range(3)]
    made = make(kind, arguments)
    items = made.next_epoch(batch_size=4)
    for outputs in expected:
        item = next(items)
        found = list(item.values()) if isinstance(item, dict) else list(item)
        assert len(found) == len(outputs) == made.output_count
        for batch, samples in zip(found, outputs, strict=True):
            assert batch.dtype.storage == samples[0].dtype
            for one, other in zip(batch.tensors, samples, strict=True):
                np.testing.assert_array_equal(one, other)
    assert list(items) == []
    state = ReaderState.parse(str(made.state_now()))
    again = make(kind, arguments)
    again.set_state(state)
    for _ in range(2):
        rest, continued = made.next_epoch(batch_size=4), again.next_epoch(batch_size=4)
        assert list(map(content, rest)) == list(map(content, continued))


def make(kind, arguments):
    """The reader of a kind, in dynamic mode."""
    readers = {operator.schema.name: operator.schema for operator in REGISTRY.values()}
    names = [kind.name if "." in kind.name else f"readers.{kind.name}", f"experimental.readers.{kind.name}"]
    if kind.name in ("video", "fits"):
        names.reverse()
    if kind.name == "tfrecord":
        features = {
            "image": tfrecord.FixedLenFeature((), tfrecord.string, ""), "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        }  # fmt: skip
        arguments = {"features": features, **arguments}
    schema = next(readers[name] for name in names if name in readers)
    home = ndd.experimental.readers if schema.module.startswith("experimental") else ndd.readers
    return getattr(home, schema.class_name)(**arguments)


def content(item):
    return [np.asarray(t).tobytes() for batch in (item.values() if isinstance(item, dict) else item) for t in batch.tensors]


def test_old_names_of_arguments_are_taken_with_a_warning(tmp_path):
    arguments = EVERY_KIND["coco"].write(tmp_path)
    with pytest.warns(DeprecationWarning, match="image_ids"):
        made = ndd.readers.COCO(**arguments, save_img_ids=True)
    assert made.output_count == ndd.readers.COCO(**arguments).output_count + 1


def test_P2_readers_say_how_to_continue_in_another_process(reader):
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="shard_id"):
            copying(reader())
