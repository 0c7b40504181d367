"""readers.numpy: arrays from .npy files, whole or in part."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator

import numpy as np

from ...batch import Batch, from_numpy_dtype
from ...codecs.npy_header_tables import NPY_HEADER
from ...codecs.npy_headers import data_bytes, element_dtype, fortran_strides, reasons
from ...compiled.addresses import address_of, zero_words
from ...errors import explained
from ...operators.base import Arg, Arguments, CompiledJob, Environment, PythonJob, SampleError, Schema, Spec, Step, refuse_where, register
from ...operators.crop.slice_rules import slice_windows
from ...types.saturate import saturated
from ..base import READER_ARGS, SHUFFLE_AFTER_EPOCH_ARGS, Draw, Reading, place_aligned
from ..containers.compressed import named_compression
from ..containers.containers import BLOCK, RecordNames
from ..files.contents import MAX_OPEN, advise
from ..files.listed import ListedReader, listing_args
from .npy_tables import OPEN_ARRAYS, READ_ARRAYS

word = NPY_HEADER.word

_POLICIES = ("error", "pad", "trim_to_shape")
_ROI = ("roi_start", "rel_roi_start", "roi_end", "rel_roi_end", "roi_shape", "rel_roi_shape")


class _Region:
    """The arguments of a slice, with the names of this reader."""

    def __init__(self, arguments: Arguments):
        self._arguments, self.count = arguments, arguments.count

    def given(self, name: str) -> bool:
        return name == "axes" or (name != "axis_names" and self._arguments.given(_roi_name(name)))

    def rows(self, name: str, lengths: np.ndarray, default: np.ndarray, dtype: object = np.float32) -> np.ndarray:
        return self._arguments.rows(_roi_name(name), lengths, default, dtype)

    def chosen_axes(self, name: str, ndim: int) -> tuple[np.ndarray, np.ndarray]:
        return self._arguments.chosen_axes("roi_axes", ndim)


def _roi_name(name: str) -> str:
    return f"rel_roi_{name[4:]}" if name.startswith("rel_") else f"roi_{name}"


@register
class NumpyReader(ListedReader):
    schema = Schema(
        name="readers.numpy",
        doc="""Reads arrays from NumPy files (``.npy``, all versions; nothing is ever unpickled).

        With `file_root` alone, files of that directory come first, then those of its sub-directories in byte order. Arrays in
        Fortran order are returned in C order. A region of interest (in NumPy's coordinates) is read without the rest of the file,
        if the file's layout allows it. All arrays of a batch must have the same type and number of dimensions. On the GPU files are
        read as on the CPU, and uploaded.""",
        inputs=(0, 0),
        devices=("cpu", "gpu"),
        uploads=True,
        outputs=1,
        seeded=True,
        aliases=("numpy_reader",),
        args=(
            *listing_args("*.npy"),
            Arg("cache_header_information", "bool", False, "Keep the headers: files are expected not to change."),
            Arg("fill_value", "float", 0.0, 'Value outside of the array, for `out_of_bounds_policy` "pad".'),
            Arg("out_of_bounds_policy", "str", "error", 'Regions beyond the array: "error", "pad" or "trim_to_shape".', choices=_POLICIES),
            Arg("register_buffers", "bool", True, "No effect: GPUDirect Storage is not used.", inert=True),
            Arg("rel_roi_end", "float_list", None, "End of the region, as fractions of the extents.", tensor=True),
            Arg("rel_roi_shape", "float_list", None, "Extents of the region, as fractions of the array's.", tensor=True),
            Arg("rel_roi_start", "float_list", None, "Start of the region, as fractions of the extents.", tensor=True),
            Arg("roi_axes", "int_list", [], "Axes that the region is given for; all by default."),
            Arg("roi_end", "int_list", None, "End of the region.", tensor=True),
            Arg("roi_shape", "int_list", None, "Extents of the region.", tensor=True),
            Arg("roi_start", "int_list", None, "Start of the region.", tensor=True),
            Arg("use_o_direct", "bool", False, "Read past the system's cache; needs `dont_use_mmap`."),
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        from ...compiled.step import compile_all
        from ..containers import record_kernels
        from . import npy_kernels

        self._kernels, self._reading = npy_kernels, record_kernels
        compile_all(npy_kernels)
        record_kernels.lay_out.compile()
        record_kernels.close_all.compile()
        self._policy = spec.constant("out_of_bounds_policy")
        if self._policy not in _POLICIES:
            raise RuntimeError(f"Not supported out_of_bounds_policy: {self._policy}; supported are {', '.join(_POLICIES)}")
        _check_roi(spec)
        self._direct = spec.constant("use_o_direct")
        if self._direct and not spec.constant("dont_use_mmap"):
            raise RuntimeError("Cannot use use_o_direct with `dont_use_mmap=False`.")
        self._in_parts = self._direct or any(spec.given(name) for name in _ROI)
        self._headers: np.ndarray | None = None
        super().__init__(spec, environment)

    # --- one iteration

    def read(self, draw: Draw, arguments: Arguments) -> Reading:
        with self.local_paths(draw) as (paths, starts):
            output = yield from self._read(draw.indices, arguments, paths, starts)
        upcoming = self.ahead(draw)
        if upcoming is not None:
            yield from advise(self.table, upcoming)
        return [output]

    def _read(
        self, indices: np.ndarray, arguments: Arguments, paths: np.ndarray, starts: np.ndarray
    ) -> Generator[PythonJob | CompiledJob, None, Batch]:
        kernels, count = self._kernels, len(indices)
        descriptors, rows = np.full(count, -1, np.int64), self._known(indices)
        files = {"paths": paths, "starts": starts, "descriptors": descriptors}
        ahead = int(self.spec.constant("read_ahead"))
        context, keep = OPEN_ARRAYS.make(
            paths=paths, starts=starts, descriptors=descriptors, headers=rows, may_stay_open=MAX_OPEN, direct=self._direct,
            read_ahead=ahead, scratch=0,
        )  # fmt: skip
        try:
            explain = self._explain(indices)
            yield CompiledJob(count, [Step(kernels.open_array.address, context, explain, kernels.SCRATCH, OPEN_ARRAYS.word.scratch, keep)])
            self._remember(indices, rows)
            output, job = self._elements(indices, rows, arguments, files)
            yield job
        finally:
            self._reading.close_all(address_of(descriptors), count)
        return output

    def _known(self, indices: np.ndarray) -> np.ndarray:
        if not self.spec.constant("cache_header_information"):
            return NPY_HEADER.zeros(len(indices))
        if self._headers is None:
            self._headers = NPY_HEADER.zeros(len(self.table))
        found: np.ndarray = self._headers[indices]
        return found

    def _remember(self, indices: np.ndarray, rows: np.ndarray) -> None:
        if self._headers is not None:
            self._headers[indices] = rows

    def _elements(
        self, indices: np.ndarray, rows: np.ndarray, arguments: Arguments, files: dict[str, np.ndarray]
    ) -> tuple[Batch, CompiledJob]:
        """The output, and the job that reads its elements."""
        whole = None if self._in_parts else self._whole(indices, rows, files)
        if whole is not None:
            return whole
        dtype, ndim = self._common(indices, rows)
        width = dtype.itemsize
        shapes = rows[:, NPY_HEADER.columns("shape")][:, :ndim].copy()
        self._check_sizes(indices, rows, shapes, width)
        anchors, windows = self._regions(arguments, shapes)
        output = Batch(windows, from_numpy_dtype(dtype), source_info=RecordNames(self.table.name, indices))
        output.reserve(self.environment.allocate)
        strides = np.where((rows[:, word.fortran] != 0)[:, None], fortran_strides(shapes, width), _c_strides(shapes, width))
        low = np.clip(anchors, 0, shapes)
        extents = np.clip(anchors + windows, 0, shapes) - low
        empty = (extents <= 0).any(1)
        extents[empty] = 0
        first = np.where(empty, 0, (low * strides).sum(1))
        spans = np.where(empty, 0, ((extents - 1) * strides).sum(1) + width)
        sizes = output.sizes()
        # Read directly into the output if the elements have the same order in the file and in the output.
        targets_in_place = (spans == sizes) & (extents == windows).all(1) & _same_order(extents, strides, width) & (not self._direct)
        offsets = rows[:, word.data] + first
        before = offsets % BLOCK if self._direct else np.zeros_like(offsets)
        needed = np.where(empty, 0, before + spans)
        lengths = -(-needed // BLOCK) * BLOCK if self._direct else needed
        room = np.where(targets_in_place, 0, -(-lengths // BLOCK) * BLOCK)
        block = self.environment.allocate(int(room.sum()) + BLOCK) if room.any() else np.zeros(BLOCK, np.uint8)
        temporary = -(-block.ctypes.data // BLOCK) * BLOCK + np.cumsum(room) - room
        where = np.where(targets_in_place, output.addresses, temporary)
        elements = np.where(targets_in_place, 0, temporary + before)
        filled = np.where((extents == windows).all(1), 0, sizes)
        out_strides = _c_strides(windows, width)
        into = np.where(empty, 0, ((low - anchors) * out_strides).sum(1))
        # A scalar is copied as a row of one element.
        scalar = np.array([[1], [width], [width]], np.int64)
        geometry = np.stack([extents, strides, out_strides], 1) if ndim else np.tile(scalar, (len(rows), 1, 1))
        fill = saturated(np.array([self.spec.constant("fill_value")]), output.dtype).astype(dtype)
        bits = int.from_bytes(fill.tobytes(), "little", signed=False)
        bits -= (bits >> 63) << 64
        context, keep = READ_ARRAYS.make(
            **files, offsets=offsets - before, lengths=lengths, needed=needed, addresses=where, elements=elements,
            outputs=output.addresses, filled=filled, shifts=into, geometry=np.ascontiguousarray(geometry), dimensions=max(1, ndim),
            width=width, fill=bits, direct=self._direct,
        )  # fmt: skip
        step = Step(self._kernels.read_array.address, context, self._explain(indices), keep=[*keep, block])
        return output, CompiledJob(len(rows), [step])

    def _whole(self, indices: np.ndarray, rows: np.ndarray, files: dict[str, np.ndarray]) -> tuple[Batch, CompiledJob] | None:
        """Like :meth:`_elements`, for whole arrays whose elements are already in output order. None if some arrays are different."""
        count = len(rows)
        shapes = np.empty((count, int(rows[0, word.dimensions])), np.int64)
        offsets, sizes = np.empty(count, np.int64), np.empty(count, np.int64)
        if not self._kernels.survey(address_of(rows), count, address_of(shapes), address_of(offsets), address_of(sizes)):
            return None
        dtype = self._dtype(int(rows[0, word.type]), indices, rows[:, word.type])
        output = Batch(shapes, from_numpy_dtype(dtype), source_info=RecordNames(self.table.name, indices))
        place_aligned(output, self.environment.allocate)
        none = zero_words(count)
        context, keep = READ_ARRAYS.make(
            **files, offsets=offsets, lengths=sizes, needed=sizes, addresses=output.addresses, elements=none,
            outputs=output.addresses, filled=none, shifts=none, geometry=none, dimensions=1, width=1, fill=0, direct=0,
        )  # fmt: skip
        step = Step(self._kernels.read_array.address, context, self._explain(indices), keep=keep)
        return output, CompiledJob(count, [step])

    def _common(self, indices: np.ndarray, rows: np.ndarray) -> tuple[np.dtype, int]:
        """Type and number of dimensions that all arrays of the batch have."""
        kinds, dimensions = rows[:, word.type], rows[:, word.dimensions]
        if (kinds == kinds[0]).all() and (dimensions == dimensions[0]).all():
            return self._dtype(int(kinds[0]), indices, kinds), int(dimensions[0])
        found = {int(code): self._dtype(int(code), indices, kinds) for code in np.unique(kinds)}
        order = int(kinds[0])
        refuse_where(
            np.array([found[int(code)] != found[order] for code in kinds]),
            lambda sample: "Inconsistent data: All samples in the batch must have the same data type. "
            f'Got "{self._path(indices, 0)}" with data type {found[order]} and "{self._path(indices, sample)}" '
            f"with {found[int(kinds[sample])]}",
        )
        refuse_where(
            dimensions != dimensions[0],
            lambda sample: "Inconsistent data: All samples in the batch must have the same number of dimensions. "
            f'Got "{self._path(indices, 0)}" with {dimensions[0]} and "{self._path(indices, sample)}" with {dimensions[sample]}',
        )
        return found[order], int(dimensions[0])

    def _dtype(self, code: int, indices: np.ndarray, kinds: np.ndarray) -> np.dtype:
        try:
            return element_dtype(code)
        except ValueError as error:
            sample = int(np.argmax(kinds == code))
            raise SampleError(sample, f"{error}. File: {self._path(indices, sample)}") from None

    def _check_sizes(self, indices: np.ndarray, rows: np.ndarray, shapes: np.ndarray, width: int) -> None:
        volume, absurd = data_bytes(shapes, width)
        data = rows[:, word.file_bytes] - rows[:, word.data]
        refuse_where(
            absurd | (volume > data),
            lambda sample: f"Failed to read file: {self._path(indices, sample)}: the header declares {volume[sample]:.0f} bytes of data, "
            f"the file has {data[sample]}",
        )

    def _regions(self, arguments: Arguments, shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(anchors, extents) of the requested region of each array."""
        if not any(arguments.given(name) for name in _ROI) or not shapes.shape[1]:
            return np.zeros_like(shapes), shapes
        anchors, windows = slice_windows(self.spec, [], _Region(arguments), shapes, "")  # type: ignore[arg-type]
        if self._policy == "trim_to_shape":
            start = np.clip(anchors, 0, shapes)
            return start, np.clip(anchors + windows, start, shapes) - start
        outside = ((anchors < 0) | (anchors + windows > shapes)).any(1)
        if self._policy == "error" and outside.any():
            sample = int(np.argmax(outside))
            raise SampleError(
                sample,
                f"Slice can't be placed out of bounds with current policy. Got: input_shape={shapes[sample].tolist()}, "
                f"slice_anchor={anchors[sample].tolist()}, slice_shape={windows[sample].tolist()}",
            )
        if (windows.astype(np.float64).prod(1) > 2.0**40).any():
            raise SampleError(int(np.argmax(windows.astype(np.float64).prod(1))), "the region has more than 2^40 elements")
        return anchors, windows

    # --- errors

    def _path(self, indices: np.ndarray, sample: int) -> str:
        return self.table.path(int(indices[sample]))

    def _explain(self, indices: np.ndarray) -> Callable[[int, str, int], str]:
        def explain(code: int, text: str, sample: int) -> str:
            from ...codecs.npy_header_kernels import NOT_NUMPY

            known = {**reasons(), self._reading.SHORT_READ: "the file ends before its data does"}
            if code in known:
                path = self._path(indices, sample)
                hint = named_compression(path) if code == NOT_NUMPY else ""
                return f"Failed to read file: {path}: {known[code]}{hint}"
            return explained(code, f"Failed to read file: {self._path(indices, sample)}: {os.strerror(code)}")

        return explain


def _check_roi(spec: Spec) -> None:
    starts = [name for name in ("roi_start", "rel_roi_start") if spec.given(name)]
    ends = [name for name in ("roi_end", "rel_roi_end", "roi_shape", "rel_roi_shape") if spec.given(name)]
    if len(starts) > 1:
        raise RuntimeError('"roi_start" and "rel_roi_start" arguments are mutually exclusive')
    if len(ends) > 1:
        raise RuntimeError('"roi_end", "rel_roi_end", "roi_shape", and "rel_roi_shape" arguments are mutually exclusive')


def _c_strides(shapes: np.ndarray, width: int) -> np.ndarray:
    """Byte strides of each axis; the last axis is contiguous."""
    strides = np.full(shapes.shape, width, np.int64)
    if shapes.shape[1] > 1:
        strides[:, :-1] = np.cumprod(shapes[:, :0:-1], 1)[:, ::-1] * width
    return strides


def _same_order(extents: np.ndarray, strides: np.ndarray, width: int) -> np.ndarray:
    """Whether the elements of each window are contiguous in C order (axes of one element are ignored)."""
    result: np.ndarray = ((strides == _c_strides(extents, width)) | (extents == 1)).all(1)
    return result
