"""`_table_row` selects a row of a table. auto_aug uses it for magnitudes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import batch, plan

from asyncdali import types
from asyncdali.operators.base import SampleError

TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def test_rows_by_number_and_from_the_end():
    planned = plan("_table_row", [batch([np.int32(2), np.int32(0), np.int32(-1)])], {}, {"table": TABLE, "dtype": types.FLOAT})
    assert planned.outputs[0].values.tolist() == [[5, 6], [1, 2], [5, 6]] and planned.outputs[0].dtype == types.FLOAT


def test_the_error_of_a_missing_row_names_its_sample():
    with pytest.raises(SampleError, match="row 3 is out of range: the table has 3 rows") as caught:
        plan("_table_row", [batch([np.int32(0), np.int32(3)])], {}, {"table": TABLE, "dtype": types.FLOAT})
    assert caught.value.sample == 1
