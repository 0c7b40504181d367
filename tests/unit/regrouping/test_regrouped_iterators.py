"""Iterators of frameworks, checkpoints of iterators, worker processes and fleets with select and mix."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from asyncdali import fn, pipeline_def, types
from asyncdali.pipeline.replay.rewinding import restart, rewind
from asyncdali.plugin.base_iterator import BaseIterator, LastBatchPolicy

COUNT, BATCH = 50, 4


class Lists(BaseIterator):
    """Batches as lists of numbers."""

    def _collected(self, converted):
        return converted[0]

    def _converted(self, outputs, keep):
        (numbers,) = outputs
        return [int(np.asarray(numbers[k]).item()) for k in range(len(numbers) if keep is None else keep)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    names = []
    for k in range(COUNT):
        (folder / f"{k:02}.bin").write_bytes(bytes([k]))
        names.append(str(folder / f"{k:02}.bin"))
    return names


def selected(files):
    label = fn.readers.file(files=files, labels=list(range(len(files))), name="reader")[1]
    return fn.experimental.select(label, where=label % 3 == 0)


def make(files, **options):
    return pipeline_def(selected, batch_size=BATCH, num_threads=2, device_id=None, seed=1)(files, **options)


PASSING = list(range(0, COUNT, 3))


def test_epochs_of_an_iterator(files):
    iterator = Lists(make(files), ["number"], auto_reset=True)
    for _ in range(3):
        batches = list(iterator)
        assert [number for batch in batches for number in batch] == PASSING
        assert [len(batch) for batch in batches] == [4, 4, 4, 4, 1]


def test_a_policy_that_drops_the_last_batch(files):
    iterator = Lists(make(files), ["number"], auto_reset=True, last_batch_policy=LastBatchPolicy.DROP)
    for _ in range(2):
        sizes = [len(batch) for batch in iterator]
        assert sizes == [4, 4, 4, 4]


def test_the_name_of_a_reader_is_refused(files):
    with pytest.raises(ValueError, match=r"before fn\.experimental\.select.*Leave out `reader_name`"):
        Lists(make(files), ["number"], reader_name="reader")


def test_checkpoints_of_an_iterator(files):
    options = {"enable_checkpointing": True}
    iterator = Lists(make(files, **options), ["number"], auto_reset=True)
    saved, expected = [], []
    for _ in range(14):
        saved.append(iterator.checkpoints()[0])
        try:
            expected.append(next(iterator))
        except StopIteration:
            expected.append("end")
    for k in range(14):
        again = Lists(make(files, **options, checkpoint=saved[k]), ["number"], auto_reset=True)
        found = []
        for _ in range(14 - k):
            try:
                found.append(next(again))
            except StopIteration:
                found.append("end")
        assert found == expected[k:], k


def test_a_pipeline_goes_back_to_a_checkpoint(files):
    pipe = make(files, enable_checkpointing=True)
    first = [np.asarray(pipe.run()[0].as_array()).ravel().tolist() for _ in range(2)]
    saved = pipe.checkpoint()
    third = np.asarray(pipe.run()[0].as_array()).ravel().tolist()
    rewind(pipe, saved)
    assert np.asarray(pipe.run()[0].as_array()).ravel().tolist() == third
    restart(pipe)
    assert [np.asarray(pipe.run()[0].as_array()).ravel().tolist() for _ in range(2)] == first
    pipe.close()


def by_position(info):
    if info.iteration >= 6:
        raise StopIteration
    return np.array([info.idx_in_epoch], np.int32)


@pytest.mark.parametrize("engines", [0, 2])
def test_worker_processes_before_a_selection(engines):
    @pipeline_def(batch_size=4, num_threads=1, device_id=None, py_num_workers=2, enable_checkpointing=True)
    def define():
        number = fn.external_source(by_position, batch=False, parallel=True, dtype=types.INT32)
        number = fn.experimental.select(number, where=number % 5 != 2)
        return number + 100

    def epoch(pipe):
        found = []
        with pytest.raises(StopIteration):
            while True:
                found.append(np.asarray(pipe.run()[0].as_array()).ravel().tolist())
        pipe.reset()
        return found

    pipe = define(engines=engines)
    found = epoch(pipe)
    assert [number for batch in found for number in batch] == [number + 100 for number in range(24) if number % 5 != 2]
    saved = pipe.checkpoint()
    assert epoch(pipe) == found
    pipe.close()
    again = define(engines=engines, checkpoint=saved)
    assert epoch(again) == found
    again.close()


def test_a_stored_pipeline_is_refused(files):
    with pytest.raises(RuntimeError, match=r"fn\.experimental\.select.*has graphs of its own"):
        make(files).serialize()


def test_the_provenance_of_a_batch_names_part_and_file(files):
    pipe = make(files)
    pipe.run()
    batch = pipe.run()[0]
    told = batch.provenance()
    for k, number in enumerate((12, 15, 18, 21)):
        (origin,) = told.sample(k)["regrouped"].values()
        assert origin["part"] == 0 and origin["readers"]["reader"]["number"] == number
        assert origin["readers"]["reader"]["file"] == files[number]
    assert f"part 0, its step 3, sample 0; reader[12] {files[12]} epoch 0 shard 0" in str(told)
    pipe.close()


def test_the_provenance_of_a_mix_of_selections(files):
    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def define():
        parts = []
        for k in range(2):
            label = fn.readers.file(files=files[25 * k : 25 * k + 25], name=f"reader{k}")[1]
            parts.append((fn.experimental.select(label, where=label >= 0), 1))
        return fn.experimental.mix(parts, per="sample")

    pipe = define()
    told = pipe.run()[0].provenance()
    for k in range(4):
        (outer,) = told.sample(k)["regrouped"].values()
        (inner,) = outer["regrouped"].values()
        assert outer["part"] == k % 2 and inner["readers"][f"reader{k % 2}"]["file"] in files[25 * (k % 2) : 25 * (k % 2) + 25]
    pipe.close()


def test_another_graph_of_a_part_is_named(files):
    pipe = make(files, enable_checkpointing=True)
    saved = pipe.checkpoint()
    pipe.close()

    with pytest.raises(ValueError, match="data set size 50 in the checkpoint, 40 in this pipeline"):
        make(files[:40], enable_checkpointing=True, checkpoint=saved).build()


def test_closing_closes_the_parts(files):
    pipe = make(files)
    pipe.run()
    sessions = [core.session for core in pipe._core.processes.streams.cores()]
    pipe.close()
    assert sessions and all(session.closed for session in sessions)


def test_a_failed_build_closes_parts_of_parts(files, tmp_path):
    def threads():
        return {thread.name for thread in threading.enumerate() if "-worker-" in thread.name}

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def define():
        label = fn.readers.file(files=files)[1]
        first = fn.experimental.select(label, where=label % 2 == 0)
        missing = fn.readers.file(file_root=str(tmp_path / "missing"))[1]
        both = fn.experimental.mix([(first, 1), (missing, 1)])
        return fn.experimental.select(both, where=both > 0)

    before = threads()
    pipe = define()
    with pytest.raises(RuntimeError, match="missing"):
        pipe.build()
    pipe.close()
    assert threads() <= before
