"""The reader of docs/adding_an_operator.md. The tests use the file as it is printed on the page."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.documented import registered

from asyncdali import Pipeline, fn


@pytest.fixture(scope="module", autouse=True)
def blocks(tmp_path_factory):
    with registered(tmp_path_factory.mktemp("readers"), "readers/containers/blocks", "BlocksReader") as reader:
        yield reader


def pipeline_over(folder, **options):
    """A pipeline that reads two files with 5 and 2 records of 4 bytes. The k-th byte of all bytes is k."""
    paths = [folder / "one", folder / "two"]
    paths[0].write_bytes(bytes(range(22)))
    paths[1].write_bytes(bytes(range(22, 30)))
    arguments = {name: options.pop(name) for name in ("shard_id", "num_shards", "random_shuffle") if name in options}
    pipe = Pipeline(batch_size=3, num_threads=2, device_id=None, seed=1, **options)
    with pipe:
        pipe.set_outputs(fn.readers.blocks(path=list(map(str, paths)), size=4, name="R", **arguments))
    pipe.build()
    return pipe


def records_of(pipe, runs):
    return [np.asarray(sample).tolist() for _ in range(runs) for sample in pipe.run()[0]]


def test_records_come_in_order(tmp_path):
    with pipeline_over(tmp_path) as pipe:
        assert records_of(pipe, 2)[:6] == [[k, k + 1, k + 2, k + 3] for k in (0, 4, 8, 12, 16, 22)]
        assert pipe.reader_meta("R")["epoch_size"] == 7


def test_order_shards_and_checkpoints_work_without_further_code(tmp_path):
    with pipeline_over(tmp_path, random_shuffle=True, enable_checkpointing=True) as pipe:
        first = records_of(pipe, 2)
        saved, following = pipe.checkpoint(), records_of(pipe, 3)
    assert sorted(first) != first
    with pipeline_over(tmp_path, random_shuffle=True, enable_checkpointing=True, checkpoint=saved) as pipe:
        assert records_of(pipe, 3) == following
    with pipeline_over(tmp_path, shard_id=1, num_shards=2) as pipe:
        assert records_of(pipe, 1)[0] == [12, 13, 14, 15]
