"""`types.Constant`: a scalar, or a node of the graph."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .constant_values import array_value, constant_array, constant_shape
from .conversions import given_dtype
from .enums import ENUM_CLASSES, ENUMERATIONS
from .scalar import ScalarConstant

make_node: Callable[..., Any] | None = None
"""`graph.constants.constant_node`, set when the graph is imported, because constants are below the graph."""

_NODE_ARGUMENTS = frozenset({"name", "preserve", "bytes_per_sample_hint"})


def Constant(value: Any, dtype: Any = None, shape: Any = None, layout: str | None = None, device: str | None = None, **kwargs: Any) -> Any:
    """A constant: a `ScalarConstant` if one value is enough, otherwise a node with the same value in every sample.

    - value, dtype, shape: see `constant_array`.
    - layout: one character per dimension of the result.
    - device: "cpu" (default) or "gpu".
    - kwargs: ``name`` of the node; ``preserve`` and ``bytes_per_sample_hint`` are accepted without effect.

    It is a `ScalarConstant` if value is a bool, int or float (or a numpy scalar or 0-d array), and no device, layout, kwargs, enumeration
    type, or shape other than () and (1,) is given.

    Raises the errors of `constant_array`; RuntimeError if `layout` does not fit the shape; ValueError for an unknown device; KeyError for
    an unknown keyword.
    """
    if layout is None and device is None and not kwargs and _is_one_value(value, dtype, shape):
        return ScalarConstant(value, dtype)
    return ConstantNode(device, value, dtype, shape, layout, **kwargs)


def _is_one_value(value: Any, dtype: Any, shape: Any) -> bool:
    if isinstance(value, ENUM_CLASSES) or constant_shape(shape) not in (None, (), (1,)):
        return False
    if dtype is not None and given_dtype(dtype) in ENUMERATIONS:
        return False
    return not isinstance(value, (list, tuple)) and (array_value(value) is None or np.ndim(value) == 0)


def ConstantNode(device: str | None, value: object, dtype: object, shape: object, layout: str | None, **kwargs: object) -> Any:
    """A node with a constant, also for a scalar.

    `device`, `value`, `dtype`, `shape`, `layout` and the errors are those of :func:`Constant`.
    """
    unknown = [key for key in kwargs if key not in _NODE_ARGUMENTS]
    if unknown:
        allowed = ", ".join(sorted(_NODE_ARGUMENTS))
        raise KeyError(f'Argument "{unknown[0]}" is not defined for operator "Constant"; it takes {allowed}')
    if device not in (None, "cpu", "gpu", "mixed"):
        raise ValueError(f'Invalid device argument "{device}" for Constant. Valid options are "cpu" and "gpu"')
    values, kind = constant_array(value, dtype, shape)
    axes = "" if layout is None else str(layout)
    if axes and len(axes) != values.ndim:
        raise RuntimeError(
            f'Constant: The requested layout "{axes}" has {len(axes)} dimensions, the output shape {values.shape} has {values.ndim}'
        )
    if make_node is None:  # no graph was defined in this process yet; importing the graph sets it
        importlib.import_module("asyncdali.graph")
    assert make_node is not None
    return make_node(values, kind, axes, "gpu" if device in ("gpu", "mixed") else "cpu", name=kwargs.get("name"))
