"""On a GPU: batches with some damaged JPEGs. Errors name these files; the other files and the next batch are decoded as usual."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_flow import encoded
from test_operators import gpu, samples_of  # noqa: F401

from asyncdali import fn, pipeline_def
from asyncdali.types import SampleInfo

pytestmark = pytest.mark.gpu
BATCH = 64
FILES = [encoded(SampleInfo(k, k, 0, 0)) for k in range(BATCH)]


def segments(data: np.ndarray) -> list[tuple[int, int, int]]:
    """(marker, begin, size) of the segments before the entropy-coded data."""
    found, at = [], 2
    while data[at + 1] != 0xDA:
        size = 2 + int(data[at + 2]) * 256 + int(data[at + 3])
        found.append((int(data[at + 1]), at, size))
        at += size
    return found


def damaged(rng: np.random.Generator, data: np.ndarray) -> np.ndarray:
    data = data.copy()
    kind = rng.integers(6)
    tables = [found for found in segments(data) if found[0] in (0xC4, 0xDB)]
    _, at, size = tables[rng.integers(len(tables))]
    if kind == 0:  # bytes of a table, for example the length of a code
        data[at + rng.integers(2, size, 3)] = rng.integers(0, 256, 3)
    elif kind == 1:
        data = np.delete(data, slice(at, at + size))
    elif kind == 2:
        data = data[: rng.integers(3, len(data))]
    elif kind == 3:  # cut, with an end marker
        data = np.append(data[: rng.integers(at + size, len(data))], np.array([0xFF, 0xD9], np.uint8))
    elif kind == 4:
        data[rng.integers(2, len(data))] ^= 1 << rng.integers(8)
    else:
        begin = rng.integers(len(data) // 2, len(data) - 40)
        data[begin : begin + 30] = rng.integers(0, 256, 30)
    return data


@pytest.mark.parametrize("decoder", ["shared", "hardware", "hybrid"])
def test_damaged_pictures(decoder):
    rng = np.random.default_rng(3)
    now = [FILES]

    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, prefetch_queue_depth=1)
    def graph():
        return fn.decoders.image(fn.external_source(lambda: now[0]), device="mixed", decoder=decoder)

    pipe = graph()
    expected = samples_of(pipe.run()[0])
    outcomes = []
    for _ in range(40):
        bad = rng.choice(BATCH, rng.integers(1, 4), replace=False).tolist()
        now[0] = [damaged(rng, data) if k in bad else data for k, data in enumerate(FILES)]
        try:
            made = samples_of(pipe.run()[0])
        except RuntimeError as error:
            outcomes.append(False)
            assert int(re.search(r"sample (\d+)", str(error))[1]) in bad  # type: ignore[index]
            now[0] = FILES
            bad, made = [], samples_of(pipe.run()[0])
        else:
            outcomes.append(True)
        for k in set(range(BATCH)) - set(bad):
            # The lane of a picture depends on the whole batch, and lanes differ at the edges of these noisy pictures.
            assert made[k].shape == expected[k].shape and np.abs(made[k].astype(int) - expected[k].astype(int)).mean() < 10
    assert len(set(outcomes)) == 2
    pipe.close()
