"""fn.experimental.mix: exact shares in every window, weights that change at a step, and exact checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rewriting import rewritten

from asyncdali import fn, pipeline_def, types
from asyncdali.regrouping import mix as mixing
from asyncdali.regrouping.shares import PERIOD, sequence, thousandths

BATCH = 4
SIZES = (26, 15, 9)


@pytest.fixture(scope="module")
def roots(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roots")
    found = []
    for part, size in enumerate(SIZES):
        names = []
        for k in range(size):
            name = folder / f"{part}_{k:02}.bin"
            name.write_bytes(bytes([part, k]))
            names.append(str(name))
        found.append(names)
    return found


def make(roots, weights, draws=False, **options):
    arguments = {key: options.pop(key) for key in ("per", "stop") if key in options}

    @pipeline_def(batch_size=BATCH, device_id=None, seed=3)
    def define():
        parts = []
        for names in roots:
            data, label = fn.readers.file(files=names, labels=list(range(len(names))), random_shuffle=True, initial_fill=5)
            parts.append([data, label, fn.random.uniform() if draws else label])
        data, label, draw = fn.experimental.mix(list(zip(parts, weights, strict=True)), name="mix", **arguments)
        return data, label, draw, fn.random.uniform()

    pipe = define(**{"num_threads": 2, **options})
    pipe.build()
    return pipe


def batch(pipe):
    """(part, number) of each sample, and the draws."""
    data, label, draw, own = (outputs.as_array() if k != 0 else outputs for k, outputs in enumerate(pipe.run()))
    found = [tuple(np.asarray(data[k]).tolist()) for k in range(len(label))]
    assert [number for _, number in found] == label[:, 0].tolist()
    return [(*item, float(np.ravel(draw[k])[0]), float(own[k])) for k, item in enumerate(found)]


def events(pipe, count, weights=None):
    found = []
    for _ in range(count):
        try:
            found.append(batch(pipe))
        except StopIteration:
            found.append("end")
            pipe.reset()
    return found


def parts_of(found):
    return [item[0][0] for item in found if item != "end"]


@pytest.mark.parametrize("weights", [(0.7, 0.3), (1, 1, 1), (0.5, 0.25, 0.249, 0.001), (1,), (999, 1), (0, 3, 5)], ids=[
    "two", "three", "four", "one", "rare", "zero"])  # fmt: skip
def test_every_window_of_a_period_has_exact_shares(weights):
    shares = thousandths(weights)
    order = np.tile(sequence(shares), 3)
    assert sum(shares) == PERIOD
    for part, share in enumerate(shares):
        counts = np.concatenate([[0], np.cumsum(order == part)])
        assert ((counts[PERIOD:] - counts[:-PERIOD]) == share).all()
        exact = np.arange(len(counts)) * share / PERIOD
        assert np.abs(counts - exact).max() < len(weights)


@pytest.mark.parametrize("weights", [(0, 0), (-1, 2), (float("nan"), 1), (float("inf"), 1), (1, 0.0001)], ids=[
    "nothing", "negative", "nan", "infinite", "tiny"])  # fmt: skip
def test_weights_that_are_refused(weights):
    with pytest.raises(ValueError, match="weight"):
        thousandths(weights)


def test_shares_of_batches(roots):
    pipe = make(roots[:2], (0.7, 0.3), stop="never")
    found = parts_of(events(pipe, 1200))
    pipe.close()
    for first in range(0, 200, 7):
        assert found[first : first + 1000].count(0) == 700
    assert found[:10].count(0) == 7


def test_shares_of_samples(roots):
    pipe = make(roots[:2], (0.7, 0.3), stop="never", per="sample")
    parts = [row[0] for item in events(pipe, 600) for row in item]
    pipe.close()
    assert all(parts[first : first + 1000].count(0) == 700 for first in range(0, 1400, 13))


def test_each_part_is_read_as_if_it_were_alone(roots):
    alone = make(roots[:1], (1,), draws=True, stop="never")
    wanted = [row[:3] for item in events(alone, 40) for row in item]
    alone.close()
    for others, weights, per in ((roots[:2], (0.5, 0.5), "batch"), (roots, (0.2, 0.5, 0.3), "sample")):
        pipe = make(others, weights, draws=True, stop="never", per=per)
        own = [row[:3] for item in events(pipe, 40) for row in item if row[0] == 0]
        pipe.close()
        assert own == wanted[: len(own)] and len(own) > 25


@pytest.mark.parametrize("per", ["batch", "sample"])
def test_stop_at_the_first_end(roots, per):
    pipe = make(roots[:2], (0.5, 0.5), stop="first", per=per)
    found = events(pipe, 20)
    pipe.close()
    first = [row[:2] for item in found[: found.index("end")] for row in item]
    assert sorted(number for part, number in first if part == 1) == list(range(15))
    assert len({number for part, number in first if part == 0}) == sum(part == 0 for part, _ in first) <= 17
    rest = [row[:2] for item in found[found.index("end") + 1 :] if item != "end" for row in item]
    numbers = [number for part, number in first + rest if part == 0]
    assert sorted(numbers[:26]) == list(range(26)), "the other part continues in the next epoch"


@pytest.mark.parametrize("per", ["batch", "sample"])
def test_stop_at_the_last_end(roots, per):
    pipe = make(roots, (0.2, 0.4, 0.4), stop="last", per=per)
    found = events(pipe, 60)
    pipe.close()
    first = [row[:2] for item in found[: found.index("end")] for row in item]
    for part, size in enumerate(SIZES):
        assert {number for own, number in first if own == part} == set(range(size))
    assert sum(part == 0 for part, _ in first) == SIZES[0]


def test_epochs_are_counted_for_each_part(roots):
    options = {"per": "sample", "stop": "never", "enable_checkpointing": True}
    pipe = make(roots[:2], (0.5, 0.5), prefetch_queue_depth=1, **options)
    assert pipe.part_epochs() == [0, 0]
    events(pipe, 30)  # 60 samples of each part: 2 epochs of 26 samples, 4 of 15
    assert pipe.part_epochs("mix[0]") in ([2, 3], [2, 4]) and pipe.checkpoint()
    saved = pipe.checkpoint()
    again = make(roots[:2], (0.5, 0.5), prefetch_queue_depth=1, checkpoint=saved, **options)
    assert again.part_epochs() == pipe.part_epochs()
    pipe.close()
    again.close()


def test_a_part_without_weight_is_not_read(roots):
    pipe = make(roots[:2], (1, 0), stop="last")
    found = events(pipe, 8)
    pipe.close()
    assert set(parts_of(found)) == {0} and found[7] == "end"


@pytest.mark.parametrize("options", [
    {"num_threads": 1, "prefetch_queue_depth": 1}, {"prefetch_queue_depth": 5}, {"exec_pipelined": False}, {"engines": 2},
], ids=["shallow", "deep", "unpipelined", "engines"])  # fmt: skip
def test_one_stream_however_it_is_made(roots, options):
    first = make(roots, (0.5, 0.3, 0.2), draws=True, stop="last", per="sample")
    expected = events(first, 20)
    first.close()
    other = make(roots, (0.5, 0.3, 0.2), draws=True, stop="last", per="sample", **options)
    assert events(other, 20) == expected
    other.close()


@pytest.mark.parametrize("per", ["batch", "sample"])
@pytest.mark.parametrize("stop", ["first", "last"])
def test_a_restart_continues_the_stream(roots, per, stop):
    options = {"draws": True, "per": per, "stop": stop, "enable_checkpointing": True}
    pipe = make(roots, (0.5, 0.3, 0.2), **options)
    saved, expected = [], []
    for _ in range(30):
        saved.append(pipe.checkpoint())
        expected += events(pipe, 1)
    pipe.close()
    assert max(map(len, saved)) <= 8192
    for k in (0, 1, 7, 8, 13, 22, 29):
        again = make(roots, (0.5, 0.3, 0.2), **options, checkpoint=saved[k])
        assert again.checkpoint() == saved[k]
        assert events(again, 30 - k) == expected[k:]
        again.close()


@pytest.mark.parametrize("per", ["batch", "sample"])
def test_weights_change_at_a_step_before_and_after_a_restart(roots, per):
    options = {"per": per, "stop": "never", "enable_checkpointing": True}
    pipe = make(roots[:2], (0.9, 0.1), **options)
    saved, expected = [], []
    for step in range(60):
        if step == 10:
            pipe.set_weights([0.2, 0.8], at=30, name="mix[1]")
        saved.append(pipe.checkpoint())
        expected += events(pipe, 1)
    rows = [[row[0] for row in item] for item in expected]
    before, behind = ([part for row in stretch for part in row] for stretch in (rows[:30], rows[30:60]))
    assert before.count(0) in (108, 107, 109) and behind.count(0) in (24, 23, 25)
    with pytest.raises(ValueError, match=r"batch 3 of the mix is prepared already; weights can change from batch 6\d on"):
        pipe.set_weights([0.5, 0.5], at=3)
    pipe.close()
    assert max(map(len, saved)) <= 8192
    for k in (10, 11, 29, 30, 31, 59):
        again = make(roots[:2], (0.9, 0.1), **options, checkpoint=saved[k])
        assert events(again, 60 - k) == expected[k:], k
        again.close()


def test_a_change_is_for_the_pipeline_that_gets_it(roots):
    pipe = make(roots[:2], (0.9, 0.1))
    for weights, at, kind, text in (
        ([1], 50, ValueError, "2 parts, got 1 weights"), ([1, 1], 1.5, TypeError, "number of a batch"), ([0, 0], 50, ValueError, "weights"),
    ):  # fmt: skip
        with pytest.raises(kind, match=text):
            pipe.set_weights(weights, at=at)
    with pytest.raises(KeyError, match=r"no mix is called 'other'; known: mix\[0\], mix\[1\], mix\[2\]"):
        pipe.set_weights([1, 1], at=50, name="other")
    for k in range(64):
        pipe.set_weights([1, 1], at=100 + k)
    with pytest.raises(ValueError, match="64 changes"):
        pipe.set_weights([1, 1], at=300)
    pipe.close()


def test_old_changes_of_weights_are_kept():
    """A step of long ago is formed again from them, for its provenance."""
    rule = mixing.Mixing([1, 1], False, "never")
    rule.change([0, 1], at=25, next_step=0)
    rule.change([1, 3], at=30_000, next_step=20_000)
    assert rule.steady(rule.start) == 25 and rule.steady(rule.start._replace(step=26)) == 29_974
    assert rule.save(rule.start)["changes"] == [(25, (0, 1000)), (30_000, (250, 750))]


def test_a_step_before_changes_that_are_not_kept_is_refused(monkeypatch):
    monkeypatch.setattr(mixing, "MOST_KEPT", 3)
    rule = mixing.Mixing([1, 1], False, "never")
    for k in range(5):
        rule.change([k + 1, 1], at=10 * k, next_step=10 * k)
    assert rule.steady(rule.start._replace(step=11)) == 9
    with pytest.raises(ValueError, match=r"batch 10 of the mix cannot be formed again: the weights changed at batch 10, .* last 3 changes"):
        rule.steady(rule.start._replace(step=10))


def test_a_pipeline_without_a_mix():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        return fn.random.uniform()

    pipe = define()
    with pytest.raises(RuntimeError, match=r"has no fn\.experimental\.mix"):
        pipe.set_weights([1], at=3)
    pipe.close()


def test_parts_of_different_types_are_named(roots):
    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None)
    def define():
        first, second = (fn.readers.file(files=names)[1] for names in roots[:2])
        return fn.experimental.mix([(first, 1), (fn.cast(second, dtype=types.FLOAT), 1)], per="sample")

    pipe = define()
    with pytest.raises(ValueError, match="part 0 and FLOAT of 1 dimensions, layout '' in part 1"):
        pipe.run()
    pipe.close()


@pytest.mark.parametrize(("arguments", "text"), [
    ({"per": "epoch"}, "'batch' or 'sample'"), ({"stop": "now"}, "'first', 'last', 'never'"), ({"parts": []}, "list of pairs"),
    ({"parts": [(1, 2, 3)]}, "list of pairs"),
], ids=["per", "stop", "empty", "triple"])  # fmt: skip
def test_arguments_that_are_refused(roots, arguments, text):
    def define():
        parts = [(fn.readers.file(files=names)[1], 1) for names in roots[:2]]
        return fn.experimental.mix(**{"parts": parts, **arguments})

    with pytest.raises((ValueError, TypeError), match=text):
        pipeline_def(batch_size=2, num_threads=1, device_id=None)(define)()


def test_a_comparison_with_a_checkpoint_does_not_move_the_pipeline(roots):
    pipe = make(roots[:2], (0.5, 0.5), stop="never", enable_checkpointing=True)
    events(pipe, 3)
    saved = pipe.checkpoint()
    expected = events(pipe, 3)
    again = make(roots[:2], (0.5, 0.5), stop="never", enable_checkpointing=True, checkpoint=saved)
    assert str(again.diff(saved)) == "no difference"
    assert events(again, 3) == expected
    pipe.close()
    again.close()


@pytest.mark.parametrize(("change", "text"), [
    (lambda own: own["state"].update(shares=[999, 999]), "is not the state of a mix of 2 parts"),
    (lambda own: own["state"].update(step=-1), "out of range"),
    (lambda own: own["state"].pop("over"), "is not the state of a mix"),
    (lambda own: own["parts"].pop(), "has 1 parts when it was saved|had 1 parts"),
    (lambda own: own["parts"][0].update(place="no"), "are not places in the parts"),
    (lambda own: own["parts"][0]["at"].update(other=1), "position of part 0 of 'mix.0.' is missing"),
    (lambda own: own["parts"][0].update(at=None), "is not the position of|had 1 parts"),
], ids=["shares", "step", "over", "parts", "place", "at", "none"])  # fmt: skip
def test_changed_checkpoints_are_refused(roots, change, text):
    pipe = make(roots[:2], (0.5, 0.5), stop="never", enable_checkpointing=True)
    events(pipe, 3)
    saved = rewritten(pipe.checkpoint(), lambda body: change(body["operators"]["mix[0]"]))
    pipe.close()
    with pytest.raises(ValueError, match=text):
        make(roots[:2], (0.5, 0.5), stop="never", enable_checkpointing=True, checkpoint=saved)


def test_origins_of_mixed_samples(roots):
    @pipeline_def(batch_size=6, num_threads=1, device_id=None)
    def define():
        parts = [(fn.readers.file(files=names)[0], 1) for names in roots[:2]]
        data = fn.experimental.mix(parts, per="sample")
        return data, data.source_info()

    pipe = define()
    data, origins = pipe.run()
    wanted = [roots[k % 2][k // 2] for k in range(6)]
    assert [bytes(np.asarray(origins[k])).decode() for k in range(6)] == wanted
    assert [data[k].source_info() for k in range(6)] == wanted
    pipe.close()
