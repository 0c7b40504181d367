"""The operators of `if`: batches are split by a condition and merged again."""

from __future__ import annotations

import numpy as np
import pytest

from asyncdali import fn, pipeline_def, types


def test_samples_go_through_their_branch_and_keep_their_order():
    @pipeline_def(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)
    def graph():
        number = fn.external_source(lambda k: [np.int32(4 * k + j) for j in range(4)])
        if number % 2 == 0:
            result = number * 10
        else:
            result = -number
        return result, not number

    pipe = graph()
    for k in range(2):
        result, zero = pipe.run()
        numbers = [4 * k + j for j in range(4)]
        assert [int(np.asarray(sample)) for sample in result] == [10 * n if n % 2 == 0 else -n for n in numbers]
        assert [bool(np.asarray(sample)) for sample in zero] == [n == 0 for n in numbers]
    pipe.close()


def test_a_condition_is_a_scalar():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
    def graph():
        number = fn.external_source(lambda k: [np.zeros(2, bool)] * 2)
        if number:
            result = types.Constant(1, device="cpu")
        else:
            result = types.Constant(2, device="cpu")
        return result

    pipe = graph()
    with pytest.raises(RuntimeError, match="scalar"):
        pipe.run()
    pipe.close()
