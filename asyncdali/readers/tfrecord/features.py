"""Declarations of the features that ``readers.tfrecord`` takes from each record."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import OperatorTypeError, OperatorValueError
from ...operators.base import storable

int64, string, float32 = 0, 1, 2
"""Kinds of features."""

NAMES = {int64: "int64", string: "string", float32: "float32"}
_NUMPY: dict[int, np.dtype] = {int64: np.dtype(np.int64), float32: np.dtype(np.float32), string: np.dtype(np.uint8)}


@storable
@dataclass(frozen=True)
class Feature:
    """One declared feature; made by :func:`FixedLenFeature` and :func:`VarLenFeature`."""

    shape: tuple[int, ...] | None
    kind: int
    default: Any
    partial: tuple[int, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether its output has the declared shape."""
        return self.shape is not None

    @property
    def numpy(self) -> np.dtype:
        """Element type of the output."""
        return _NUMPY[self.kind]

    @property
    def volume(self) -> int:
        """Number of elements of a fixed shape, or of one slice of a partial shape."""
        return math.prod(self.partial if self.shape is None else self.shape)

    def filling(self) -> np.ndarray:
        """The value of missing elements (a scalar, or uint8 text)."""
        if self.kind == string:
            text = b"" if self.default is None else self.default
            return np.frombuffer(text.encode() if isinstance(text, str) else bytes(memoryview(text)), np.uint8)
        nothing = self.default is None or (isinstance(self.default, str) and not self.default)
        return np.asarray(0 if nothing else self.default).astype(self.numpy)

    def stored(self) -> dict[str, object]:
        """Its fields as JSON data."""
        return {"shape": self.shape, "kind": self.kind, "default": self.default, "partial": self.partial}

    @classmethod
    def restored(cls, fields: dict[str, Any]) -> Feature:
        """The feature with these fields. TypeError, ValueError or KeyError for invalid fields."""
        if fields["shape"] is None:
            return VarLenFeature(fields["partial"], fields["kind"], fields["default"])
        return FixedLenFeature(fields["shape"], fields["kind"], fields["default"])

    def __repr__(self) -> str:
        kind = NAMES[self.kind]
        if self.shape is not None:
            return f"FixedLenFeature({list(self.shape)}, {kind}, {self.default!r})"
        partial = f"{list(self.partial)}, " if self.partial else ""
        return f"VarLenFeature({partial}{kind}, {self.default!r})"


def _kind(value: Any) -> int:
    kind = operator.index(value)
    if kind not in NAMES:
        raise OperatorValueError(f"the kind of a feature is {value!r}; it must be tfrecord.int64, tfrecord.float32 or tfrecord.string")
    return kind


def _shape(value: Sequence[int]) -> tuple[int, ...]:
    extents = tuple(operator.index(extent) for extent in value)
    if any(extent < 0 for extent in extents) or math.prod(extents) >= 2**40:
        raise OperatorValueError(f"{list(extents)} is not the shape of a feature: extents are integers of at least 0")
    return extents


def FixedLenFeature(shape: Sequence[int], dtype: int, default_value: object) -> Feature:
    """A feature of one shape in all records; missing values are `default_value`."""
    feature = Feature(_shape(shape), _kind(dtype), default_value)
    _check_default(feature)
    return feature


def VarLenFeature(*arguments: Any) -> Feature:
    """``VarLenFeature([partial_shape, ] dtype, default_value)``: as many values as there are, 1-D or in slices of `partial_shape`."""
    if len(arguments) == 2:
        feature = Feature(None, _kind(arguments[0]), arguments[1])
    elif len(arguments) == 3:
        feature = Feature(None, _kind(arguments[1]), arguments[2], _shape(arguments[0]))
    else:
        raise OperatorTypeError(
            f"VarLenFeature takes dtype and default, or partial shape, dtype and default; got {len(arguments)} arguments"
        )
    if feature.partial and feature.volume == 0:
        raise OperatorValueError(f"the partial shape {list(feature.partial)} has no elements")
    _check_default(feature)
    return feature


def _check_default(feature: Feature) -> None:
    try:
        filling = feature.filling()
        if feature.kind != string and filling.shape not in ((), feature.shape):
            raise ValueError(f"the default has the shape {filling.shape}; expected {feature.shape}, or one value for all elements")
    except (TypeError, ValueError, OverflowError) as error:
        raise OperatorTypeError(f"{feature.default!r} is not a default for a feature of {NAMES[feature.kind]}: {error}") from error
