"""`.gpu()` and `.cpu()`: the same data on the other device."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import pipeline_of

from asyncdali import fn, types


def test_data_copied_to_the_gpu_and_back_is_the_same():
    rows = [np.arange(3 * k, dtype=np.int16).reshape(k, 3) for k in (1, 2, 3)]

    def graph():
        source = fn.external_source(lambda: rows, layout="HW")
        there = source.gpu()
        return there, there.cpu(), there.gpu()

    with pipeline_of(graph) as pipeline:
        there, back, again = pipeline.run()
        for output in (there.as_cpu(), back, again.as_cpu()):
            assert output.layout() == "HW" and output.dtype == types.INT16
            for sample, row in zip(output, rows, strict=True):
                np.testing.assert_array_equal(np.asarray(sample), row)
        assert type(there).__name__ == "TensorListGPU" and type(back).__name__ == "TensorListCPU"
