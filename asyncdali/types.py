"""Data types, enumerations and constants of the public API (the names and values of DALI's ``types`` module)."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class DALIDataType(IntEnum):
    """Element type of a tensor, and the kind of an operator argument."""

    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11
    STRING = 12
    FEATURE = 17
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22
    TENSOR_LAYOUT = 23
    PYTHON_OBJECT = 24

    def __repr__(self) -> str:
        return f"<DALIDataType.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return f"DALIDataType.{self.name}"


class DALIImageType(IntEnum):
    """Colour space of a decoded image."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4

    def __repr__(self) -> str:
        return f"<DALIImageType.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return f"DALIImageType.{self.name}"


class DALIInterpType(IntEnum):
    """Interpolation (resampling filter)."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5

    def __repr__(self) -> str:
        return f"<DALIInterpType.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return f"DALIInterpType.{self.name}"


_NUMPY = {
    DALIDataType.UINT8: np.uint8,
    DALIDataType.UINT16: np.uint16,
    DALIDataType.UINT32: np.uint32,
    DALIDataType.UINT64: np.uint64,
    DALIDataType.INT8: np.int8,
    DALIDataType.INT16: np.int16,
    DALIDataType.INT32: np.int32,
    DALIDataType.INT64: np.int64,
    DALIDataType.FLOAT16: np.float16,
    DALIDataType.FLOAT: np.float32,
    DALIDataType.FLOAT64: np.float64,
    DALIDataType.BOOL: np.bool_,
}
