"""Element types of signals."""

from __future__ import annotations

from ...types import DALIDataType

SIGNAL_TYPES = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.UINT32, DALIDataType.INT32,
    DALIDataType.UINT64, DALIDataType.INT64, DALIDataType.FLOAT, DALIDataType.FLOAT64,
)  # fmt: skip
