"""The common base of all frameworks' iterators, without a framework: tables of epochs, checkpoints, `pipe.epoch()`, and names."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from helpers.iterators import numbered_files, reader_pipelines, source_pipeline
from helpers.pipelines import pipeline_of

from asyncdali import fn, pipeline_def
from asyncdali.errors import CheckpointError
from asyncdali.plugin.base_iterator import BaseIterator, LastBatchPolicy
from asyncdali.plugin.epochs import CountedEpochs, ReaderEpochs, shard_sizes


class Plain(BaseIterator):
    """Returns a list of numbers for each pipeline."""

    def _converted(self, outputs, keep):
        return np.asarray(outputs[0]).ravel().tolist()[:keep]


def text(iterator, count):
    """The batches of an iterator as text: 0123 4567 / 2345 ... A slash is the end of an epoch."""
    words = []
    for _ in range(count):
        for batch in iterator:
            parts = ["".join(map(str, part)) for part in batch]
            words.append(parts[0] if len(parts) == 1 else f"[{','.join(parts)}]")
        words.append("/")
    return " ".join(words)


SEVEN = [  # samples 0 to 6, batch 2: policy, padded, len, epochs
    ("PARTIAL", True, 4, "01 23 45 6 / 01 23 45 6 /"), ("PARTIAL", False, 4, "01 23 45 6 / 12 34 56 0 /"),
    ("FILL", True, 4, "01 23 45 66 / 01 23 45 66 /"), ("FILL", False, 4, "01 23 45 60 / 12 34 56 /"),
    ("DROP", True, 3, "01 23 45 / 01 23 45 /"), ("DROP", False, 3, "01 23 45 / 12 34 56 /"),
]  # fmt: skip


@pytest.mark.parametrize("policy, pad, length, expected", SEVEN)
def test_seven_samples(tmp_path, policy, pad, length, expected):
    pipes = reader_pipelines(numbered_files(tmp_path, 7), 2, 1, [0], pad_last_batch=pad)
    iterator = Plain(pipes, ["x"], reader_name="reader", auto_reset=True, last_batch_policy=LastBatchPolicy[policy])
    assert len(iterator) == length and text(iterator, 2) == expected


TEN = [  # samples 0 to 9, batch 4: shards, policy, pad, stick, len, size, epochs
    (1, "FILL", 0, 0, 3, 12, "0123 4567 8901 / 2345 6789 / 0123 4567 8901 /"),
    (1, "FILL", 1, 0, 3, 10, "0123 4567 8999 / 0123 4567 8999 / 0123 4567 8999 /"),
    (1, "DROP", 0, 0, 2, 10, "0123 4567 / 2345 6789 / 4567 8901 /"),
    (1, "PARTIAL", 0, 0, 3, 12, "0123 4567 89 / 2345 6789 01 / 4567 8901 23 /"),
    (3, "FILL", 0, 0, 1, 4, "[0123,3456,6789] / [4567,7890,0123] / [8901,1234,4567] /"),
    (3, "FILL", 0, 1, 1, 4, "[0120,3453,6789] / [1201,4534,6789] / [2012,5345,6789] /"),
    (3, "FILL", 1, 0, 1, 4, "[0122,3455,6789] / [3455,6789,0122] / [6789,0122,3455] /"),
    (3, "PARTIAL", 0, 0, 1, 4, "[012,345,6789] / [456,7890,012] / [8901,123,456] /"),
    (3, "PARTIAL", 0, 1, 1, 4, "[012,345,6789] / [120,453,6789] / [201,534,6789] /"),
    (3, "PARTIAL", 1, 0, 1, 4, "[012,345,6789] / [345,6789,012] / [6789,012,345] /"),
    (3, "PARTIAL", 1, 1, 1, 4, "[012,345,6789] / [012,345,6789] / [012,345,6789] /"),
]  # fmt: skip


@pytest.mark.parametrize("shards, policy, pad, stick, length, size, expected", TEN)
def test_ten_samples(tmp_path, shards, policy, pad, stick, length, size, expected):
    pipes = reader_pipelines(numbered_files(tmp_path, 10), 4, shards, range(shards), pad_last_batch=bool(pad), stick_to_shard=bool(stick))
    iterator = Plain(pipes, ["x"], reader_name="reader", auto_reset="yes", last_batch_policy=LastBatchPolicy[policy])
    assert (len(iterator), iterator.size) == (length, size) and text(iterator, 3) == expected


def test_no_batch_at_all(tmp_path):
    """With DROP, a shard that is smaller than the batch gives no batch."""
    pipes = reader_pipelines(numbered_files(tmp_path, 10), 4, 3, range(3))
    with pytest.raises(RuntimeError, match="no batch"):
        Plain(pipes, ["x"], reader_name="reader", last_batch_policy=LastBatchPolicy.DROP)


@pytest.mark.parametrize("state", [{}, {"taken": -1, "turn": 0, "ahead": [0, 0]}, {"taken": 0, "turn": None, "ahead": [0, 0]},
                                   {"taken": 0, "turn": 0, "ahead": [0]}, {"taken": "1", "turn": 0, "ahead": [0, 0]}])  # fmt: skip
def test_invalid_states_are_refused(state):
    epochs = ReaderEpochs(shard_sizes(10, 2), [0], 4, LastBatchPolicy.FILL, False, False)
    with pytest.raises(ValueError, match="state"):
        epochs.load(state)
    assert epochs.state() == {"taken": 0, "turn": 0, "ahead": [0, 0]}
    with pytest.raises(ValueError, match="counter"):
        CountedEpochs(5, 1, 2, LastBatchPolicy.FILL, False).load({})


def test_a_checkpoint_of_an_iterator_with_other_arguments(tmp_path):
    files = numbered_files(tmp_path, 10)
    saved = Plain(reader_pipelines(files, 4, 1, [0]), ["x"], size=10).checkpoints()
    with pytest.raises(CheckpointError, match="other arguments"):
        Plain(reader_pipelines(files, 4, 1, [0], checkpoints=saved), ["x"], reader_name="reader")


def test_a_restored_iterator_returns_the_same_checkpoint(tmp_path):
    """A restored pipeline that has not run returns the same checkpoint, including the state of the iterator."""
    files = numbered_files(tmp_path, 10)
    iterator = Plain(reader_pipelines(files, 4, 1, [0]), ["x"], reader_name="reader")
    next(iterator)
    saved = iterator.checkpoints()
    pipe = reader_pipelines(files, 4, 1, [0], checkpoints=saved)[0]
    assert pipe.checkpoint() == saved[0]
    pipe.run()
    assert b'"iterator":null' in pipe.checkpoint()


# --- pipe.epoch()


@pipeline_def(batch_size=4, num_threads=1, seed=3, enable_checkpointing=True)
def named(files):
    _, label = fn.readers.file(files=files, labels=list(range(len(files))), name="reader")
    return {"label": label, "draw": fn.random.uniform()}


def labels(batches):
    return [batch["label"].as_array().ravel().tolist() for batch in batches]


def test_epochs_with_names(tmp_path):
    files = numbered_files(tmp_path, 10)
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]]
    pipe = named(files)
    assert pipe.output_names == ("label", "draw") and labels(pipe.epoch()) == expected
    assert labels(pipe.epoch()) == [[2, 3, 4, 5], [6, 7, 8, 9]]
    assert isinstance(pipe.run(), tuple)

    async def native():
        async with named(files) as other:
            return labels([batch async for batch in other])

    assert asyncio.run(native()) == expected


def test_leaving_an_epoch(tmp_path):
    """After a `break` the next loop gives the rest of the epoch, also if the pipeline was restored from a checkpoint."""
    files = numbered_files(tmp_path, 10)
    pipe = named(files)
    for _ in pipe.epoch():
        break
    again = named(files, checkpoint=pipe.checkpoint())
    assert labels(pipe.epoch()) == labels(again.epoch()) == [[4, 5, 6, 7], [8, 9, 0, 1]]


def test_epochs_ended_by_sources():
    pipe = source_pipeline(3)
    for _ in range(2):
        assert [batch[0].as_array().ravel().tolist() for batch in pipe.epoch()] == [[0, 1], [10, 11], [20, 21]]


def test_epoch_does_not_mix_with_an_iterator():
    iterator = Plain(source_pipeline(3), ["x"])
    with pytest.raises(RuntimeError, match="Mixing"):
        iterator._pipes[0].epoch()


def test_names_that_are_refused():
    @pipeline_def(batch_size=1, num_threads=1)
    def graph(outputs):
        return {name: fn.random.uniform() for name in outputs}

    for outputs in ([], [1, 2]):
        with pytest.raises(TypeError, match="names"):
            graph(outputs)


def test_names_in_debug_mode():
    @pipeline_def(batch_size=2, num_threads=1, debug=True)
    def graph():
        return {"draw": fn.random.uniform(), "one": np.int32(1)}

    pipe = graph()
    first, second = pipe.run()
    assert pipe.output_names == ("draw", "one") and len(first) == len(second) == 2


def test_a_failed_iteration_counts():
    """A failed iteration counts as one of the 4 batches of its epoch."""
    def check(x):
        if x[0] == 1:
            raise KeyError("broken")
        return x

    pipe = pipeline_of(lambda: fn.python_function(fn.external_source(lambda i: np.int64([[i % 4]] * 2)), function=check), batch_size=2)
    iterator = Plain(pipe, ["x"], size=8, auto_reset=True)
    for _ in range(2):
        assert next(iterator) == [[0, 0]]
        with pytest.raises(RuntimeError, match="broken"):
            next(iterator)
        assert list(iterator) == [[[2, 2]], [[3, 3]]]
