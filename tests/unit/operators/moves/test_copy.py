"""copy: the output has separate memory, on both devices."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import pipeline_of

from asyncdali import fn


def test_the_copy_has_separate_memory():
    sample = np.arange(6, dtype=np.int16).reshape(2, 3)

    def graph():
        source = fn.external_source(lambda: [sample] * 3, layout="HW")
        return fn.copy(source), fn.copy(source.gpu())

    with pipeline_of(graph) as pipeline:
        one, two = pipeline.run()
        for output in (one, two.as_cpu()):
            np.testing.assert_array_equal(np.asarray(output[1]), sample)
            assert output.layout() == "HW" and not np.shares_memory(np.asarray(output[1]), sample)
