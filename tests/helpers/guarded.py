"""Runs operators over inputs of every type, rank and layout, in memory that ends at guard pages.

A wrong kernel kills the process, so :func:`examine` runs the cases in another one::

    python -m helpers.guarded every|some|few FIRST NAME...

This program runs the cases of the named operators from number FIRST on. Before each case it writes the number of the case to the beginning
of standard error (a file). At the end it prints the fields of a :class:`Report` as a JSON object.
"""

from __future__ import annotations

import ctypes
import io
import itertools
import json
import linecache
import mmap
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asyncdali.batch import Batch, storage_dtype
from asyncdali.errors import InputError
from asyncdali.operators import load_registry
from asyncdali.operators.accepts import Input, declared
from asyncdali.operators.base import Arguments, CompiledJob, Environment, Gate, Iteration, Operator, Spec, Step
from asyncdali.types import DALIDataType, DALIImageType

_PAGE = mmap.PAGESIZE
_MARK, _MARKED = 0xA5, 256
_DIGITS, _MOST_BUGS, _FEW = 12, 20, 83
_REFUSALS = (ValueError, TypeError, RuntimeError)
COUNT = 2
"""Samples of a batch."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Arena:
    """Pieces of memory, each with marked bytes before it and a guard page behind it."""

    def __init__(self, slots: int = 64, size: int = 16 * _PAGE):
        self._size = size
        self._slots = [self._slot(size) for _ in range(slots)]
        self._used: list[tuple[np.ndarray, int]] = []
        self._next = 0

    @staticmethod
    def _slot(size: int) -> np.ndarray:
        memory = np.frombuffer(mmap.mmap(-1, size + _PAGE), np.uint8)
        if _libc.mprotect(memory.ctypes.data + size, _PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        return memory[:size]

    def take(self, size: int) -> np.ndarray:
        """uint8[size] that ends where the guard page begins."""
        if size + _MARKED > self._size or self._next == len(self._slots):
            slot = self._slot(-(-(size + _MARKED) // _PAGE) * _PAGE)
        else:
            slot = self._slots[self._next]
            self._next += 1
        begin = len(slot) - size
        slot[begin - _MARKED :] = _MARK
        self._used.append((slot, begin))
        return slot[begin:]

    def check(self) -> None:
        """AssertionError if bytes before a piece were overwritten."""
        for slot, begin in self._used:
            assert (slot[begin - _MARKED : begin] == _MARK).all(), "bytes before a sample were written to"

    def clear(self) -> None:
        self._used.clear()
        self._next = 0


# --- cases


@dataclass
class Call:
    """A way to call an operator: constant arguments, number of inputs, and shapes and contents of inputs where these matter."""

    constants: dict[str, Any] = field(default_factory=dict)
    inputs: int = 1
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    contents: dict[int, Any] = field(default_factory=dict)


_BOXES = np.float32([[0.1, 0.2, 0.6, 0.7], [0.0, 0.0, 1.0, 1.0], [0.4, 0.1, 0.5, 0.3]])
_MATRIX = [1.0, 0.0, 0.5, 0.0, 1.0, 0.5]
_AFFINE = np.float32([[1, 0, 0.5], [0, 1, 0.5]])
_RGB = DALIImageType.RGB


def _npy(array: np.ndarray) -> np.ndarray:
    """The bytes of a NumPy file."""
    file = io.BytesIO()
    np.save(file, array)
    return np.frombuffer(file.getvalue(), np.uint8)


_ARRAY_FILE = _npy(np.float32([[1.5, -2.5, 7]]))
_SOUND = np.frombuffer(
    b"RIFF\x2a\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0"
    b"data\x06\0\0\0\0\x10\0\x20\0\x30", np.uint8,
)
_PICTURE = np.frombuffer(b"P6 4 3 255\n" + bytes(range(36)), np.uint8)


CALLS: dict[str, list[Call]] = {
    "_arithmetic_generic_op": [
        Call({"op": "add", "operands": [0, [1, int(DALIDataType.INT32)]]}), Call({"op": "mul", "operands": [0, 1]}, 2),
        Call({"op": "fdiv", "operands": [0, 1]}, 2), Call({"op": "and", "operands": [0, 1]}, 2),
    ],
    "_conditional.merge": [], "_conditional.merge_by_index": [], "_conditional.split": [], "_conditional.split_by_index": [],
    "_table_row": [Call({"table": np.arange(40.0).reshape(20, 2), "dtype": DALIDataType.FLOAT64})],
    "_tensor_subscript": [Call({"count": 1, "at_0": 0}), Call({"count": 2, "lo_1": 1, "step_1": 2}), Call({"new_axes": [0]})],
    "audio_resample": [Call({"scale": 0.7}), Call({"out_length": 9})],
    "bbox_paste": [Call({"ratio": 1.5})],
    "bbox_rotate": [
        Call({"angle": 30.0, "input_shape": [8, 9]}, 1, {0: (3, 4)}, {0: _BOXES}),
        Call({"angle": 30.0, "input_shape": [8, 9]}, 2, {0: (3, 4), 1: (3,)}, {0: _BOXES}),
    ],
    "bb_flip": [Call({}, 1, {0: (3, 4)})],
    "box_encoder": [Call({"anchors": [0.1, 0.1, 0.5, 0.5, 0.2, 0.2, 0.9, 0.9]}, 2, {0: (3, 4), 1: (3,)}, {0: _BOXES})],
    "cast": [Call({"dtype": DALIDataType.INT16}), Call({"dtype": DALIDataType.FLOAT})],
    "cat": [Call({}, 1), Call({"axis": -1}, 2)],
    "clahe": [Call({"clip_limit": 2.0, "tiles_x": 2, "tiles_y": 2})],
    "color_space_conversion": [Call({"image_type": _RGB, "output_type": DALIImageType.GRAY})],
    "coord_flip": [Call({}, 1, {0: (5, 2)})],
    "coord_transform": [Call(), Call({"M": [1.0, 2.0, 3.0], "T": [1.0]})],
    "crop": [
        Call({"crop": [3, 2]}),
        Call({"crop": [9, 9], "out_of_bounds_policy": "pad"}),
        Call({"crop": [9, 9], "out_of_bounds_policy": "reflect_101"}),
    ],
    "crop_mirror_normalize": [
        Call({"crop": [3, 2], "output_layout": ""}), Call({"mirror": 1, "output_layout": "", "pad_output": True}), Call({"crop": [3, 3]}),
    ],
    "debayer": [Call({"blue_position": [0, 1]})],
    "decoders.audio": [
        Call({}, 1, {0: _SOUND.shape}, {0: _SOUND}),
        Call({"downmix": True, "sample_rate": 16000.0}, 1, {0: _SOUND.shape}, {0: _SOUND}),
    ],
    "decoders.image": [Call({}, 1, {0: _PICTURE.shape}, {0: _PICTURE})],
    "decoders.image_crop": [Call({"crop": [2, 2]}, 1, {0: _PICTURE.shape}, {0: _PICTURE})],
    "decoders.image_random_crop": [Call({}, 1, {0: _PICTURE.shape}, {0: _PICTURE})],
    "decoders.image_slice": [
        Call({"start": [1, 1], "shape": [2, 2]}, 1, {0: _PICTURE.shape}, {0: _PICTURE}),
        Call({}, 3, {0: _PICTURE.shape, 1: (2,), 2: (2,)}, {0: _PICTURE, 1: [0, 1], 2: [1, 1]}),
    ],
    "decoders.numpy": [
        Call({}, 1, {0: _ARRAY_FILE.shape}, {0: _ARRAY_FILE}),
        Call({"dtype": DALIDataType.INT16}, 1, {0: _ARRAY_FILE.shape}, {0: _ARRAY_FILE}),
    ],
    "decoders.inflate": [Call({"shape": [4]})],
    "element_extract": [Call({"element_map": [0, 1]})],
    "erase": [Call({"anchor": [1.0, 0.0], "shape": [2.0, 1.0], "axes": [0, 1]}), Call({"anchor": [1.0, 0.0], "shape": [2.0, 1.0]})],
    "expand_dims": [Call({"axes": [0]}), Call({"axes": [1], "new_axis_names": "Q"})],
    "experimental.numba_function": [],
    "experimental.resize": [Call({"size": [3.0]})],
    "experimental.warp_perspective": [
        Call({"matrix": [1.0, 0.0, 0.5, 0.0, 1.0, 0.5, 0.0, 0.0, 1.0]}), Call({}, 2, {1: (3, 3)}, {1: np.eye(3, dtype=np.float32)}),
    ],
    "filter": [
        Call({}, 2), Call({"mode": "valid"}, 2, {1: (1,)}), Call({"border": "constant"}, 3, {1: (3, 2), 2: ()}), Call({}, 2, {1: (3, 2)}),
        Call({}, 2, {1: (3, 3, 3)}),
    ],
    "full": [Call({"shape": [2, 3, 5]})],
    "gaussian_blur": [Call({"sigma": 1.0}), Call({"window_size": [3]})],
    "get_property": [Call({"key": "layout"}), Call({"key": "source_info"})],
    "grid_mask": [Call({"tile": 3})],
    "lookup_table": [Call({"keys": [0, 3], "values": [5.0, 6.0]})],
    "mfcc": [Call(), Call({"axis": 1})],
    "multi_paste": [Call({"in_ids": [0, 1]}), Call({}, 2)],
    "nonsilent_region": [Call({"window_length": 3, "reset_interval": -1})],
    "normalize": [Call(), Call({"axes": [0]}), Call({"batch": True}), Call({"axis_names": "C"})],
    "one_hot": [Call({"num_classes": 4}), Call({"num_classes": 4, "axis": 0})],
    "optical_flow": [
        Call({"image_type": _RGB}), Call({"enable_external_hints": True}, 2, {0: (2, 6, 4, 3), 1: (1, 2, 1, 2)}),
    ],
    "pad": [Call(), Call({"axes": [0], "shape": [9]}), Call({"align": [4]})],
    "paste": [Call({"fill_value": [1], "ratio": 1.5})],
    "peek_image_shape": [Call({}, 1, {0: _PICTURE.shape}, {0: _PICTURE})],
    "permute_batch": [Call({"indices": [1, 0]})],
    "dl_tensor_python_function": [],
    "python_function": [Call({"function": abs})],
    "random.choice": [Call(), Call({"shape": [3]}), Call({}, 2)],
    "random_bbox_crop": [Call({}, 1, {0: (3, 4)}, {0: _BOXES}), Call({}, 2, {0: (3, 4), 1: (3,)}, {0: _BOXES})],
    "random_crop_generator": [Call({}, 1, {0: (3,)}, {0: np.array([7, 8, 3])})],
    "random_resized_crop": [Call({"size": [3]})],
    "reinterpret": [
        Call({"dtype": DALIDataType.UINT8}),
        Call({"dtype": DALIDataType.INT16}),
        Call({"rel_shape": [-1.0]}),
        Call({}, 2, {1: (1,)}, {1: [-1]}),
    ],
    "reshape": [Call({"shape": [-1]}), Call({"src_dims": [-1, 0]}), Call({"layout": "AB"}), Call({}, 2, {1: (1,)}, {1: [-1]})],
    "reductions.std_dev": [Call({}, 2, {1: ()}), Call({"axes": [0]}, 2, {1: (1,)})],
    "reductions.variance": [Call({}, 2, {1: ()}), Call({"axes": [0]}, 2, {1: (1,)})],
    "reductions.sum": [Call(), Call({"axes": [0]}), Call({"axes": [-1], "keep_dims": True}), Call({"axis_names": "C"})],
    "resize": [Call({"size": [3.0]}), Call({"resize_x": 9.0}), Call({"resize_shorter": 3.0, "save_attrs": True})],
    "resize_crop_mirror": [Call({"resize_x": 6.0, "crop": [3, 3], "mirror": 1})],
    "roi_random_crop": [Call({"crop_shape": [2, 2], "roi_start": [0, 1], "roi_end": [3, 3]})],
    "rotate": [Call({"angle": 30.0}), Call({"angle": 30.0, "axis": [1.0, 0.0, 0.5], "keep_size": True})],
    "segmentation.select_masks": [
        Call({}, 3, {0: (2,), 1: (3, 3), 2: (5, 2)}, {0: [1, 0], 1: [[0, 0, 2], [1, 2, 4], [2, 0, 1]]}),
    ],
    "sequence_rearrange": [Call({"new_order": [1, 0, 1]})],
    "slice": [
        Call({"start": [1], "shape": [1], "axes": [0]}),
        Call({"rel_start": [0.5], "rel_end": [2.0], "axes": [0], "out_of_bounds_policy": "pad"}),
        Call({"start": [-2], "shape": [9], "axes": [0], "out_of_bounds_policy": "reflect_101"}),
        Call({}, 3, {1: (2,), 2: (2,)}, {1: [0, 1], 2: [1, 1]}),
        Call({"start": [0], "shape": [1], "axis_names": "C"}),
    ],
    "spectrogram": [Call({"window_length": 4, "window_step": 2})],
    "squeeze": [Call({"axes": [0]}, 1), Call({"axis_names": "C"})],
    "ssd_random_crop": [Call({}, 3, {1: (3, 4), 2: (3,)}, {1: _BOXES})],
    "stack": [Call({}, 1), Call({"axis": -1, "axis_name": "Q"}, 2)],
    "tensor_resize": [Call({"sizes": [4.0]}), Call({"scales": [1.5], "axes": [0]})],
    "transforms.combine": [Call({}, 2, {0: (2, 3), 1: (2, 3)}, {0: _AFFINE, 1: _AFFINE})],
    "transforms.crop": [Call({}, 1, {0: (1, 2)})],
    "transforms.rotation": [Call({"angle": 30.0}, 1, {0: (2, 3)})],
    "transforms.scale": [Call({"scale": [2.0, 3.0]}, 1, {0: (2, 3)})],
    "transforms.shear": [Call({"shear": [2.0, 3.0]}, 1, {0: (2, 3)})],
    "transforms.translation": [Call({"offset": [2.0, 3.0]}, 1, {0: (2, 3)})],
    "transpose": [Call(), Call({"perm": [1, 0, 2]}), Call({"output_layout": "AB"})],
    "warp_affine": [
        Call({"matrix": _MATRIX}),
        Call({}, 2, {1: (2, 3)}, {1: _AFFINE}),
        Call({"matrix": [*_MATRIX, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]}),
    ],
}  # fmt: skip
"""Calls of operators that need arguments or special inputs. Operators with an empty list are tested elsewhere: branches of conditionals in
test_conditionals.py, users' functions in test_numba_function.py and test_python_function.py."""

