"""readers.caffe2: images, labels and further tensors of Caffe2's TensorProtos records in LMDB databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...errors import refuse_where
from ...operators.base import REQUIRED, Arg, CompiledJob, Environment, SampleError, Schema, Spec, Step, no_explanation, register
from ...types import DALIDataType
from ..base import READER_ARGS, Reading
from ..containers.containers import Fetched
from .caffe2_tables import PARSE_TENSORS, TENSOR, WRITE_TENSORS
from .lmdb import LmdbReader

SINGLE, SPARSE, DENSE, WEIGHTED, NONE = range(5)
"""Values of `label_type`."""

_TENSORS_OF_LABEL = {SINGLE: 1, SPARSE: 1, DENSE: 1, WEIGHTED: 2, NONE: 0}
_NAMES = {1: "FLOAT", 2: "INT32", 3: "BYTE", 4: "STRING", 10: "INT64"}
_MOST = 1 << 31
word = TENSOR.word


def _outputs(constants: dict[str, Any]) -> int:
    image, label = constants.get("image_available", True), constants.get("label_type", SINGLE) != NONE
    result: int = max(1, image + label + max(0, constants.get("additional_inputs", 0)) + constants.get("bbox", False))
    return result


@register
class Caffe2Reader(LmdbReader):
    schema = Schema(
        name="readers.caffe2",
        doc="""Reads images and labels from LMDB databases of Caffe2 ``TensorProtos`` records, in the order of their keys.

        A record holds, in this order, the image, the label (`label_type` 3: indices, then weights), `additional_inputs` tensors and the
        bounding box. Outputs: the image as an encoded file (1-D UINT8), or HWC if it is stored as BYTE; the label; the additional vectors;
        the box (INT32, shape (4,)).

        `label_type`: 0, one number (INT32 or FLOAT as stored, shape (1,)); 1, indices, which give `num_labels` zeros and ones; 2, a
        vector as stored; 3, indices and weights, which give `num_labels` numbers (FLOAT); 4, no label and no output for it.""",
        inputs=(0, 0),
        outputs=_outputs,
        seeded=True,
        aliases=("caffe2_reader",),
        args=(
            Arg("path", "str_list", REQUIRED, "Directories of LMDB databases; they are read one after another.", path="read"),
            Arg("num_labels", "int", 1, "Length of the label of types 1 and 3."),
            Arg("label_type", "int", SINGLE, "0 single, 1 sparse, 2 dense, 3 weighted sparse, 4 none."),
            Arg("image_available", "bool", True, "Whether records have an image."),
            Arg("additional_inputs", "int", 0, "Number of further tensors of a record."),
            Arg("bbox", "bool", False, "Whether records have a bounding box."),
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        from ...compiled.step import compile_all
        from . import caffe2_kernels, lmdb_kernels

        self._kernels = caffe2_kernels
        compile_all(caffe2_kernels)
        compile_all(lmdb_kernels)
        constant = spec.constant
        self._image, self._bbox, self._more = constant("image_available"), constant("bbox"), constant("additional_inputs")
        self._type, self._labels = constant("label_type"), constant("num_labels")
        if self._type not in _TENSORS_OF_LABEL:
            raise ValueError(f"`label_type` is {self._type}; it must be 0 to 4")
        if self._more < 0:
            raise ValueError(f"`additional_inputs` is {self._more}; it cannot be negative")
        if not 1 <= self._labels < _MOST:
            raise ValueError(f"`num_labels` is {self._labels}; it must be at least 1")
        self._tensors = self._image + _TENSORS_OF_LABEL[self._type] + self._more + self._bbox
        if self._tensors == 0:
            raise RuntimeError("no image, label, additional input or bounding box is requested: the reader would have no outputs")
        super().__init__(spec, environment)

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        label: list[DALIDataType | None] = [] if self._type == NONE else [DALIDataType.FLOAT if self._type == WEIGHTED else None]
        image: list[DALIDataType | None] = [DALIDataType.UINT8] * self._image
        return image + label + [None] * self._more + [DALIDataType.INT32] * self._bbox

    def read(self, indices: np.ndarray) -> Reading:
        found = np.zeros((len(indices), self._tensors, TENSOR.words), np.int64)

        def parse(fetched: Fetched) -> list[Step]:
            context, keep = PARSE_TENSORS.make(addresses=fetched.addresses, sizes=fetched.sizes, tensors=self._tensors, found=found)
            return [Step(self._kernels.parse_tensors.address, context, self._explain(indices), keep=keep)]

        fetched, job = self.fetch(indices, parse)
        yield job
        tensors = found.swapaxes(0, 1)
        numbers = [self._vector(indices, tensors[k], k) for k in range(self._image, self._tensors)]
        if numbers:
            yield self._write(found, numbers)
        outputs = [self._images(fetched, tensors[0])] if self._image else []
        if self._type in (SPARSE, WEIGHTED):
            used = _TENSORS_OF_LABEL[self._type]
            outputs += [self._scattered(indices, numbers[:used]), *numbers[used:]]
        else:
            outputs += numbers
        for output in outputs:
            output.source_info = self.names(indices)
        return outputs

    # --- images

    def _images(self, fetched: Fetched, found: np.ndarray) -> Batch:
        kind = self._one_type(fetched.indices, found, (self._kernels.STRING, self._kernels.BYTE), "image")
        addresses, sizes = found[:, word.data_address], found[:, word.data_length]
        if kind == self._kernels.STRING:
            self._check(fetched.indices, found[:, word.numbers] < 1, lambda sample: "the image has no data")
            return self.view(fetched, addresses.copy(), sizes.reshape(-1, 1).copy(), DALIDataType.UINT8)
        shapes, dimensions = found[:, TENSOR.columns("extent")].copy(), found[:, word.dimensions]
        shapes[dimensions == 2, 2] = 1
        fits = ((shapes >= 0) & (shapes < _MOST)).all(1) & ((dimensions == 2) | (dimensions == 3))
        plane = np.where(fits, shapes[:, 0] * shapes[:, 1], 0)
        fits &= plane <= sizes
        wrong = ~fits | (np.where(fits, plane * shapes[:, 2], -1) != sizes)
        self._check(
            fetched.indices, wrong,
            lambda sample: f"Image data size mismatch: {sizes[sample]} bytes, {' x '.join(map(str, shapes[sample]))}",
        )  # fmt: skip
        return self.view(fetched, np.where(sizes > 0, addresses, fetched.addresses), shapes, DALIDataType.UINT8)

    # --- numbers

    def _vector(self, indices: np.ndarray, found: np.ndarray, k: int) -> Batch:
        """Room for the numbers of one tensor of the record."""
        label = k < self._image + _TENSORS_OF_LABEL[self._type]
        box = self._bbox and k == self._tensors - 1
        kernels = self._kernels
        if box:
            allowed: tuple[int, ...] = (kernels.INT32,)
        elif label and self._type == WEIGHTED and k == self._image + 1:
            allowed = (kernels.FLOAT,)
        elif label:
            allowed = (kernels.INT32, kernels.INT64) if self._type in (SPARSE, WEIGHTED) else (kernels.INT32, kernels.FLOAT)
        else:
            allowed = (kernels.FLOAT, kernels.INT32, kernels.INT64)
        kind = self._one_type(indices, found, allowed, "label" if label else "bounding box" if box else "additional input")
        counts = found[:, word.numbers]
        exactly = 4 if box else 1 if label and self._type == SINGLE else None
        if exactly is not None:
            what = "bounding box" if box else "label"
            self._check(indices, counts != exactly, lambda sample: f"a {what} has {exactly} values, the record has {counts[sample]}")
        dtype = {kernels.FLOAT: DALIDataType.FLOAT, kernels.INT32: DALIDataType.INT32, kernels.INT64: DALIDataType.INT64}[kind]
        batch = Batch(counts.reshape(-1, 1).copy(), dtype)
        batch.reserve(self.environment.allocate)
        return batch

    def _scattered(self, indices: np.ndarray, numbers: list[Batch]) -> Batch:
        """Zeros, with ones or the weights at the given indices."""
        places = [numbers[0].sample(k) for k in range(len(indices))]
        counts = np.array([len(place) for place in places])
        flat = np.concatenate(places).astype(np.int64)
        rows = np.repeat(np.arange(len(indices)), counts)
        wrong = (flat < 0) | (flat >= self._labels)
        if wrong.any():
            at = int(np.argmax(wrong))
            sample = int(rows[at])
            raise SampleError(
                sample, f"{self.origin(int(indices[sample]))}: Label index out of bounds: {flat[at]} (num_labels: {self._labels})"
            )
        if self._type == SPARSE:
            dense = self._zeros(len(indices), np.int64 if numbers[0].dtype == DALIDataType.INT64 else np.int32)
            dense[rows, flat] = 1
            return Batch.from_values(dense)
        weights = numbers[1].shapes[:, 0]
        self._check(indices, weights != counts, lambda sample: f"{counts[sample]} label indices, but {weights[sample]} weights")
        dense = self._zeros(len(indices), np.float32)
        dense[rows, flat] = np.concatenate([numbers[1].sample(k) for k in range(len(indices))])
        return Batch.from_values(dense)

    def _zeros(self, count: int, dtype: Any) -> np.ndarray:
        limits.check_size(count * self._labels * np.dtype(dtype).itemsize, f"num_labels={self._labels}")
        return np.zeros((count, self._labels), dtype)

    def _write(self, found: np.ndarray, numbers: list[Batch]) -> CompiledJob:
        which = np.arange(self._image, self._tensors, dtype=np.int64)
        targets = np.array([batch.addresses.ctypes.data for batch in numbers], np.int64)
        context, keep = WRITE_TENSORS.make(found=found, tensors=self._tensors, count=len(numbers), which=which, targets=targets)
        return CompiledJob(len(found), [Step(self._kernels.write_tensors.address, context, no_explanation, keep=[*keep, numbers])])

    # --- checks

    def _one_type(self, indices: np.ndarray, found: np.ndarray, allowed: tuple[int, ...], what: str) -> int:
        """The type that this tensor has in all samples."""
        kinds = found[:, word.type]
        self._check(
            indices, ~np.isin(kinds, allowed),
            lambda sample: f"Unsupported {what} data type {_NAMES.get(int(kinds[sample]), kinds[sample])}; "
            f"supported are {' or '.join(_NAMES[kind] for kind in allowed)}",
        )  # fmt: skip
        self._check(indices, kinds != kinds[0], lambda sample: f"Inconsistent data: the {what} has another type than in sample 0")
        return int(kinds[0])

    def _check(self, indices: np.ndarray, wrong: np.ndarray, message: Callable[[int], str]) -> None:
        refuse_where(wrong, lambda sample: f"{self.origin(int(indices[sample]))}: {message(sample)}")

    def _explain(self, indices: np.ndarray) -> Callable[[int, str, int], str]:
        def explain(code: int, text: str, sample: int) -> str:
            index = int(indices[sample])
            where = f"{self.origin(index)} (raw data length: {self.records.sizes[index]} bytes)"
            if code == self._kernels.COUNT:
                return f"{where}: the record does not hold the {self._tensors} tensors that the arguments require"
            return f"Error while parsing Caffe2 file: {where}."

        return explain
