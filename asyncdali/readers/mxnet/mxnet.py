"""readers.mxnet: images and labels from RecordIO files."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator

import numpy as np

from ...batch import Batch, ReadOnlyMemory
from ...operators.base import REQUIRED, Arg, CompiledJob, Environment, PythonJob, Schema, Spec, Step, no_explanation, register
from ...types import DALIDataType
from ..base import READER_ARGS, SHUFFLE_AFTER_EPOCH_ARGS, Reading
from ..containers.compressed import named_compression
from ..containers.containers import ContainerReader, Containers, Fetched, Records
from ..containers.indices import parse_pairs, read_text
from ..containers.record_tables import COPY_PARTS
from ..remote.remote import read_part
from .mxnet_tables import IMAGE_RECORD, PARSE_RECORD

word = IMAGE_RECORD.word


@register
class MXNetReader(ContainerReader):
    schema = Schema(
        name="readers.mxnet",
        doc="""Reads (image, labels) pairs from RecordIO files, as MXNet's ``im2rec`` and ``IndexedRecordIO`` write them.

        The index has one line ``key offset`` per record; offsets count through all files of `path`. Outputs: the bytes of the image (1-D
        UINT8) and the labels (FLOAT, shape (1,) or as many as the record has).""",
        inputs=(0, 0),
        outputs=2,
        seeded=True,
        aliases=("mxnet_reader",),
        args=(
            Arg("path", "str_list", REQUIRED, "RecordIO files; offsets of the index count through all of them in this order.", path="read"),
            Arg("index_path", "str_list", REQUIRED, "The index file, exactly one.", path="read"),
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        from ...compiled.step import compile_all
        from . import mxnet_kernels

        self._kernels = mxnet_kernels
        compile_all(mxnet_kernels)
        if len(spec.constant("index_path")) != 1:
            raise RuntimeError("RecordIOReader supports only a single index file")
        super().__init__(spec, environment)

    # --- discovery

    def locate(self, containers: Containers) -> Records:
        index = self.spec.constant("index_path")[0]
        data = read_text(index, "index file")
        if not data.strip():
            raise RuntimeError(f"RecordIO index file doesn't contain any indices. Provided path: {index}")
        starts = np.unique(parse_pairs(data, index)[:, 1])  # sorted, without duplicates
        ends = np.cumsum(containers.sizes)
        total = int(ends[-1])
        if starts[-1] >= total:
            raise RuntimeError(
                f"Incomplete or corrupted record files: {index} has a record at {starts[-1]}, "
                f"{', '.join(containers.paths)} hold {total} bytes"
            )
        files = np.searchsorted(ends, starts, side="right")
        sizes = np.diff(starts, append=total)
        within = np.minimum(sizes, ends[files] - starts)
        self._beyond = sizes - within  # bytes of a record in the following files
        self._file_starts = ends - containers.sizes
        return Records(np.bincount(files, minlength=len(ends)), starts - self._file_starts[files], within)

    # --- one iteration

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8, DALIDataType.FLOAT]

    def read(self, indices: np.ndarray) -> Reading:
        found = np.empty((len(indices), IMAGE_RECORD.words), np.int64)
        beyond = self._beyond[indices]
        if beyond.any():
            fetched, job = self.fetch(indices, room=beyond, in_place=False)
            yield job
            yield PythonJob(np.flatnonzero(beyond).tolist(), lambda sample: self._read_on(fetched, sample, int(beyond[sample])))
            fetched.sizes = fetched.sizes + beyond
            yield CompiledJob(len(indices), self._parse(fetched, found))
        else:
            fetched, job = self.fetch(indices, lambda fetched: self._parse(fetched, found))
            yield job
            if fetched.in_place and not found[:, word.image_address].all():
                yield self._join(fetched, found)
        image = self.view(fetched, found[:, word.image_address].copy(), _column(found, word.image_length), DALIDataType.UINT8)
        labels = self._labels(fetched, found)
        if fetched.in_place and labels.owner is fetched.owner:
            labels = yield from self._own_labels(labels)
        return [image, labels]

    def _parse(self, fetched: Fetched, found: np.ndarray, which: int | None = None) -> list[Step]:
        kernels = self._kernels
        if which is None:
            which = kernels.IN_PLACE if fetched.in_place else kernels.ALL
        context, keep = PARSE_RECORD.make(addresses=fetched.addresses, sizes=fetched.sizes, found=found, which=which)
        return [Step(kernels.parse_record.address, context, self._explain(fetched.indices), keep=keep)]

    def _join(self, fetched: Fetched, found: np.ndarray) -> CompiledJob:
        """Records in several parts are copied, because their parts must be joined and a mapped file is read-only."""
        unjoined = found[:, word.image_address] == 0
        copied, job = self.fetch(
            fetched.indices, lambda copied: self._parse(copied, found, self._kernels.UNJOINED), in_place=False, only=unjoined
        )
        fetched.owner = ReadOnlyMemory(fetched.owner, copied.owner)
        return job

    def _own_labels(self, labels: Batch) -> Generator[CompiledJob, None, Batch]:
        """The labels in memory of their own, because numbers in a file may be unaligned."""
        own = Batch(labels.shapes, labels.dtype, source_info=labels.source_info)
        own.reserve(self.environment.allocate)
        context, keep = COPY_PARTS.make(sources=labels.addresses, sizes=own.sizes(), targets=own.addresses)
        yield CompiledJob(len(own), [Step(self._reading.copy_part.address, context, no_explanation, keep=[*keep, labels, own])])
        return own

    def _labels(self, fetched: Fetched, found: np.ndarray) -> Batch:
        addresses, counts = found[:, word.labels_address].copy(), _column(found, word.labels_count)
        if (counts != 1).any():
            return self.view(fetched, addresses, counts, DALIDataType.FLOAT)
        values = found[:, word.label].astype(np.int32).view(np.float32)
        vectors = np.flatnonzero(addresses - found[:, word.image_address] == -4)  # a label after the header counts
        for k in vectors:
            values[k] = self.view(fetched, addresses, counts, DALIDataType.FLOAT).sample(int(k))[0]
        batch = Batch.from_values(values.reshape(-1, 1))
        batch.source_info = self.names(fetched.indices)
        return batch

    def _read_on(self, fetched: Fetched, sample: int, count: int) -> None:
        """The rest of a record, in the files after the one in which it starts."""
        assert self._containers is not None and isinstance(fetched.owner, np.ndarray)
        file = int(self.records.files(fetched.indices[sample : sample + 1])[0]) + 1
        at = int(fetched.addresses[sample] + fetched.sizes[sample]) - fetched.owner.ctypes.data
        while count:
            part = min(count, int(self._containers.sizes[file]))
            data = read_part(self._containers.paths[file], 0, part)
            if len(data) < part:
                raise RuntimeError(f"Error reading from a file {self._containers.paths[file]}: the file ends before the record does")
            fetched.owner[at : at + part] = np.frombuffer(data, np.uint8)
            file, at, count = file + 1, at + part, count - part

    def _explain(self, indices: np.ndarray) -> Callable[[int, str, int], str]:
        kernels = self._kernels
        reasons = {
            kernels.BAD_MAGIC: "Invalid RecordIO: wrong magic number",
            kernels.BAD_LENGTH: "Invalid RecordIO file: a part is longer than the record",
            kernels.BAD_PARTS: "Invalid RecordIO file: the parts of the record are not first, middle and last",
            kernels.TOO_SHORT: "Invalid RecordIO file: the record is too short for its header and labels",
        }

        def explain(code: int, text: str, sample: int) -> str:
            index = int(indices[sample])
            hint = named_compression(self.container_path(index)) if code == kernels.BAD_MAGIC else ""
            reason = reasons.get(code) or os.strerror(code)
            return f"{reason}: {self.origin(index)} (record {index}, {self.records.sizes[index]} bytes){hint}"

        return explain


def _column(found: np.ndarray, place: int) -> np.ndarray:
    """A word of all records, int64[samples, 1]."""
    return found[:, place].reshape(-1, 1).copy()
