"""Random operators of dynamic mode that run from templates: each call has the position of its own stream."""

from __future__ import annotations

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali.imperative.brief import _DrawnCall
from asyncdali.runtime.templates.tables import CallTemplates
from asyncdali.sampling.random_streams import StreamPosition, drawn_position

PICTURE = np.random.default_rng(5).integers(0, 256, (7, 6, 3), np.uint8)
MASK = np.array([[0, 1, 1], [2, 0, 1]], np.int32)
STATES = [
    str(StreamPosition(key, hi, lo, phase))
    for key, hi, lo, phase in [
        (0, 0, 0, 0), (1, 0, 0, 3), (2**64 - 1, 0, 2**64 - 1, 2), (2**63, 2**64 - 1, 2**64 - 1, 1), (77, 5, 6, 0), (78, 2**63, 1, 3)
    ]
]  # fmt: skip

CALLS = {
    "gaussian": lambda rng: ndd.noise.gaussian(PICTURE, stddev=9.0, rng=rng),
    "shot": lambda rng: ndd.noise.shot(PICTURE, rng=rng),
    "salt_and_pepper": lambda rng: ndd.noise.salt_and_pepper(PICTURE, prob=0.4, rng=rng),
    "batch": lambda rng: ndd.noise.gaussian(ndd.as_batch([PICTURE, PICTURE[1:]]), stddev=9.0, rng=rng),
    "random_mask_pixel": lambda rng: ndd.segmentation.random_mask_pixel(MASK, rng=rng),
    "random_object_bbox": lambda rng: ndd.segmentation.random_object_bbox(MASK, rng=rng),
}


def contents(made: object) -> list[bytes]:
    values = made if isinstance(made, tuple) else (made,)
    return [np.asarray(part).tobytes() for value in values for part in (value.tensors if isinstance(value, ndd.Batch) else [value])]


@pytest.mark.parametrize("name", CALLS)
def test_copied_plans_draw_from_the_stream_of_their_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, find = [], CallTemplates.find
    monkeypatch.setattr(CallTemplates, "find", lambda self, *given: found.append(find(self, *given)) or found[-1])
    planned = []
    for state in STATES:
        with ndd.EvalContext(num_threads=1):  # it has no template yet
            planned.append(contents(CALLS[name](ndd.random.RNG(state=state))))
    assert found == [None] * len(STATES)
    assert len({tuple(item) for item in planned}) > 1
    with ndd.EvalContext(num_threads=1):
        for _ in range(3):
            assert [contents(CALLS[name](ndd.random.RNG(state=state))) for state in STATES] == planned
    if name != "random_object_bbox":  # it looks for objects before it plans
        assert found[-1] is not None


DRAWS = {
    "uniform": lambda rng, size: ndd.random.uniform(range=[0, 3], batch_size=size, rng=rng),
    "uniform of a shape": lambda rng, size: ndd.random.uniform(range=[0.5, 3.0], shape=[2, 3], batch_size=size, rng=rng),
    "values": lambda rng, size: ndd.random.uniform(values=[1.0, 5.0, 7.0], dtype=ndd.int32, batch_size=size, rng=rng),
    "coins": lambda rng, size: ndd.random.coin_flip(probability=0.3, batch_size=size, rng=rng),
    "normal": lambda rng, size: ndd.random.normal(stddev=2.0, batch_size=size, rng=rng),
    "normal of a shape": lambda rng, size: ndd.random.normal(shape=[70], batch_size=size, rng=rng),
    "beta": lambda rng, size: ndd.random.beta(alpha=2.0, beta=0.5, dtype=ndd.float64, batch_size=size, rng=rng),
    "permutation": lambda rng, size: ndd.batch_permutation(batch_size=size or 5, rng=rng),
}


@pytest.mark.parametrize("name", DRAWS)
def test_remembered_draws_draw_from_the_stream_of_their_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, call = [], _DrawnCall.made
    monkeypatch.setattr(_DrawnCall, "made", lambda self, place: made.append(place) or call(self, place))
    draw, sizes = DRAWS[name], (None, 1, 4, 0)
    planned = {}
    for size in sizes:
        for state in STATES:
            with ndd.EvalContext(num_threads=1):  # nothing is remembered yet
                planned[size, state] = contents(draw(ndd.random.RNG(state=state), size))
    assert not made and len({tuple(item) for item in planned.values()}) > 1
    with ndd.EvalContext(num_threads=1):
        for _ in range(4):
            for (size, state), expected in planned.items():
                rng = ndd.random.RNG(state=state)
                assert contents(draw(rng, size)) == expected
                skipped = ndd.random.RNG(state=state)
                skipped.advance(7)
                assert rng.get_state() == skipped.get_state()
    assert len(made) > 2 * len(planned)


def test_a_remembered_draw_names_its_error() -> None:
    for _ in range(4):  # both bounds are one number in float32
        with pytest.raises(ValueError, match=r"ndd\.random\.uniform.*the range \[1\.0, 1\.0\) is empty"):
            ndd.random.uniform(range=[1.0, 1.0 + 1e-12])


def test_the_stream_of_a_call_is_made_of_seven_words() -> None:
    ends = [0, 2**64 - 1, 2**64 - 2, 12345]
    for key, hi, lo, phase in [(k, h, c, p) for k in (0, 2**64 - 1, 99) for h in ends for c in ends for p in range(4)]:
        place = key, hi, lo, phase
        position = StreamPosition(*place)
        rng, called = (ndd.random.RNG(state=str(position)) for _ in range(2))
        words = [rng() for _ in range(7)]
        key, lo, hi = (words[k] | words[k + 1] << 32 for k in (0, 2, 4))
        assert drawn_position(place[0], place[1] << 64 | place[2], place[3]) == StreamPosition(key, hi, lo, words[6] & 3)
        ndd.random.coin_flip(rng=called)
        assert called.state == rng.state
