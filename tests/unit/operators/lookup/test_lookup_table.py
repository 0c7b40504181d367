"""lookup_table: keys, default values and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import Failed, ours

FILM = [np.zeros((2, 3), np.uint8)]


def test_keys_and_the_default():
    labels = [np.array([0, 2, 1], np.int32), np.array([], np.int32)]
    found = ours("lookup_table", [labels], keys=[2, 3], values=[0.5, 7], default_value=-1)
    assert [sample.tolist() for sample in found.samples] == [[-1, 0.5, -1], []]


@pytest.mark.parametrize("dtype, extreme", [("int8", -128), ("int64", -(2**63)), ("uint64", 2**64 - 1), ("int32", 2**31 - 1)])
def test_keys_out_of_range_have_the_default(dtype, extreme):
    found = ours("lookup_table", [[np.array([extreme, 1], dtype)]], keys=[1], values=[5.0], default_value=2)
    assert found.samples[0].tolist() == [2, 5]
    assert ours("lookup_table", [[np.uint8([4])]], default_value=2).samples[0].tolist() == [2]


@pytest.mark.parametrize(
    "inputs, arguments, message",
    [
        ([FILM], {"keys": [1], "values": [1, 2]}, "same length, got 1 and 2"),
        ([FILM], {"keys": [-1], "values": [1]}, "0 to 65535, got -1"),
        ([[np.float32(1)]], {}, "Unsupported input type FLOAT (input 0, keys); supported types are: UINT8"),
    ],
)
def test_errors_say_what_was_given(inputs, arguments, message):
    result = ours("lookup_table", inputs, **arguments)
    assert isinstance(result, Failed) and message in result.message, result
