"""Types and shapes of the elements of a data set: declared, or found out from the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ...types import DALIDataType

_NUMPY = {
    DALIDataType.UINT8: "uint8", DALIDataType.UINT16: "uint16", DALIDataType.UINT32: "uint32", DALIDataType.UINT64: "uint64",
    DALIDataType.INT8: "int8", DALIDataType.INT16: "int16", DALIDataType.INT32: "int32", DALIDataType.INT64: "int64",
    DALIDataType.FLOAT16: "float16", DALIDataType.FLOAT: "float32", DALIDataType.FLOAT64: "float64", DALIDataType.BOOL: "bool",
}  # fmt: skip


class Signature:
    """Types and shapes of the outputs, and the structure of an element.

    Args:
        pipeline: the pipeline (built).
        dtypes: a tf.DType, or a tuple of them; None: found out.
        shapes: a shape, or a tuple of them; None: only the ranks are known.
        first: returns a batch (a list of arrays). It is called only if the pipeline does not declare the missing types.

    An element is a tensor if `dtypes` is a single one, a dict if the pipeline names its outputs and `dtypes` is None, a tuple otherwise.
    Raises TypeError for invalid types or shapes, ValueError for a wrong number of them.
    """

    def __init__(self, pipeline: Any, dtypes: Any, shapes: Any, first: Callable[[], list[np.ndarray]]):
        count = pipeline.num_outputs
        self.names = pipeline.output_names if dtypes is None else None
        self.single = dtypes is not None and not isinstance(dtypes, (tuple, list))
        given = _each(dtypes, count, "output_dtypes")
        for dtype in given:
            if dtype is not None and not isinstance(dtype, tf.DType):
                raise TypeError(f"output_dtypes are tf.DTypes, got {dtype!r}")
        self.dtypes = _dtypes(given, pipeline, first)
        self.shapes = _shapes(shapes, count, pipeline, first)

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """One TensorSpec per output."""
        return [tf.TensorSpec(shape, dtype) for shape, dtype in zip(self.shapes, self.dtypes, strict=True)]

    def element(self, tensors: Sequence[Any]) -> Any:
        """The outputs as an element."""
        if self.names is not None:
            return dict(zip(self.names, tensors, strict=True))
        return tensors[0] if self.single else tuple(tensors)

    def checked(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A batch. TypeError or ValueError, with the number of the output, if the batch differs from the declaration."""
        for k, (array, dtype, shape) in enumerate(zip(arrays, self.dtypes, self.shapes, strict=True)):
            if array.dtype != dtype.as_numpy_dtype:
                raise TypeError(f"output {k} of the pipeline has elements of type {array.dtype}, output_dtypes says {dtype.name}")
            if not shape.is_compatible_with(array.shape):
                raise ValueError(f"output {k} of the pipeline has shape {array.shape}, output_shapes says {shape}")
        return list(arrays)


def _each(value: object, count: int, what: str) -> list[object]:
    if value is None:
        return [None] * count
    values = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(values) != count:
        raise ValueError(f"{what} has {len(values)} entries, the pipeline has {count} outputs")
    return values


def _dtypes(given: list[Any], pipeline: Any, first: Callable[[], list[np.ndarray]]) -> list[tf.DType]:
    declared = pipeline.output_dtype()
    found = [dtype or (known and tf.as_dtype(_NUMPY[known])) for dtype, known in zip(given, declared, strict=True)]
    if all(found):
        return found
    return [dtype or tf.as_dtype(array.dtype) for dtype, array in zip(found, first(), strict=True)]


def _shapes(shapes: Any, count: int, pipeline: Any, first: Callable[[], list[np.ndarray]]) -> list[tf.TensorShape]:
    one = isinstance(shapes, tf.TensorShape) or (
        isinstance(shapes, (tuple, list)) and count == 1 and all(extent is None or isinstance(extent, int) for extent in shapes)
    )
    given = [shapes] if one else _each(shapes, count, "output_shapes")
    try:
        found = [None if shape is None else tf.TensorShape(shape) for shape in given]
    except (TypeError, ValueError) as error:
        raise TypeError(f"output_shapes are shapes, or a tuple of them, got {shapes!r}") from error
    ranks = pipeline.output_ndim()
    if any(shape is None and rank is None for shape, rank in zip(found, ranks, strict=True)):
        ranks = [array.ndim - 1 for array in first()]
    return [shape if shape is not None else tf.TensorShape([None] * (1 + rank)) for shape, rank in zip(found, ranks, strict=True)]


def arrays_of(outputs: Sequence[Any]) -> list[np.ndarray]:
    """Outputs of a pipeline as arrays. RuntimeError, with the number of the output, if samples differ in shape."""
    found = []
    for k, output in enumerate(outputs):
        output = output.as_cpu()
        if not output.is_dense_tensor():
            shapes = sorted(set(output.shape()))
            raise RuntimeError(f"output {k} has samples of different shapes ({shapes[0]}, {shapes[1]}, ...), which cannot be one tensor")
        found.append(np.asarray(output))
    return found