_EXTENTS = {"F": 2, "D": 3, "H": 6, "W": 4, "C": 3, "f": 5}
_PLAIN = (6, 4, 3, 2, 2)
_GENERIC = "ABEGI"


def calls(name: str, schema: Any) -> list[Call]:
    """The ways to call an operator."""
    if name in CALLS:
        return CALLS[name]
    least, most = schema.inputs
    return [Call({}, count) for count in range(max(1, least), min(most, max(len(schema.accepts), least, 1)) + 1)]


def layouts(accepted: Input, rank: int, every: bool) -> list[str]:
    """Layouts to try on data with this number of dimensions: none, good ones, wrong ones, and some with repeated letters."""
    found = ["", "FDHWC"[-rank:] if rank else "", "HWC"[:rank] if rank < 4 else "FDHWC"[:rank], _GENERIC[:rank]]
    found += [text for text in accepted.layouts.text.split(", ") if len(text) == rank and text.isalpha()]
    found += ["FCCHW"[:rank], "HWW"[:rank], "C" * rank, "F" * rank, "ft"[:rank], "F" + _GENERIC[1:rank] if rank else ""]
    good = [layout for layout in dict.fromkeys(found) if len(layout) in (0, rank)]
    return good if every else [layout for layout in good if accepted.layouts.test(layout or " ") or layout in ("", "FCCHW", "HWW", "CC")]


