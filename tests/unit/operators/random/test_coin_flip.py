"""random.coin_flip: probabilities per sample."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_probabilities_of_samples():
    probabilities = [np.float32(p) for p in (0.0, 0.25, 1.0)]
    [[found]] = outputs_of(lambda: fn.random.coin_flip(probability=fn.external_source(lambda: probabilities), shape=[8000]))
    assert found[0].max() == 0 and found[2].min() == 1 and abs(found[1].mean() - 0.25) < 0.02
    assert set(np.unique(found[1])) == {0, 1} and found[1].dtype == np.int32
