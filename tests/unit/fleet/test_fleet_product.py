"""Any numbers of actors, ranks and engines give the same sequence of (id, draws, pixels).

Actors are whole: each has a socket, a pipeline of its own and, in some cases, processes of its own. Batches travel by TCP.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import time

import cv2
import numpy as np
import pytest
from helpers.fleets import TOKEN, actors

from asyncdali import fn, pipeline_def
from asyncdali.errors import OperatorError
from asyncdali.fleet import LastBatchPolicy, loader, near

pytestmark = pytest.mark.slow

ACTORS = (0, 1, 2, 3, 5)
RANKS = (1, 2, 3, 4, 6)
ENGINES = (0, 2)
BATCH = 12
PICTURES = 29
BROKEN = 17
"""The picture at which a function fails, in the programs with a failing sample."""
POLICIES = (None, LastBatchPolicy.FILL, LastBatchPolicy.DROP, LastBatchPolicy.PARTIAL)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Noise of different sizes, as JPEG and PNG."""
    folder, rng, found = tmp_path_factory.mktemp("pictures"), np.random.default_rng(3), []
    for k in range(PICTURES):
        path = os.fspath(folder / f"{k:03d}.{'jpg' if k % 3 else 'png'}")
        cv2.imwrite(path, cv2.resize(rng.integers(0, 255, (9, 7, 3), np.uint8), (60 + 3 * k, 50 + 5 * k)))
        found.append(path)
    return found


class Walk:
    """A source with a state: a random walk that ends after `length` batches."""

    def __init__(self, length):
        self.length, self.count, self.rng = length, 0, random.Random(1)

    def __iter__(self):
        self.count = 0
        return self

    def __next__(self):
        if self.count == self.length:
            raise StopIteration
        self.count += 1
        return np.array([[self.rng.random()] for _ in range(BATCH)])

    def state_dict(self):
        return {"count": self.count, "rng": list(self.rng.getstate()[1])}

    def load_state_dict(self, state):
        self.count = state["count"]
        self.rng.setstate((3, tuple(state["rng"]), None))


def refuse(number):
    """Returns the number, but raises an error for the broken one."""
    if int(number[0]) == BROKEN:
        raise ValueError(f"picture {BROKEN}")
    return number


def program(pictures, failing=False, walk=0, depth=3):
    """A pipeline of (id, draws, pixels). If `walk` is a length, there is also a source with a state."""

    @pipeline_def(batch_size=BATCH, num_threads=1, seed=5, prefetch_queue_depth=depth)
    def train():
        encoded, ids = fn.readers.file(files=pictures, labels=list(range(PICTURES)), name="reader", random_shuffle=True, initial_fill=9)
        images = fn.random_resized_crop(fn.decoders.image(encoded), size=[64, 64])  # 144 KB per batch, so each batch is a separate payload
        draws = fn.random.uniform(range=[0, 1], shape=[2])
        more = [fn.external_source(source=Walk(walk))] if walk else []
        return fn.python_function(ids, function=refuse) if failing else ids, draws, fn.flip(images, horizontal=fn.random.coin_flip()), *more

    return train


def samples(outputs):
    return [[np.asarray(sample).tobytes() for sample in output] for output in outputs]


def merged(parts):
    """The result of one iteration of all ranks: the concatenated samples, "end", or "failed" if one rank failed."""
    named = [part for part in parts if isinstance(part, str)]
    assert named.count("end") in (0, len(parts))
    return named[0] if named else [list(itertools.chain(*outputs)) for outputs in zip(*parts)]


def next_of(batches):
    """The result of a rank's next iteration: its samples, "end" or "failed"."""
    try:
        return samples(next(batches))
    except StopIteration:
        return "end"
    except OperatorError:
        return "failed"


def stream(train, ranks, count, checkpoint=None, **options):
    """The iterations of all ranks, and their checkpoint, which all ranks share. After a failure all ranks start a new loop."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(loader(train, rank=r, world_size=ranks, checkpoint=checkpoint, **options)) for r in range(ranks)]
        loops, found = [iter(rank) for rank in made], []
        for _ in range(count):
            found.append(merged([next_of(loop) for loop in loops]))
            if isinstance(found[-1], str):
                loops = [iter(rank) for rank in made]
        (saved,) = {rank.checkpoint() for rank in made}
    return found, saved


def digest(found):
    """A digest of all samples, in the order of iterations, outputs and samples."""
    made = hashlib.blake2b(digest_size=16)
    for iteration in found:
        if isinstance(iteration, str):
            made.update(iteration.encode())
            continue
        for number, output in enumerate(iteration):
            for sample in output:
                made.update(f"{number} {len(sample)} ".encode() + sample)
    return made.hexdigest()


@pytest.fixture
def far(monkeypatch):
    """Treat all engines as engines on other machines, so that batches travel by TCP."""
    monkeypatch.setattr(near, "connect", lambda place, timeout: None)


def engines_of(found, count, engines):
    """The options of a loader that uses `count` actors, or local engines if `count` is 0."""
    return {"engines": [actor.address for actor in found[:count]], "token": TOKEN} if count else {"engines": engines}


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("engines", ENGINES)
def test_all_numbers_of_actors_and_ranks_give_the_same_batches(pictures, engines):
    """All combinations. Eight iterations have three epochs, so epochs end while later iterations are in the queue."""
    train, began = program(pictures), time.monotonic()
    wanted, saved = stream(train, 1, 8)
    assert "end" in wanted
    checked = 0
    with actors(train, max(ACTORS), engines=engines) as found:
        for count, ranks in itertools.product(ACTORS, RANKS):
            got, after = stream(train, ranks, 8, **engines_of(found, count, engines))
            assert (digest(got), after) == (digest(wanted), saved), (count, ranks, engines)
            checked += 1
    assert checked == len(ACTORS) * len(RANKS)
    print(f"{checked} combinations with engines={engines}: {digest(wanted)}, {time.monotonic() - began:.0f} s")


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("failing", [False, True])
def test_checkpoints_of_one_fleet_resume_under_another(pictures, policy, failing):
    """25 random combinations for each of eight programs. One program has a source with a state and shorter epochs than the reader."""
    walk = 2 if policy is None and not failing else 0
    train = program(pictures, failing, walk)
    wanted, last = stream(train, 1, 11, last_batch_policy=policy)
    assert ("failed" in wanted) is failing and (failing or "end" in wanted)
    sizes = {len(iteration[0]) for iteration in wanted if not isinstance(iteration, str)}
    assert sizes == ({BATCH, 5} if policy is LastBatchPolicy.PARTIAL else {BATCH})
    between = [k for k in range(11) if wanted[k] != "end"]  # a loop that starts behind the last batch of an epoch gives the next epoch
    with actors(train, 3) as plain, actors(train, 1, engines=2) as guarded:
        for number in range(25):
            choose = random.Random(f"{number} {policy} {failing}")
            place = choose.choice(between)
            places = []
            for _ in range(2):
                found = choose.sample([*plain, *guarded], 4)
                places.append((choose.choice(RANKS), engines_of(found, choose.choice([0, 1, 2, 3, 4]), choose.choice(ENGINES))))
            (before, first), (after, second) = places
            head, saved = stream(train, before, place, last_batch_policy=policy, **first)
            tail, end = stream(train, after, 11 - place, saved, last_batch_policy=policy, **second)
            assert (head + tail, end) == (wanted, last), (number, places, place)