@dataclass(frozen=True)
class Case:
    """One input of an operator has this type, rank and layout; the others are valid."""

    name: str
    call: int
    position: int
    dtype: DALIDataType
    rank: int
    layout: str
    empty: str  # "", "first axis", "last axis", "batch"


def cases(names: list[str], every: bool) -> Iterator[Case]:
    """All cases, in a fixed order. Without `every`: all but two of the accepted element types only for the first rank."""
    registry = load_registry()
    for name in names:
        schema = registry[name].schema
        for number, call in enumerate(calls(name, schema)):
            for position in range(call.inputs):
                accepted = declared(schema.accepts, position)
                busy = [DALIDataType.UINT8, DALIDataType.FLOAT] if set(accepted.types) & {DALIDataType.UINT8, DALIDataType.FLOAT} else []
                for rank in range(6):
                    for layout, dtype in itertools.product(layouts(accepted, rank, every), DALIDataType):
                        if not every and dtype in accepted.types and dtype not in (busy or accepted.types[:1]):
                            continue
                        for empty in ("", "first axis", "last axis", "batch")[: 4 if rank else 1] if dtype in accepted.types else ("",):
                            yield Case(name, number, position, dtype, rank, layout, empty)


def extents_of(accepted: Input, call: Call, position: int, rank: int, layout: str) -> tuple[int, ...]:
    """The shape of a sample with this number of dimensions."""
    given = call.shapes.get(position)
    if given is not None and len(given) == rank:
        return given
    letters = layout or (accepted.layouts.assumed(rank) or "")
    extents = tuple(_EXTENTS.get(letter, 4) for letter in letters) if letters else _PLAIN[:rank]
    if accepted.name == "mosaics":
        extents = tuple(1 if letter == "C" else extent for letter, extent in zip(letters or _GENERIC, extents))
    return extents if rank else ()


