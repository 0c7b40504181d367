"""Batches of samples of similar length: each sample once per epoch, within the budget, in an order that is a function of positions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from asyncdali import fn, pipeline_def
from asyncdali.regrouping.batch_by import Batching, BatchingState
from asyncdali.regrouping.costs import cost, grouped, planned, shuffled

COUNT, BATCH, BUDGET, WINDOW = 90, 8, 60, 40


# --- the pure parts


@pytest.mark.parametrize("number", range(60))
def test_a_window_has_each_sample_once_within_the_budget(number):
    rng = np.random.default_rng(number)
    kinds = (rng.lognormal(2, 1, 60), rng.integers(0, 4, 60), rng.uniform(0, 1e-3, 60), np.zeros(60))
    lengths = np.float64(kinds[number % 4])[: int(rng.integers(0, 61))]
    budget, most = float(rng.choice([1e-3, 0.5, 3, 40, 1e6])), int(rng.integers(1, 13))
    batches = grouped(lengths, budget, most)
    assert sorted(k for batch in batches for k in batch.tolist()) == list(range(len(lengths)))
    for batch, following in itertools.zip_longest(batches, batches[1:]):
        assert (np.diff(batch) > 0).all()
        longest = lengths[batch].max()
        assert len(batch) <= most
        assert len(batch) == 1 or longest * len(batch) <= budget * (1 + 1e-12)
        if following is not None:  # neighbours in length, and no place is left
            assert lengths[batch].min() >= lengths[following].max()
            assert len(batch) == most or longest * (len(batch) + 1) > budget * (1 - 1e-12)


def test_the_order_of_batches_is_a_function_of_the_key():
    orders = {tuple(shuffled(12, (seed, window))) for seed in range(3) for window in range(3)}
    assert len(orders) == 9
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert shuffled(12, (1, 2)) == shuffled(12, (1, 2))
    first = [shuffled(10, (0, window))[0] for window in range(2000)]
    assert np.bincount(first, minlength=10).min() > 140


def padding(lengths, batches):
    costs = [cost(lengths[batch]) for batch in batches]
    return 1 - sum(real for real, _ in costs) / sum(padded for _, padded in costs)


def test_padding_is_below_a_third_of_that_of_random_batches():
    lengths = np.random.default_rng(5).lognormal(2.0, 0.8, 20_000)
    order = np.random.default_rng(6).permutation(len(lengths))
    for budget, window in ((500, 1024), (2000, 1024), (2000, 4096)):
        sorted_batches = [
            first + batch for first in range(0, len(lengths), window)
            for batch in planned(lengths[first : first + window], budget, 10_000, (0, first))
        ]  # fmt: skip
        size = len(lengths) // len(sorted_batches)
        random_batches = [order[k : k + size] for k in range(0, len(order), size)]
        assert padding(lengths, sorted_batches) <= padding(lengths, random_batches) / 3, (budget, window)


def test_states_of_checkpoints_are_checked():
    rule = Batching(1, 10.0, 4, 0, "experimental.batch_by")
    state = BatchingState(3, 1, 2.5, 4.0)
    assert rule.load(rule.save(state)) == state
    for wrong in (None, {}, {**state._asdict(), "batch": -1}, {**state._asdict(), "real": float("nan")}, {**state._asdict(), "more": 1}):
        with pytest.raises(ValueError, match="is not the state of a batch_by"):
            rule.load(wrong)


# --- pipelines


def lengths_of(indices):
    return [int(value) for value in np.random.default_rng(1).lognormal(2, 0.7, COUNT).astype(int)[indices] + 1]


def make(budget=BUDGET, window=WINDOW, seed=0, **options):
    files = {"num_shards": options.pop("num_shards", 1), "shard_id": options.pop("shard_id", 0)}

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=3)
    def define():
        numbers = fn.external_source(source=options_source, batch=False, name="numbers") if options.get("source") else None
        if numbers is None:
            numbers = fn.readers.numpy(files=options["files"], name="reader", **files)
        length = numbers[1]
        found = fn.experimental.batch_by(
            numbers, fn.random.uniform(), length=length, budget=budget, window=window, order_seed=seed, name="groups",
        )  # fmt: skip
        return (*found, fn.random.uniform())

    given = {key: value for key, value in options.items() if key not in ("files", "source")}
    pipe = define(**given)
    pipe.build()
    return pipe


def options_source(info):
    if info.idx_in_epoch >= COUNT // BATCH * BATCH:
        raise StopIteration
    return np.int32([info.idx_in_epoch, lengths_of([info.idx_in_epoch])[0]])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    names = []
    for k, length in enumerate(lengths_of(range(COUNT))):
        names.append(str(folder / f"{k:03}.npy"))
        np.save(names[-1], np.int32([k, length]))
    return names


def batches(pipe, most=1000):
    """The next batches, or fewer at the end of the epoch: (number, length, draw before, draw behind) of each sample."""
    found = []
    while len(found) < most:
        try:
            columns = pipe.run()
        except StopIteration:
            pipe.reset()
            found.append("end")
            break
        found.append([
            (*np.asarray(numbers).tolist(), float(np.asarray(before)), float(np.asarray(behind)))
            for numbers, before, behind in zip(*columns, strict=True)
        ])  # fmt: skip
    return found


@pytest.fixture(scope="module")
def expected(files):
    pipe = make(files=files)
    found = [batches(pipe) for _ in range(3)]
    pipe.close()
    return found


def test_each_sample_once_per_epoch_within_the_budget(expected):
    for epoch in expected:
        *made, end = epoch
        assert end == "end"
        assert sorted(sample[0] for batch in made for sample in batch) == list(range(COUNT))
        for batch in made:
            lengths = [sample[1] for sample in batch]
            assert len(batch) <= BATCH
            assert len(batch) == 1 or max(lengths) * len(batch) <= BUDGET
            assert lengths == lengths_of([sample[0] for sample in batch])
    assert expected[0] != expected[1]  # the order of batches differs
    assert any(max(sample[0] for sample in batch) - min(sample[0] for sample in batch) > BATCH for batch in expected[0][:-1])


@pytest.mark.parametrize("options", [
    {"prefetch_queue_depth": 1}, {"num_threads": 4, "prefetch_queue_depth": 5}, {"exec_pipelined": False}, {"engines": 2},
])  # fmt: skip
def test_one_stream_however_it_is_made(files, expected, options):
    pipe = make(files=files, **options)
    assert [batches(pipe) for _ in range(2)] == expected[:2]
    pipe.close()


@pytest.mark.parametrize("depth", [1, 3])
def test_a_restart_continues_the_stream(files, expected, depth):
    flat = [batch for epoch in expected[:2] for batch in epoch]
    pipe = make(files=files, enable_checkpointing=True, prefetch_queue_depth=depth)
    saved = []
    for _ in flat:
        saved.append((pipe.checkpoint(), pipe.padding()))
        batches(pipe, 1)
    pipe.close()
    assert max(len(data) for data, _ in saved) <= 8192
    for k in range(0, len(flat), 5):
        again = make(files=files, enable_checkpointing=True, checkpoint=saved[k][0], prefetch_queue_depth=depth)
        found = []
        while len(found) < len(flat) - k:
            found += batches(again, len(flat) - k - len(found))
        assert found == flat[k:], k
        again.close()


def test_padding_is_reported(files, expected):
    pipe = make(files=files, prefetch_queue_depth=1)
    assert pipe.padding() == 0
    made = batches(pipe)[:-1]
    lengths = [[sample[1] for sample in batch] for batch in made]
    wanted = 1 - sum(map(sum, lengths)) / sum(max(batch) * len(batch) for batch in lengths)
    assert pipe.padding("groups[0]") == pytest.approx(wanted)
    with pytest.raises(KeyError, match="no batch_by is called 'other'; known: groups\\[0\\]"):
        pipe.padding("other")
    with pytest.raises(RuntimeError, match="no fn.experimental.mix whose weights could change"):
        pipe.set_weights([1], at=0)
    pipe.close()


def test_shards(files):
    found = []
    for rank in range(3):
        pipe = make(files=files, num_shards=3, shard_id=rank)
        found += [sample[0] for batch in batches(pipe)[:-1] for sample in batch]
        pipe.close()
    assert sorted(found) == list(range(COUNT))


def test_the_seed_orders_the_batches(files, expected):
    pipe = make(files=files, seed=8)
    made = batches(pipe)[:-1]
    assert made != expected[0][:-1]
    window = {frozenset(sample[0] for sample in batch) for batch in made}
    assert window == {frozenset(sample[0] for sample in batch) for batch in expected[0][:-1]}
    pipe.close()


def test_sources_end_the_epochs():
    pipe = make(source=True)
    for _ in range(2):
        *made, end = batches(pipe)
        assert end == "end"
        assert sorted(sample[0] for batch in made for sample in batch) == list(range(COUNT // BATCH * BATCH))
    pipe.close()


def test_bad_samples_before_are_replaced_and_dropped(files, tmp_path, expected):
    broken = tmp_path / "broken.npy"
    broken.write_bytes(b"nothing")
    changed = [str(broken) if k in (4, 50) else name for k, name in enumerate(files)]
    for on_error in ("replace", "drop"):
        pipe = make(files=changed, on_error=on_error)
        numbers = sorted(sample[0] for batch in batches(pipe)[:-1] for sample in batch)
        assert len(numbers) == (COUNT if on_error == "replace" else COUNT - 2)
        assert set(numbers) == set(range(COUNT)) - {4, 50}
        assert {entry.index for entry in pipe.quarantine()} == {4, 50}
        pipe.close()


def test_an_error_before_is_raised_once(files, tmp_path):
    broken = tmp_path / "broken.npy"
    broken.write_bytes(b"nothing")
    pipe = make(files=[str(broken) if k == 50 else name for k, name in enumerate(files)], prefetch_queue_depth=1)
    found, errors = [], 0
    while not found or found[-1] != "end":
        try:
            found += batches(pipe, 1)
        except RuntimeError as error:
            assert "broken.npy" in str(error)
            errors += 1
    assert errors == 1
    raw = set(range(50 // BATCH * BATCH, 50 // BATCH * BATCH + BATCH))
    assert sorted(sample[0] for batch in found[:-1] for sample in batch) == sorted(set(range(COUNT)) - raw)
    pipe.close()


@pytest.mark.parametrize(("arguments", "kind", "text"), [
    ({"budget": 0}, ValueError, "`budget` must be above 0"), ({"budget": "7"}, TypeError, "`budget` is a number"),
    ({"window": 0}, ValueError, "`window` must be from 1 to"), ({"window": 2.5}, TypeError, "`window` is an int"),
    ({"length": 3}, TypeError, "`length` is a node"), ({"order_seed": -1}, ValueError, "`order_seed` must be from 0"),
])  # fmt: skip
def test_wrong_arguments(arguments, kind, text):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def define():
        number = fn.random.uniform()
        return fn.experimental.batch_by(number, **{"length": number, "budget": 5, **arguments})

    with pytest.raises(kind, match=text):
        define()


@pytest.mark.parametrize(("value", "text"), [
    ([1, 2], "`length` must have one number per sample"), ([-1.0], "`length` is -1.0 for a sample"),
])  # fmt: skip
def test_wrong_lengths(value, text):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def define():
        numbers = fn.external_source(source=lambda info: np.float32(value), batch=False)
        return fn.experimental.batch_by(numbers, length=numbers, budget=5)

    pipe = define()
    pipe.build()
    with pytest.raises(ValueError, match=text):
        pipe.run()
    pipe.close()
