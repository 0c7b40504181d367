"""Iterator attributes with an underscore beside DALI's. Programs read such attributes, or replace `__next__` by a changed copy."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from helpers.iterators import numbered_files

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("nvidia.dali")
LIBRARIES = ("asyncdali", "nvidia.dali")
NAMES = ("_size", "_counter", "batch_size", "_num_gpus", "output_map", "_output_categories", "_reader_name", "_auto_reset",
         "_last_batch_padded", "_prepare_first_batch", "_enable_checkpointing", "_ever_scheduled", "_ever_consumed")  # fmt: skip
OF_READERS = ("_size_no_pad", "_shards_num", "_shards_id", "_counter_per_gpu", "_shard_sizes_per_gpu", "_shard_sizes_per_gpu_initial",
              "_is_stick_to_shard")  # fmt: skip


def iterator(library, files, kind="DALIGenericIterator", pipelines=1, batch=4, policy="FILL", reader=None, base=None, **arguments):
    module = importlib.import_module(library)
    functions, torch = importlib.import_module(f"{library}.fn"), importlib.import_module(f"{library}.plugin.pytorch")
    pipes = []
    for shard in range(pipelines):
        pipe = module.Pipeline(batch, 1, None)
        with pipe:
            shards = {"shard_id": shard, **reader} if reader else {}
            pipe.set_outputs(*functions.readers.file(files=[file for file, _ in files], labels=[k for _, k in files], name="R", **shards))
        pipes.append(pipe)
    if reader is not None:
        arguments["reader_name"] = "R"
    made = getattr(torch, kind) if base is None else base(torch)
    return made(pipes, ["data", "label"], last_batch_policy=getattr(torch.LastBatchPolicy, policy), **arguments)


def described(it, names):
    found = {name: getattr(it, name) for name in names}
    # DALI lists the sizes of the current shards, and their delivered samples, in another order. Iterators use only the minimum and maximum.
    found = {name: np.sort(value) if name in ("_shard_sizes_per_gpu", "_counter_per_gpu") else value for name, value in found.items()}
    found = {name: value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value for name, value in found.items()}
    return {**found, "pipes": len(it._pipes), "policy": it._last_batch_policy.name, "first": it._first_batch is None}


def labels(batches):
    return [batch["label"].ravel().tolist() for batch in batches]


CASES = {
    "fill": {"reader": {}},
    "fill, shards": {"reader": {"num_shards": 3}, "pipelines": 2},
    "fill, one shard of three": {"reader": {"num_shards": 3}},
    "fill, stick": {"reader": {"num_shards": 3, "stick_to_shard": True}},
    "fill, padded": {"reader": {"num_shards": 3, "pad_last_batch": True}, "pipelines": 2},
    "partial": {"reader": {}, "policy": "PARTIAL"},
    "partial, shards": {"reader": {"num_shards": 3}, "pipelines": 2, "policy": "PARTIAL"},
    "drop": {"reader": {}, "policy": "DROP"},
    "drop, shards": {"reader": {"num_shards": 3, "pad_last_batch": True}, "policy": "DROP", "batch": 2},
    "size": {"size": 10},
    "size, partial": {"size": 10, "policy": "PARTIAL"},
    "size, drop": {"size": 10, "policy": "DROP"},
    "size, padded": {"size": 10, "last_batch_padded": True},
    "no first batch": {"reader": {}, "prepare_first_batch": False},
}


@pytest.mark.parametrize("name", CASES)
def test_attributes_that_programs_read(tmp_path, name):
    files = [(str(file), k) for k, file in enumerate(numbered_files(tmp_path, 10))]
    case = CASES[name]
    names = NAMES + (OF_READERS if "reader" in case else ())
    seen = []
    for library in LIBRARIES:
        it = iterator(library, files, **case)
        found = [described(it, names)]
        for _ in range(4):
            while True:
                try:
                    batch = next(it)
                except StopIteration:
                    break
                left = it._remove_padded() if "reader" in case else None
                left = [np.asarray(part).tolist() for part in left] if left else None
                dry = it._advance_and_check_drop_last(dry_run=True, end_iteration=False)
                found.append((labels(batch), left, bool(dry), int(it._counter), int(it._size)))
            it.reset()
            found.append(described(it, names))
        seen.append(found)
    assert seen[0] == seen[1]


def copied(torch):
    """An iterator class whose `__next__` is a program's copy of the library's method."""

    class Copied(torch.DALIGenericIterator):
        def __next__(self):
            if self._first_batch is not None:
                batch = self._first_batch
                self._first_batch = None
                return batch
            outputs = self._get_outputs()
            made = []
            for i in range(self._num_gpus):
                named = dict(zip(self.output_map, outputs[i], strict=True))
                assert set(named) == self._output_categories
                made.append({name: np.array(named[name].as_tensor()) for name in self._output_categories})
            self._schedule_runs()
            self._advance_and_check_drop_last()
            dropped, left = self._remove_padded() if self._reader_name else (False, None)
            if np.any(dropped):
                for i, count in enumerate(left):
                    made[i] = {name: array[:count] for name, array in made[i].items()}
            return made

    return Copied


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("resets", [False, True])
def test_iterators_with_their_own_next(tmp_path, name, resets):
    files = [(str(file), k) for k, file in enumerate(numbered_files(tmp_path, 10))]
    seen = []
    for library in LIBRARIES:
        it = iterator(library, files, base=copied, auto_reset=resets, **CASES[name])
        found = []
        for _ in range(4):
            while True:
                try:
                    found.append(labels(next(it)))
                except StopIteration:
                    found.append(None)
                    break
            if not resets:
                it.reset()
        seen.append(found)
    assert seen[0] == seen[1]


def test_the_first_batch_may_be_taken_or_replaced(tmp_path):
    files = [(str(file), k) for k, file in enumerate(numbered_files(tmp_path, 10))]
    seen = []
    for library in LIBRARIES:
        it = iterator(library, files, size=10)
        found = [labels(it._first_batch), labels(it._first_batch), it._counter]
        it._first_batch = None
        found += [labels(next(it)), it._counter]
        it = iterator(library, files, size=10)
        it._first_batch = [{"label": np.array([7])}]
        found += [labels(next(it)), labels(next(it)), it._counter]
        it = iterator(library, files, size=10)
        it._counter = 8
        found += [labels(batch) for batch in it] + [it._counter]
        it = iterator(library, files, size=10, prepare_first_batch=False)
        found += [it._first_batch, len(it._get_outputs()), it._counter, it._advance_and_check_drop_last(), it._counter]
        with pytest.raises(StopIteration):
            it._end_iteration()
        seen.append(found)
    assert seen[0] == seen[1]


def test_names_of_the_ragged_iterator(tmp_path):
    files = [(str(file), k) for k, file in enumerate(numbered_files(tmp_path, 10))]
    seen = []
    for library in LIBRARIES:
        ragged = importlib.import_module(f"{library}.plugin.pytorch").DALIRaggedIterator
        kinds = [ragged.SPARSE_LIST_TAG, ragged.DENSE_TAG]
        it = iterator(library, files, kind="DALIRaggedIterator", size=10, output_types=kinds)
        seen.append((set(it._output_tags), list(it._outputs_types), it._outputs_types == kinds))
    assert seen[0] == seen[1]