def usual(accepted: Input, call: Call, position: int) -> tuple[DALIDataType, tuple[int, ...]]:
    """Type and shape of a valid sample: UINT8 or FLOAT and three dimensions, where these are accepted."""
    dtype = accepted.types[0] if DALIDataType.FLOAT not in accepted.types else DALIDataType.FLOAT
    dtype = DALIDataType.UINT8 if DALIDataType.UINT8 in accepted.types else dtype
    ranks = [rank for rank in range(6) if _accepts_rank(accepted, rank)]
    given = call.shapes.get(position)
    rank = len(given) if given is not None else 3 if 3 in ranks else ranks[-1]
    return dtype, extents_of(accepted, call, position, rank, "")


# --- running


class Runner:
    """Runs cases; an operator is made once for all cases of a call."""

    def __init__(self) -> None:
        self.arena = Arena()
        self._made: tuple[Any, Operator, Gate] | None = None

    def operator(self, case: Case) -> Operator:
        key = (case.name, case.call)
        if self._made is None or self._made[0] != key:
            cls = load_registry()[case.name]
            call = calls(case.name, cls.schema)[case.call]
            constants = {name: cls.schema.by_name[name].convert(value) for name, value in call.constants.items()}
            spec = Spec(
                cls.schema, case.name, "cpu", constants, (), call.inputs, cls.schema.output_count(constants, call.inputs),
                1 if cls.schema.seeded else None,
            )  # fmt: skip
            self._made = key, cls(spec, Environment(COUNT, 1, None, False, self.arena.take)), None  # type: ignore[assignment]
        return self._made[1]  # type: ignore[index]

    def run(self, case: Case) -> bool:
        """Returns True for a result and False for a refusal. Raises AssertionError, or any other exception, for a bug."""
        operator = self.operator(case)
        call = calls(case.name, operator.schema)[case.call]
        count = 0 if case.empty == "batch" else COUNT
        inputs = [self.batch(operator, call, case, position, count) for position in range(call.inputs)]
        before = [[batch.sample(i).tobytes() for i in range(count)] for batch in inputs]
        try:
            outputs = self._outputs(operator, inputs, count)
        except InputError:
            return False
        except _REFUSALS as error:
            assert _was_raised(error), f"{type(error).__name__}: {error}, by accident"
            return False
        except Exception as error:
            if type(error).__name__ == "SampleError":
                return False
            raise
        self.arena.check()
        assert before == [[batch.sample(i).tobytes() for i in range(count)] for batch in inputs], "an input was written to"
        self._check_outputs(operator, inputs, outputs)
        return True

    def batch(self, operator: Operator, call: Call, case: Case, position: int, count: int) -> Batch:
        """An input in guarded memory: the input of the case, or a valid one."""
        accepted = declared(operator.schema.accepts, position)
        chosen = position == case.position or position in _followers(operator, case, position)
        if chosen:
            dtype, rank, layout = case.dtype, case.rank, case.layout
        else:
            dtype, shape = usual(accepted, call, position)
            rank, layout = len(shape), ""
        extents = list(extents_of(accepted, call, position, rank, layout))
        if chosen and case.empty in ("first axis", "last axis"):
            extents[0 if case.empty == "first axis" else -1] = 0
        shapes = np.tile(np.array(extents, np.int64), (count, 1)).reshape(count, rank)
        batch = Batch(shapes, dtype, layout)
        storage = storage_dtype(dtype)
        addresses = batch.addresses
        pieces = []
        for i in range(count):
            piece = self.arena.take(int(np.prod(extents)) * storage.itemsize)
            data = piece.view(storage)
            numbers = np.arange(data.size) % 7
            data[:] = numbers / 8 if storage.kind == "f" else numbers % 2 if storage.kind == "b" else numbers
            content = call.contents.get(position)
            if content is not None and np.shape(content) == tuple(extents):
                data[:] = np.asarray(content).reshape(-1).astype(storage)
            addresses[i] = piece.ctypes.data
            pieces.append(piece)
        batch.owner = pieces
        return batch

    def _outputs(self, operator: Operator, inputs: list[Batch], count: int) -> list[Batch]:
        operator.infer([batch.dtype for batch in inputs])
        Gate(operator).check(inputs, {}, count)
        arguments = Arguments(operator.spec, {}, count)
        iteration = Iteration(0, count, position=operator.start)
        preparation = operator.prepare(inputs, arguments, iteration)
        if not isinstance(preparation, tuple):
            iteration.prepared = self._prepared(preparation)
        planned = operator.plan(inputs, arguments, iteration)
        for output in planned.outputs:
            if output.owner is None and output.alias_of is None:
                self._place(output)
        for step in planned.steps:
            self._run(step, count)
        return planned.outputs

    def _prepared(self, preparation: Any) -> Any:
        while True:
            try:
                job = next(preparation)
            except StopIteration as end:
                return end.value
            if isinstance(job, CompiledJob):
                for step in job.steps:
                    self._run(step, job.count)
            else:
                for sample in job.samples:
                    job.work(sample)

    def _place(self, output: Batch) -> None:
        sizes = output.checked_sizes().tolist()
        assert sum(sizes) < 1 << 24, f"an output of {sum(sizes)} bytes"
        output.owner = [self.arena.take(size) for size in sizes]
        for i, piece in enumerate(output.owner):
            output.addresses[i] = piece.ctypes.data

    def _run(self, step: Step, count: int) -> None:
        scratch = self.arena.take(-(-step.scratch_bytes // 64) * 64)
        thread = np.array([scratch.ctypes.data, step.scratch_bytes, 0, 0], np.int64)
        step.place_scratch(0)
        function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(step.function)
        for sample in range(count):
            status = function(step.context.ctypes.data, sample, thread.ctypes.data)
            if status:
                raise RuntimeError(step.explain(status, "", sample))

    @staticmethod
    def _check_outputs(operator: Operator, inputs: list[Batch], outputs: list[Batch]) -> None:
        for k, output in enumerate(outputs):
            assert len(output.layout) in (0, output.ndim), f"output {k} of {output.ndim} dimensions has the layout {output.layout}"
            for i in range(len(output)):
                output.sample(i).tobytes()
            wanted = declared(operator.schema.gives, k).expected(operator.spec, inputs, operator.accepts())
            found = {"type": output.dtype, "rank": output.ndim, "layout": output.layout}
            for what, value in wanted.items():
                if what == "layout" and not found[what]:
                    continue  # dropped, where the input has none
                assert found[what] == value, f"output {k} has the {what} {found[what]!r}, declared is {value!r}"


def _accepts_rank(accepted: Input, rank: int) -> bool:
    return (accepted.ranks is None or rank in accepted.ranks) and accepted.layouts.assumed(rank) is not None


def _followers(operator: Operator, case: Case, position: int) -> tuple[int, ...]:
    """The inputs that must be made like the first one: (position,) or ()."""
    return (position,) if declared(operator.schema.accepts, position).like and case.position == 0 else ()


def _was_raised(error: BaseException) -> bool:
    """Whether a `raise` statement of the package raised the error. An error raised by numpy or Python is not a refusal."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    file = trace.tb_frame.f_code.co_filename
    return linecache.getline(file, trace.tb_lineno).strip().startswith("raise") or file == __file__


@dataclass
class Report:
    """The results of the cases of some operators: texts of bugs, and per operator the numbers of results and refusals."""

    bugs: list[str] = field(default_factory=list)
    results: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)


def examine(mode: str, names: list[str], timeout: float = 500.0) -> Report:
    """Run the cases of operators in another process, and in a new one after each case that kills it.

    mode   "every" case; "some": of the element types that an operator accepts two; "few": one in 83 of these
    """
    total, first = Report(), 0
    folder = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}
    while len(total.bugs) < _MOST_BUGS:
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryDirectory() as scratch:  # dump_image writes into the working directory
            command = [sys.executable, "-m", "helpers.guarded", mode, str(first), *names]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=errors, cwd=scratch, env=environment, timeout=timeout, check=False
            )
            errors.seek(0)
            said = errors.read()
        if done.returncode == 0:
            report = json.loads(done.stdout)
            return Report(total.bugs + report["bugs"], Counter(report["results"]), Counter(report["refusals"]))
        number = int(said[:_DIGITS])
        case = next(itertools.islice(cases(names, mode == "every"), number, None))
        reason = "killed by signal" if done.returncode < 0 else f"{said[_DIGITS:].decode()}\nexit status"
        total.bugs.append(f"{case}: {reason} {abs(done.returncode)}")
        first = number + 1
    return total


def main(arguments: list[str]) -> None:
    """See the module docstring."""
    warnings.simplefilter("ignore")
    mode, first, *names = arguments
    runner, bugs, results, refusals = Runner(), [], Counter(), Counter()
    for number, case in enumerate(cases(names, mode == "every")):
        if number < int(first) or (mode == "few" and number % _FEW):
            continue
        os.pwrite(2, f"{number:{_DIGITS}}".encode(), 0)
        runner.arena.clear()
        try:
            made = runner.run(case)
            (results if made else refusals)[case.name] += 1
        except Exception as error:
            bugs.append(f"{case}: {type(error).__name__}: {error}")
    print(json.dumps({"bugs": bugs[:_MOST_BUGS], "results": results, "refusals": refusals}))


if __name__ == "__main__":
    main(sys.argv[1:])
