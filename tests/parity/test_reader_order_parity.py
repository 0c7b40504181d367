"""The order of readers beside DALI's: indices and loader snapshots of real readers with random arguments."""

import io
import random
import re
import tarfile

import numpy as np
import pytest
from helpers.orders import Cursor

pytest.importorskip("nvidia.dali", reason="compares with NVIDIA DALI, which is not installed")

from nvidia.dali import Pipeline, fn, types


def build(batch, make, checkpointing, **options):
    pipeline = Pipeline(batch_size=batch, num_threads=1, device_id=None, enable_checkpointing=checkpointing, **options)
    with pipeline:
        pipeline.set_outputs(make())
    pipeline.build()
    return pipeline


def next_indices(pipeline):
    return [int(np.array(sample).ravel()[0]) for sample in pipeline.run()[0]]


def random_options(rng, count, containers=False):
    shards = rng.randint(1, min(count, 6))
    options = {
        "num_shards": shards, "shard_id": rng.randrange(shards), "stick_to_shard": rng.random() < 0.4, "pad_last_batch": rng.random() < 0.5,
    }  # fmt: skip
    mode = rng.choice(["plain", "buffer", "buffer", "epoch"])
    if mode == "epoch":
        options.update(stick_to_shard=False, shuffle_after_epoch=True)
        if rng.random() < 0.5:
            options["shuffle_after_epoch_seed"] = rng.getrandbits(40)
    if mode == "buffer" or (mode == "epoch" and containers and rng.random() < 0.5):
        options.update(random_shuffle=True, initial_fill=rng.choice([1, 2, 3, 5, 8, 40, 1024]), seed=rng.getrandbits(33))
    return options


@pytest.fixture(scope="module")
def one_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("order") / "one.bin"
    path.write_bytes(b"x")
    return str(path)


def file_reader(path, count, options):
    return lambda: fn.readers.file(name="R", files=[path] * count, labels=list(range(count)), **options)[1]


@pytest.mark.parametrize("case", range(120))
def test_file_reader(one_file, case):
    rng = random.Random(case)
    batch, count, checkpointing = rng.randint(1, 7), rng.choice([rng.randint(2, 17), rng.randint(2, 120)]), rng.random() < 0.5
    options = random_options(rng, count)
    pipeline = build(batch, file_reader(one_file, count, options), checkpointing)
    order = Cursor(count, batch, checkpointing=checkpointing, **options)
    assert {key: int(value) for key, value in pipeline.reader_meta("R").items() if key in order.meta()} == order.meta()
    for _ in range(rng.randint(3, 14)):
        assert order.next_batch().tolist() == next_indices(pipeline), options


def snapshot(payload):
    """(engine, epoch, age) of the file reader in a checkpoint: LoaderState { bytes rng = 1; int32 current_epoch = 2; int32 age = 3 }."""
    match = re.search(rb"R\x12.\n.\n(.)(\d+)((?:\x10[\x80-\xff]*[\x00-\x7f])?(?:\x18[\x80-\xff]*[\x00-\x7f])?)", payload, re.DOTALL)
    digits, rest = match[2], match[3]
    values, k = {}, 0
    while k < len(rest):
        field, k, value, shift = rest[k], k + 1, 0, 0
        while True:
            byte, k = rest[k], k + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        values[field] = value
    return int(digits), values.get(0x10, 0), values.get(0x18, 0)


@pytest.mark.parametrize("case", range(30))
def test_snapshots_and_restoring(one_file, case):
    """After every batch our position equals DALI's snapshot. Both readers continue with equal batches when they are restored."""
    rng = random.Random(1000 + case)
    batch, count = rng.randint(1, 7), rng.randint(2, 100)
    options = random_options(rng, count)
    make = file_reader(one_file, count, options)
    pipeline, order = build(batch, make, True), Cursor(count, batch, checkpointing=True, **options)
    for _ in range(rng.randint(1, 9)):
        theirs = snapshot(pipeline.checkpoint())
        if options.get("seed") is not None:
            assert tuple(order.position) == theirs
        else:  # A reader that does not shuffle seeds its random engine from the clock.
            assert tuple(order.position)[1:] == theirs[1:]
        next_indices(pipeline)
        order.next_batch()
    payload = pipeline.checkpoint()
    resumed = build(batch, make, True, checkpoint=payload)
    ours = Cursor(count, batch, checkpointing=True, **options)
    ours.restore(snapshot(payload))
    for _ in range(6):
        assert ours.next_batch().tolist() == next_indices(resumed), options


def write_tar(path, first, count):
    with tarfile.open(path, "w") as archive:
        for index in range(first, first + count):
            entry = tarfile.TarInfo(f"{index:05d}.cls")
            data = np.array([index], np.int32).tobytes()
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


@pytest.mark.parametrize("case", range(40))
def test_webdataset_reader(tmp_path, case):
    """A reader of container files does not permute its list before the shuffle buffer."""
    rng = random.Random(2000 + case)
    sizes = [rng.randint(1, 5) for _ in range(rng.randint(1, 6))]
    paths = [str(tmp_path / f"{k}.tar") for k in range(len(sizes))]
    for k, path in enumerate(paths):
        write_tar(path, sum(sizes[:k]), sizes[k])
    batch, checkpointing = rng.randint(1, 7), rng.random() < 0.5
    options = random_options(rng, sum(sizes), containers=True)
    pipeline = build(batch, lambda: fn.readers.webdataset(paths=paths, ext=["cls"], dtypes=[types.INT32], **options)[0], checkpointing)
    order = Cursor(sum(sizes), batch, containers=sizes, pre_permute=False, checkpointing=checkpointing, **options)
    for _ in range(rng.randint(3, 12)):
        assert order.next_batch().tolist() == next_indices(pipeline), options


def test_a_long_list_takes_one_draw_per_element(one_file):
    options = {"random_shuffle": True, "initial_fill": 100, "seed": 3}
    pipeline = build(10_000, file_reader(one_file, 70_000, options), False)
    order = Cursor(70_000, 10_000, **options)
    for _ in range(8):
        assert order.next_batch().tolist() == next_indices(pipeline)
