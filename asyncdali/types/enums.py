"""The enumerations of the public API, with DALI's names and values."""

from __future__ import annotations

from enum import Enum, IntEnum


class _Kind(IntEnum):
    """Members equal their numbers and print their name. As in DALI, all of them are true, including number 0."""

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class DALIDataType(_Kind):
    """Element type of a tensor, and kind of an operator argument."""

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


class DALIImageType(_Kind):
    """Colour space of a decoded image."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4


class DALIInterpType(_Kind):
    """Interpolation (resampling filter)."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5

ENUM_KINDS: dict[type, DALIDataType] = {
    DALIImageType: DALIDataType.IMAGE_TYPE,
    DALIDataType: DALIDataType.DATA_TYPE,
    DALIInterpType: DALIDataType.INTERP_TYPE,
}
"""Enumerations whose members can be elements of tensors, and their element types."""

ENUM_CLASSES = tuple(ENUM_KINDS)
ENUMERATIONS = frozenset(ENUM_KINDS.values())


class PipelineAPIType(Enum):
    """The family of calls that runs a pipeline: `run`, a framework iterator, or `schedule_run`/`outputs`."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


class StreamPolicy(Enum):
    """How operators get CUDA streams (UNSPECIFIED behaves as PER_BACKEND)."""

    UNSPECIFIED = 0
    SINGLE = 1
    PER_BACKEND = 2
    PER_OPERATOR = 3


class OperatorConcurrency(Enum):
    """Which operators of one pipeline may run at the same time (UNSPECIFIED behaves as BACKEND)."""

    UNSPECIFIED = 0
    NONE = 1
    BACKEND = 2
    FULL = 3
