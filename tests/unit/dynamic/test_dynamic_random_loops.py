"""Random loops of dynamic mode, plain, captured, and computed ahead because they are long: equal bits, equal states of generators."""

from __future__ import annotations

import random

import numpy as np
import pytest
from PIL import Image

import asyncdali.dynamic as ndd
from asyncdali.imperative import bricks

pytestmark = pytest.mark.filterwarnings("ignore:capture")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Thirteen pictures of different sizes."""
    root = tmp_path_factory.mktemp("pictures")
    paths = []
    for k in range(13):
        picture = np.random.default_rng(k).integers(0, 256, (12 + k, 20 - k // 2, 3), np.uint8)
        Image.fromarray(picture).save(root / f"{k:02d}.png")
        paths.append(str(root / f"{k:02d}.png"))
    return paths


def content(value):
    if isinstance(value, bytes):
        return value
    return b"".join(np.asarray(t).tobytes() for t in (value.tensors if isinstance(value, ndd.Batch) else [value]))


class Body:
    """The body of a loop. What it does in a step follows from the plan's number."""

    def __init__(self, item, rng, step, constant):
        self.encoded, self.size = item[0], item[1].batch_size
        self.rng, self.step, self.constant = rng, step, constant
        self.values, self.found = [], []

    def run(self, plan):
        """The results that the loop keeps."""
        draw = random.Random(plan)
        decode = ndd.decoders.image if draw.random() < 0.7 else lambda data: ndd.decoders.image_random_crop(data, rng=self.rng)
        self.values.append(ndd.resize(decode(self.encoded), size=[8, 9]))
        names = sorted(name for name in dir(self) if name.startswith("do_"))
        for _ in range(draw.randrange(2, 9)):
            getattr(self, draw.choice(names))(draw, draw.choice(self.values))
        if draw.random() < 0.1:
            self.rng.seed = self.step
        return self.found

    # operators on whole batches

    def do_flip(self, draw, x):
        given = ndd.random.coin_flip(batch_size=self.size, rng=self.rng) if draw.random() < 0.5 else None
        self.values.append(ndd.flip(x, horizontal=draw.randrange(2), vertical=given))

    def do_noise(self, draw, x):
        self.values.append(ndd.cast(ndd.noise.gaussian(x, stddev=draw.choice([3.0, 5.0]), rng=self.rng), dtype=ndd.uint8))

    def do_arithmetic(self, draw, x):
        self.values.append(ndd.cast(x * 2 + draw.randrange(3), dtype=ndd.uint8))

    def do_root(self, draw, x):
        self.found.append(ndd.math.sqrt(x))

    def do_normalize(self, draw, x):
        mirror = ndd.random.coin_flip(batch_size=self.size, rng=self.rng)
        self.found.append(ndd.crop_mirror_normalize(x, mirror=mirror, mean=[1.0, 2.0, 3.0]))

    def do_join(self, draw, x):
        self.values.append(ndd.resize(ndd.cat(x, self.values[0], axis=0), size=[8, 9]))

    def do_reduce(self, draw, x):
        self.found.append(ndd.reductions.mean(x, axes=[0]))

    def do_relabel(self, draw, x):
        self.found.append(ndd.transpose(ndd.as_batch(x, layout="ABC"), perm=[2, 0, 1]))

    # random numbers

    def do_uniform(self, draw, x):
        size = self.size if draw.random() < 0.7 else None
        self.found.append(ndd.random.uniform(range=[0.0, 1.0], batch_size=size, rng=self.rng if draw.random() < 0.7 else None))

    def do_word(self, draw, x):
        self.found.append(ndd.tensor(self.rng() % 1000))

    # data from Python

    def do_constant(self, draw, x):
        if draw.random() < 0.3:
            self.constant += 1
        given = self.constant.copy() if draw.random() < 0.5 else self.constant
        self.values.append(ndd.brightness_contrast(x, brightness=ndd.as_tensor(given)[0]))

    def do_matrix(self, draw, x):
        shift = self.step % 3 if draw.random() < 0.5 else 2
        self.found.append(ndd.warp_affine(x, np.array([[1, 0, shift], [0, 1, 1]], np.float32)))

    def do_large(self, draw, x):
        self.found.append(ndd.cat(x, np.full((8, 9, 3), self.step % 100, np.uint8), axis=0))

    # what the program sees, and changes

    def do_read(self, draw, x):
        self.found.append(content(x))

    def do_shapes(self, draw, x):
        self.found.append(ndd.tensor(np.array(x.shape)))

    def do_change(self, draw, x):
        np.asarray(x.tensors[draw.randrange(self.size)])[...] = self.step % 200

    def do_change_files(self, draw, x):
        for data in self.encoded.tensors:
            np.asarray(data)[-1:] = 0

    def do_sample(self, draw, x):
        self.found.append(ndd.flip(x.tensors[draw.randrange(self.size)]))

    def do_select(self, draw, x):
        self.found.append(ndd.flip(x.select([0])))

    def do_slice(self, draw, x):
        self.found.append(x.slice[1:4])

    def do_defer(self, draw, x):
        with ndd.EvalMode.deferred:
            made = ndd.flip(x)
        self.found.append(made)


def loop(seed, files, capture):
    """The results of a random loop, the states of its generators, and the number of calls that were computed ahead."""
    draw = random.Random(seed)
    size, last = draw.choice([1, 2, 3, 4]), draw.choice(["wrap", "partial", "drop"])
    ndd.random.set_seed(seed)
    reader = ndd.readers.File(files=files, random_shuffle=draw.random() < 0.5, seed=3, pad_last_batch=draw.random() < 0.3)
    rng, constant = ndd.random.RNG(seed), np.array([1.0], np.float32)
    plans = [draw.randrange(10**6) for _ in range(draw.choice([1, 1, 2, 3]))]
    found, kept, step = [], [], 0
    for _ in range(3):
        stop = draw.choice([None, None, 2])
        for k, item in enumerate(reader.next_epoch(batch_size=size, capture=capture, last_batch=last)):
            plan = plans[step % len(plans)] if draw.random() < 0.9 else draw.randrange(10**6)
            made = Body(item, rng, step, constant).run(plan)
            if draw.random() < 0.7:
                found.append(list(map(content, made)))
            else:
                kept.append(made)
            step += 1
            if k + 1 == stop:
                break
    found += [list(map(content, made)) for made in kept]
    return found, str(rng.state), str(ndd.random.get_default_rng().state), reader.captured_calls


def plain(seed, files):
    """The loop with nothing computed ahead."""
    with ndd.EvalMode.sync_cpu:
        *found, ahead = loop(seed, files, False)
    assert not ahead
    return tuple(found)


@pytest.fixture
def long(monkeypatch):
    """All work counts as long."""
    monkeypatch.setattr(bricks, "_LONG_NS", -1)


@pytest.mark.parametrize("seed", range(6))
def test_random_loops_give_equal_bits(files, seed, long):
    expected = plain(seed, files)
    assert loop(seed, files, True)[:3] == expected
    assert loop(seed, files, False)[:3] == expected


@pytest.mark.slow
def test_many_random_loops_give_equal_bits(files, long):
    served = [0, 0]
    for seed in range(1000, 1400):
        expected = plain(seed, files)
        for asked in (False, True):
            *found, ahead = loop(seed, files, asked)
            assert tuple(found) == expected, (seed, asked)
            served[asked] += ahead
    assert served[1] > 5000 and served[0] > 500
