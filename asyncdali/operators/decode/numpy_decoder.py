"""decoders.numpy: NumPy files in memory as arrays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...batch import Batch, Extents, dense_shapes, from_numpy_dtype, storage_dtype
from ...codecs.compressed import compression_of
from ...codecs.npy_header_tables import NPY_HEADER
from ...codecs.npy_headers import data_bytes, element_dtype, fortran_strides, reasons
from ...compiled.addresses import address_of
from ...types import DALIDataType
from ..accepts import ANY_RANK, CHOSEN, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, Step, refuse_where, register
from ..moves.pieces import Pieces, dense_strides

word = NPY_HEADER.word

_TYPES = tuple(from_numpy_dtype(np.dtype(kind)) for kind in ("b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"))


@register
class DecodeNumpy(Operator):
    repeatable = True
    reads = (0,)
    schema = Schema(
        name="decoders.numpy",
        input_names=("data",),
        doc="""Decodes NumPy files (``.npy``, all versions; nothing is ever unpickled).

        Input: the bytes of a file (UINT8 or INT8, usually 1-D). Output: its array, always in C order. Elements are booleans,
        integers or floats, little-endian. All arrays of a batch must have the same number of dimensions, and one type unless
        `dtype` is given; elements are converted as by `cast`. Broken files are an error that names the sample and its source.""",
        accepts=(Input((DALIDataType.UINT8, DALIDataType.INT8), name="NumPy files", ranks=ANY_RANK),),
        gives=(Output(CHOSEN, CHOSEN, ""),),
        args=(Arg("dtype", "dtype", None, "Element type of the output; by default the type of the files."),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._dtype: DALIDataType | None = spec.constant("dtype")
        if self._dtype is not None and self._dtype not in _TYPES:
            raise ValueError(f"Unsupported output type: {self._dtype.name}. Supported types are: {', '.join(kind.name for kind in _TYPES)}")
        from ...compiled.step import compile_all
        from . import numpy_decoder_kernels

        self._kernels = numpy_decoder_kernels
        compile_all(numpy_decoder_kernels)

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self._dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        if not len(source):  # Without a sample, the type and the number of dimensions are unknown.
            return Planned([Batch(np.empty((0, 0), np.int64), DALIDataType.NO_TYPE if self._dtype is None else self._dtype)])
        rows = self._read_headers(source)
        first = rows[0].tobytes()
        if rows.tobytes() == first * len(rows) and not rows[0, word.fortran]:  # the usual case: one copy per sample
            dtype, shapes, extents = _equal_arrays(first, len(rows))
            if self._dtype is None or storage_dtype(self._dtype) == dtype:
                wanted = from_numpy_dtype(dtype) if self._dtype is None else self._dtype
                output = Batch(shapes, wanted, source_info=source.source_info)
                output.extents = extents
                step = self._kernels.make_copy_step(source.addresses + rows[0, word.data], output.addresses, extents.sizes)
                step.keep = [*step.keep, source]
                return Planned([output], [step])
        types = _element_types(rows)
        shapes, fortran = _shapes(rows), rows[:, word.fortran] != 0
        _check_sizes(rows, shapes, types)
        found = {dtype: np.array([own == dtype for own in types]) for dtype in dict.fromkeys(types)}
        if self._dtype is None and len(found) > 1:
            other = next(k for k, own in enumerate(types) if own != types[0])
            different = f"{types[other]}, sample 0 has {types[0]}"
            raise SampleError(other, f"All samples must have the same type unless `dtype` is given, but got differing types: {different}")
        wanted = from_numpy_dtype(types[0]) if self._dtype is None else self._dtype
        output = Batch(shapes, wanted, source_info=source.source_info)
        data = source.addresses + rows[:, word.data]
        return Planned([output], [step for dtype, own in found.items() for step in self._steps(output, dtype, data, own, fortran, source)])

    def _read_headers(self, source: Batch) -> np.ndarray:
        """An NPY_HEADER per sample; SampleError for a sample that is not a NumPy file."""
        kernels, count = self._kernels, len(source)
        rows, sizes = NPY_HEADER.zeros(count), source.sizes()
        if kernels.read_headers(address_of(source.addresses), address_of(sizes), address_of(rows), count) < count:
            sample = int(np.argmax(rows[:, word.status] != 1))
            if not sizes[sample]:
                raise SampleError(sample, "the sample is empty")
            code = int(rows[sample, word.status])
            hint = compression_of(source.sample(sample).tobytes()[:8]) if code == kernels.NOT_NUMPY else ""
            raise SampleError(sample, reasons()[code] + hint)
        return rows

    def _steps(self, output: Batch, dtype: np.dtype, data: np.ndarray, own: np.ndarray, fortran: np.ndarray, source: Batch) -> list[Step]:
        """Steps for the samples whose elements are of `dtype` (`own`: bool[samples])."""
        stored = Batch(output.shapes, from_numpy_dtype(dtype), "", data, source)
        target = storage_dtype(output.dtype)
        if dtype == target:
            return [self._moved(stored, output, own, fortran)]
        counts = np.where(own, output.shapes.prod(axis=1), 0)
        if not (own & fortran).any():
            return [self._kernels.make_cast_step(data, output.addresses, counts, dtype, target)]
        ordered = Batch(output.shapes, stored.dtype)
        ordered.reserve(self.environment.allocate)
        cast = self._kernels.make_cast_step(ordered.addresses, output.addresses, counts, dtype, target)
        cast.keep = [*cast.keep, ordered]
        return [self._moved(stored, ordered, own, fortran), cast]

    def _moved(self, stored: Batch, output: Batch, own: np.ndarray, fortran: np.ndarray) -> Step:
        """The step that rearranges elements of the samples `own` in C order."""
        width = stored.itemsize
        strides = np.where(fortran[:, None], fortran_strides(stored.shapes, width), dense_strides(stored.shapes, width))
        pieces = Pieces(output)
        if output.ndim:
            pieces.add(stored, np.where(own[:, None], output.shapes, 0), strides)
        else:  # Scalars get an axis of extent 1.
            steps = np.full((len(output), 1), width)
            pieces.add(stored, own[:, None].astype(np.int64), steps, targets=steps)
        return pieces.step(self._kernels.copy_step)


@lru_cache(64)
def _equal_arrays(header: bytes, count: int) -> tuple[np.dtype, np.ndarray, Extents]:
    """Element type, shapes and sizes of `count` arrays with this header (an NPY_HEADER). Cached, because the files of a data set often have
    the same header. SampleError if the header is wrong, TooLarge if an array is."""
    rows = np.frombuffer(header, np.int64).reshape(1, -1)
    types, shapes = _element_types(rows), _shapes(rows)
    _check_sizes(rows, shapes, types)
    dense = dense_shapes(count, tuple(shapes[0].tolist()))
    return types[0], dense, Extents.of(dense, from_numpy_dtype(types[0]))


def _element_types(rows: np.ndarray) -> list[np.dtype]:
    """The element type of each array."""
    known: dict[int, np.dtype] = {}
    for code in np.unique(rows[:, word.type]).tolist():
        try:
            known[code] = element_dtype(code)
        except ValueError as error:
            raise SampleError(int(np.argmax(rows[:, word.type] == code)), str(error)) from None
    return [known[code] for code in rows[:, word.type].tolist()]


def _shapes(rows: np.ndarray) -> np.ndarray:
    """int64[samples, ndim]; SampleError unless all samples have the same number of dimensions."""
    dimensions = rows[:, word.dimensions]
    other = dimensions != dimensions[0]
    if other.any():
        sample = int(np.argmax(other))
        raise SampleError(sample, f"the array has {dimensions[sample]} dimensions, sample 0 has {dimensions[0]}; the numbers must be equal")
    return rows[:, NPY_HEADER.columns("shape")][:, : int(dimensions[0])].copy()


def _check_sizes(rows: np.ndarray, shapes: np.ndarray, types: list[np.dtype]) -> None:
    volumes, absurd = data_bytes(shapes, np.array([dtype.itemsize for dtype in types]))
    there = rows[:, word.file_bytes] - rows[:, word.data]
    wrong = absurd | (volumes != there)
    refuse_where(wrong, lambda sample: f"the header declares {volumes[sample]:.0f} bytes of data, the file has {there[sample]}")
