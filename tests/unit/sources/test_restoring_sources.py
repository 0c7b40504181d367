"""Sources of a restored pipeline: at the ends of epochs, after errors, and with unusual iterators."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from helpers.rewriting import rewritten
from helpers.stateful import Broken, Counted, Endless, Numbers, Rewinding, SelfRewinding

from asyncdali import Pipeline, fn
from asyncdali.errors import CheckpointError
from asyncdali.plugin.base_iterator import BaseIterator

SIZE = 1


def make(*sources, depth=2, **options):
    """A pipeline of sources. Each source is given as keyword arguments of external_source."""
    pipe = Pipeline(batch_size=SIZE, num_threads=1, seed=3, enable_checkpointing=True, prefetch_queue_depth=depth, **options)
    with pipe:
        pipe.set_outputs(*(fn.external_source(**given) for given in sources))
    return pipe


def step(pipe):
    """The numbers of the next batch, or a word such as "end" for another outcome."""
    try:
        return tuple(int(np.asarray(output[0])[0]) for output in pipe.run())
    except StopIteration:
        return "end"
    except ValueError:
        return "error"


def epoch(pipe, limit=20):
    found = []
    while len(found) < limit:
        found.append(step(pipe))
        if found[-1] == "end":
            break
    return found


def short(info):
    """An epoch of three batches that contain their position: 0, 1, 2."""
    if info.iteration >= 3:
        raise StopIteration
    return np.int32([[10 * info.epoch_idx + info.iteration]])


PARALLEL = [False, pytest.param(True, id="parallel")]


def slowly(value):
    """A parameter that only slow runs use."""
    return pytest.param(value, marks=pytest.mark.slow)


def restored_at(*places):
    """`at`: where a test restores; empty: at all places. Workers take long to start, so all places of theirs are slow."""
    at = [(False, ()), pytest.param(True, places, id="parallel"), pytest.param(True, (), id="parallel-all", marks=pytest.mark.slow)]
    return pytest.mark.parametrize("parallel, at", at)


# ----------------------------------------------------------------------------------------------------------- ends of epochs


@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize("depth", [1, slowly(2), 5])
@pytest.mark.parametrize("every", [1, 3])
def test_a_batch_that_the_end_of_the_epoch_dropped(parallel, depth, every):
    def sources():
        return {"source": Endless(100), "parallel": parallel, "snapshot_every": every}, {"source": short, "batch_info": True}

    pipe = make(*sources(), depth=depth)
    assert epoch(pipe) == [(100, 0), (101, 1), (102, 2), "end"]
    before = pipe.checkpoint()
    pipe.reset()
    after = pipe.checkpoint()
    wanted = [(104, 10), (105, 11), (106, 12), "end"]
    assert epoch(pipe) == wanted
    restored = make(*sources(), checkpoint=after)
    assert epoch(restored) == wanted
    restored = make(*sources(), checkpoint=before)
    assert step(restored) == "end"
    restored.reset()
    assert epoch(restored) == wanted
    restored = make(*sources(), checkpoint=before)
    restored.reset()
    assert epoch(restored) == wanted


@pytest.mark.parametrize("parallel", PARALLEL)
@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("ends", [1, slowly(2), 3])
def test_a_stream_that_has_ended_permanently(parallel, every, ends):
    def sources():
        return [{"source": Counted(3), "parallel": parallel, "snapshot_every": every}]

    pipe = make(*sources())
    assert len(epoch(pipe)) == 4
    for _ in range(ends - 1):
        pipe.reset()
        assert step(pipe) == "end"
    saved = pipe.checkpoint()
    for data in (saved, make(*sources(), checkpoint=saved).checkpoint()):
        restored = make(*sources(), checkpoint=data)
        assert step(restored) == "end"
        restored.reset()
        assert step(restored) == "end"


@pytest.mark.parametrize("depth", [3, 5])
def test_a_reset_before_the_last_batches_are_delivered(depth):
    """The source has ended, and two batches are not delivered yet. `reset()` takes effect after these batches."""
    sources = [{"source": short, "batch_info": True}, {"source": Endless(100)}]

    def new_sources():
        return [sources[0], {"source": Endless(100)}]

    pipe = make(*new_sources(), depth=depth)
    assert [step(pipe), step(pipe)] == [(0, 100), (1, 101)]
    ahead = pipe.checkpoint()
    pipe.reset()
    behind = pipe.checkpoint()
    wanted = [(2, 102), (10, 104), (11, 105), (12, 106), "end"]
    assert epoch(pipe) == wanted
    restored = make(*new_sources(), depth=depth, checkpoint=behind)
    assert restored.checkpoint() == behind
    assert epoch(restored) == wanted
    restored = make(*new_sources(), depth=depth, checkpoint=ahead)
    assert restored.checkpoint() == ahead
    restored.reset()
    assert epoch(restored) == wanted


# -------------------------------------------------------------------------------------------------------- awkward iterators


@restored_at(2, 4, 5, 10)  # the fourth batch, the end and the begin of the first epoch
@pytest.mark.parametrize("kind", [Rewinding, SelfRewinding, Counted, Numbers])
@pytest.mark.parametrize("every", [1, slowly(2)])
def test_an_iterator_that_restarts_in_iter(parallel, at, kind, every):
    def sources():
        return [{"source": kind(4), "parallel": parallel, "snapshot_every": every, "cycle": "raise" if kind is not SelfRewinding else None}]

    pipe = make(*sources())
    reference, saved = [], []
    for _ in range(11):
        saved.append(pipe.checkpoint())
        reference.append(step(pipe))
        if reference[-1] == "end":
            pipe.reset()
    for k in at or range(len(saved)):
        restored = make(*sources(), checkpoint=saved[k])
        found = []
        for _ in range(11 - k):
            found.append(step(restored))
            if found[-1] == "end":
                restored.reset()
        assert found == reference[k:]


class Forgetful(Numbers):
    """An iterator that ignores the state that it should load."""

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize("parallel", PARALLEL)
def test_a_source_that_ignores_its_state_is_refused(parallel):
    pipe = make({"source": Numbers(5), "name": "walk"})
    step(pipe)
    with pytest.raises((CheckpointError, ValueError), match=r"(?s)walk.*state_dict\(\)"):
        make({"source": Forgetful(5), "parallel": parallel, "name": "walk"}, checkpoint=pipe.checkpoint()).run()


@pytest.mark.parametrize("parallel", PARALLEL)
def test_a_source_that_became_shorter(parallel):
    pipe = make({"source": Counted(9), "snapshot_every": 8, "name": "walk"})
    for _ in range(6):
        step(pipe)
    restored = make({"source": Counted(4), "snapshot_every": 8, "parallel": parallel, "name": "walk"}, checkpoint=pipe.checkpoint())
    for _ in range(2):
        with pytest.raises((CheckpointError, ValueError), match=r"(?s)walk.*ended after 4 of the 6"):
            restored.run()


# --------------------------------------------------------------------------------------------------------------- errors


@restored_at(0, 3, 4, 8, 13)  # 3, 4: before and after the error
@pytest.mark.parametrize("generator", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("every", [slowly(1), 3])
def test_an_error_of_a_source_with_a_state(parallel, at, generator, depth, every):
    """The iterator fails once, at its fourth batch. A generator ends after such an error."""

    def sources():
        return [{"source": Broken(7, 3, generator), "parallel": parallel, "snapshot_every": every, "cycle": "raise"}]

    pipe = make(*sources(), depth=depth)
    reference, saved = [], []
    for _ in range(14):
        saved.append(pipe.checkpoint())
        reference.append(step(pipe))
        if reference[-1] == "end":
            pipe.reset()
    assert "error" in reference
    for k in at or range(len(saved)):
        restored = make(*sources(), depth=depth, checkpoint=saved[k])
        found = []
        for _ in range(14 - k):
            found.append(step(restored))
            if found[-1] == "end":
                restored.reset()
        assert found == reference[k:], k


def test_a_temporary_error_is_not_repeated_after_a_restore():
    """The source failed once for an external reason. When it works again, no batch is lost."""
    glitch = [2]

    class Glitches(Numbers):
        def __next__(self):
            if self.index in glitch:
                glitch.clear()
                raise ValueError("the network")
            return super().__next__()

    pipe = make({"source": Glitches(5)}, depth=1)
    assert [step(pipe) for _ in range(3)] == [(0,), (1,), "error"]
    saved = pipe.checkpoint()
    assert step(make({"source": Glitches(5)}, checkpoint=saved)) == step(pipe) == (2,)


# ------------------------------------------------------------------------------------------------------------ hostile ones


def test_a_huge_count_of_batches_is_refused():
    pipe = make({"source": Endless(0), "snapshot_every": 4, "name": "walk"})
    for _ in range(3):
        step(pipe)

    def huge(body):
        body["operators"]["walk"]["asks"] = [["batch", 10**15]]

    for parallel in (False, True):
        restored = make({"source": Endless(0), "snapshot_every": 4, "parallel": parallel, "name": "walk"},
                        checkpoint=rewritten(pipe.checkpoint(), huge))  # fmt: skip
        with pytest.raises(CheckpointError, match=r"walk.*snapshot_every"):
            restored.build()


def test_states_of_earlier_releases():
    pipe = make({"source": Counted(5), "name": "walk", "snapshot_every": 4})
    for _ in range(2):
        step(pipe)

    def earlier(body):
        body["operators"]["walk"] = {"state": None, "discard": 2, "ended": False}

    saved = rewritten(pipe.checkpoint(), earlier)
    assert step(make({"source": Counted(5), "name": "walk", "snapshot_every": 4}, checkpoint=saved)) == (2,)


def test_positions_are_small():
    pipe = make({"source": Counted(3)})
    epoch(pipe)
    for _ in range(50):
        pipe.reset()
        step(pipe)
    position = json.loads(pipe.checkpoint())["body"]["operators"]["__ExternalSource_0"]
    assert position["asks"] == [["end", 51]]


def test_with_strict_false_sources_continue_with_the_restored_state(caplog):
    pipe = make({"source": Numbers(5), "name": "walk"})
    step(pipe)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restored = make({"source": Forgetful(5), "name": "walk"}, checkpoint=pipe.checkpoint(), strict=False)
        assert step(restored) == (0,)
    assert "walk" in caplog.text


# ------------------------------------------------------------------------------------------------------------- iterators


class Plain(BaseIterator):
    """An iterator that returns the numbers of each pipeline."""

    def _converted(self, outputs, keep):
        return tuple(int(np.asarray(output[0])[0]) for output in outputs)

    def _collected(self, converted):
        return converted if len(converted) > 1 else converted[0]


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("told", [False, True])
def test_an_iterator_saved_between_two_loops(prepare, depth, told):
    def sources():
        return [{"source": short, "batch_info": True}, {"source": Endless(0)}]

    iterator = Plain(make(*sources(), depth=depth), ["a", "b"], auto_reset=False, prepare_first_batch=prepare)
    first = list(iterator) if told else [next(iterator) for _ in range(3)]
    assert first == [(0, 0), (1, 1), (2, 2)]
    saved = iterator.checkpoints()
    wanted = list(iterator)
    assert wanted == [(10, 4), (11, 5), (12, 6)]  # iter() starts the next epoch, even if the program has not seen the end of this one
    for again in range(2):
        pipe = make(*sources(), depth=depth, checkpoint=saved[0])
        restored = Plain(pipe, ["a", "b"], auto_reset=False, prepare_first_batch=prepare)
        if again:
            assert restored.checkpoints() == saved
        assert list(restored) == wanted


def test_one_of_two_pipelines_fails():
    def pipes(checkpoints=(None, None)):
        return [make({"source": Endless(10)}, checkpoint=checkpoints[0]), make({"source": Broken(9, 2, False)}, checkpoint=checkpoints[1])]

    iterator = Plain(pipes(), ["x"], size=100, prepare_first_batch=False)
    assert [next(iterator), next(iterator)] == [[(10,), (0,)], [(11,), (1,)]]
    with pytest.raises(ValueError):
        next(iterator)
    saved = iterator.checkpoints()
    restored = Plain(pipes(saved), ["x"], size=100, prepare_first_batch=False)
    assert next(iterator) == next(restored) == [(12,), (2,)]


class Positional:
    """A source of the position that also has a state."""

    def __call__(self, number):
        return [np.array([number])] * SIZE

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        raise AssertionError("a source of the position has no state to load")


def test_a_warning_names_a_state_beside_the_position():
    """Such a source is asked for the next positions, and load_state_dict() is never called: what it keeps would be lost without a word."""
    pipe = make({"source": Positional(), "name": "numbers"})
    with pytest.warns(UserWarning, match=r"source of 'numbers' has state_dict\(\), but it takes the position .* remove the argument"):
        pipe.build()
    pipe.close()
    with pytest.raises(ValueError, match=r"this source takes the position as its argument, and has no other state"):
        make({"source": Positional(), "snapshot_every": 2})
    pipe = Pipeline(batch_size=SIZE, num_threads=1, seed=3)
    with pipe:
        pipe.set_outputs(fn.external_source(Positional()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.build()  # without checkpoints nothing is lost
    pipe.close()
