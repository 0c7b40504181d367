"""readers.sequence: sequences of frames that are stored as image files.

Each PNG frame of a batch is decoded once, in compiled code, and copied to all sequences that have the frame. Jobs in Python decode other
files.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Generator
from typing import Any

import numpy as np

from ...batch import Batch, ReadOnlyMemory
from ...compiled.addresses import address_of
from ...errors import explained
from ...messages.notices import warn
from ...operators.base import (
    REQUIRED,
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    no_explanation,
    register,
)
from ...operators.decode.png_samples import decoded_pngs
from ...types import DALIDataType, DALIImageType
from ..base import READER_ARGS, Draw, Origin, ReaderOperator
from ..containers.containers import RecordNames
from ..containers.indices import read_bytes
from ..digest import names_of
from ..files.batch_files import BatchFiles
from ..files.contents import PathTexts, whole_files
from ..files.file_table import FileTable, sorted_entries
from ..files.reserved_memory import ExpectedSizes
from ..remote.remote import is_remote
from .frame_files import are_final, decode_frame
from .sequence_tables import COPY_FRAMES, JOIN_FRAMES, NUMBER_FRAMES

_EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".pnm", ".ppm", ".pgm", ".pbm", ".jp2", ".webp")
_FEW = 1 << 16
"""So many bytes are copied by the planning thread."""
_TYPES = (DALIImageType.RGB, DALIImageType.BGR, DALIImageType.GRAY, DALIImageType.YCbCr, DALIImageType.ANY_DATA)


@register
class SequenceReader(ReaderOperator):
    schema = Schema(
        name="readers.sequence",
        graphs_only=True,
        doc="""Reads sequences of frames that are image files, decoded (UINT8, FHWC). Deprecated.

        Every directory below `file_root` is a stream; its images in the order of their names are its frames. A sequence has
        `sequence_length` frames, `stride` apart; one starts every `step` frames, as long as it is complete.""",
        inputs=(0, 0),
        outputs=1,
        seeded=True,
        aliases=("sequence_reader",),
        args=(
            Arg("file_root", "str", REQUIRED, "Directory of the streams.", path="read"),
            Arg("sequence_length", "int", REQUIRED, "Frames of a sequence.", stream=True),
            Arg("image_type", "image_type", DALIImageType.RGB, "Colour space of the frames."),
            Arg("step", "int", 1, "Frames between the starts of sequences.", stream=True),
            Arg("stride", "int", 1, "Frames between those of a sequence.", stream=True),
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        for name, title in (("sequence_length", "Sequence length"), ("step", "Step"), ("stride", "Stride")):
            if spec.constant(name) < 1:
                raise ValueError(f"{title} must be positive; `{name}` is {spec.constant(name)}")
        self._type = spec.constant("image_type")
        if self._type not in _TYPES:
            raise ValueError(f"`image_type` is {self._type.name}; frames are decoded as {', '.join(kind.name for kind in _TYPES)}")
        from ...compiled.step import compile_all
        from ..containers import record_kernels
        from ..files import file_kernels
        from . import sequence_kernels

        compile_all(file_kernels)
        record_kernels.lay_out.compile()
        record_kernels.close_all.compile()
        self._kernels = sequence_kernels
        compile_all(sequence_kernels)
        self._expected = ExpectedSizes()
        super().__init__(spec, environment)

    # --- discovery

    def discover(self) -> int:
        root, length, step, stride = (self.spec.constant(name) for name in ("file_root", "sequence_length", "step", "stride"))
        paths = _frame_paths(root)
        if not paths:
            raise RuntimeError(f'Glob for pattern: "{root}/*/*" failed. Verify the file_root argument')
        streams: dict[str, list[str]] = {}
        for path in paths:
            if path.lower().endswith(_EXTENSIONS):
                streams.setdefault(os.path.dirname(path), []).append(path)
            else:
                warn(f"readers.sequence skips {path}: the name is not the name of an image", UserWarning)
        frames: list[str] = []
        starts: list[int] = []
        for names in streams.values():
            last = len(names) - (length - 1) * stride
            starts += range(len(frames), len(frames) + last, step)
            frames += names
        if not starts:
            raise RuntimeError(f"no stream below {root} has the {(length - 1) * stride + 1} frames that a sequence needs")
        self._frames = FileTable.of(frames, np.zeros(len(frames), np.int32))
        self._starts = np.array(starts, np.int64)
        places = np.arange(length) * stride
        self._files = BatchFiles(self, self._frames, lambda samples: (self._starts[samples][:, None] + places).ravel())
        return len(starts)

    def origin_of(self, index: int) -> Origin:
        return Origin(self._frames.path(int(self._starts[index])), part=f"{self.spec.constant('sequence_length')} frames from here")

    def stretches(self, index: int) -> list[Origin]:
        constant = self.spec.constant
        frames = range(int(self._starts[index]), len(self._frames), constant("stride"))[: constant("sequence_length")]
        return [Origin(self._frames.path(frame)) for frame in frames]

    def identity(self) -> list[bytes | np.ndarray]:
        return [names_of(self._frames), self._starts]

    # --- one iteration

    @property
    def any_remote(self) -> bool:
        return self._frames.remote

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8]

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        """Decode the frames, each once: sequences share frames where they overlap. Returns indices and the finished batch."""
        draw = self.draw(iteration, arguments.count)
        order, uses = self._numbered(draw.indices)
        yield from self._files.hints(draw)
        try:
            files = (yield from self._remote(draw, order)) if self._frames.remote else (yield from self._local(order))
            frames = yield from self._decoded(order, files)
        except SampleError as error:
            raise SampleError(int(np.argmax((uses == error.sample).any(1))), str(error)) from error
        batch, context, keep = self._batch(uses, order, frames)
        if batch.owner.nbytes <= _FEW:
            self._kernels.copy_sequences(address_of(context), len(uses))
        else:
            yield CompiledJob(len(uses), [Step(self._kernels.copy_frames.address, context, no_explanation, keep=[*keep, frames, batch])])
        return draw.indices, batch

    def _numbered(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The frames of these sequences, each once, in the order of use; and int64[samples, length] of their numbers in this order.

        The first error then belongs to the first broken sample.
        """
        length, stride = self.spec.constant("sequence_length"), self.spec.constant("stride")
        count = len(indices) * length
        uses, order, bits = np.empty((len(indices), length), np.int64), np.empty(count, np.int64), (2 * count).bit_length()
        slots = np.empty(1 << bits, np.int64)
        context, _ = NUMBER_FRAMES.make(
            indices=indices, starts=self._starts, length=length, stride=stride, order=order, uses=uses, slots=slots, bits=bits
        )
        return order[: self._kernels.number_frames(address_of(context), len(indices))], uses

    def _local(self, order: np.ndarray) -> Generator[PythonJob | CompiledJob, None, Batch]:
        """Jobs that read files. Returns their contents. SampleErrors here and below number the files in `order`."""
        table = self._frames

        def explain(code: int, text: str, k: int) -> str:
            return explained(code, f"{table.path(int(order[k]))}: {_reason(code)}")

        paths = PathTexts(table.paths_at, table.starts[order], table)
        return (yield from whole_files(paths, self._expected, self.environment.allocate, explain, _accept, 0))

    def _remote(self, draw: Draw, order: np.ndarray) -> Generator[PythonJob, None, Batch]:
        """The same for a table with remote files."""
        open_file = self._files.opener(draw)
        found: list[np.ndarray] = [np.empty(0, np.uint8)] * len(order)

        def read(k: int) -> None:
            found[k] = np.frombuffer(read_bytes(self._frames.path(int(order[k])), open_file=open_file), np.uint8)

        yield PythonJob(range(len(order)), read)
        shapes, addresses = np.array([data.shape for data in found], np.int64), np.array([address_of(data) for data in found], np.int64)
        return Batch(shapes, DALIDataType.UINT8, "", addresses, ReadOnlyMemory(found))

    def _decoded(self, order: np.ndarray, files: Batch) -> Generator[PythonJob | CompiledJob, None, Batch]:
        """Jobs that decode files. Returns the frames, HWC."""
        every = np.arange(len(order))
        stored = yield from decoded_pngs(files, files.shapes[:, 0], every, self._type, self.environment.allocate)
        if len(stored.samples) == len(order) and are_final(stored.pixels.shapes[:, 2], self._type):
            return stored.pixels
        images, frames = stored.images(), [np.empty(0, np.uint8)] * len(order)

        def decode(k: int) -> None:
            try:
                frames[k] = decode_frame(files.sample(k), self._type, images.get(k))
            except ValueError as error:
                raise SampleError(k, f"{self._frames.path(int(order[k]))}: {error}") from error

        yield PythonJob(range(len(order)), decode)
        shapes, addresses = np.array([frame.shape for frame in frames], np.int64), [address_of(frame) for frame in frames]
        return Batch(shapes, DALIDataType.UINT8, "HWC", np.array(addresses, np.int64), frames)

    def _batch(self, uses: np.ndarray, order: np.ndarray, frames: Batch) -> tuple[Batch, np.ndarray, list[Any]]:
        """A batch of sequences with memory, the table of the copies that fill it, and what the table needs. SampleError for frames of
        different sizes in a sequence.

        `uses`: the numbers of the frames in `order`, whose pixels are `frames`.
        """
        samples, length = uses.shape
        places, extents, sizes = np.empty_like(uses), np.empty((samples, 4), np.int64), np.empty(samples, np.int64)
        shapes = np.ascontiguousarray(frames.shapes)
        joined, _ = JOIN_FRAMES.make(
            uses=uses, length=length, shapes=shapes, addresses=frames.addresses, frames=places, extents=extents, sizes=sizes
        )
        other = self._kernels.join_frames(address_of(joined), samples)
        if other >= 0:
            sample = other // length
            of_frames = int(uses[sample, 0]), int(uses.ravel()[other])
            one, two = (f"{self._frames.path(int(order[k]))} is {tuple(shapes[k].tolist())}" for k in of_frames)
            raise SampleError(sample, f"frames of one sequence must be of one size: {one}, {two}")
        batch = Batch(extents, DALIDataType.UINT8, "FHWC")
        batch.reserve(self.environment.allocate)
        context, keep = COPY_FRAMES.make(frames=places, length=length, sizes=sizes, outputs=batch.addresses)
        return batch, context, keep

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        indices, batch = iteration.prepared
        batch.source_info = RecordNames(self._frames.path, self._starts[indices])
        return Planned([batch])


def _accept(sizes: np.ndarray) -> None:
    """Empty files are left to the decoder, which reports the error."""


def _reason(code: int) -> str:
    from ..files.file_kernels import SHORT_READ

    return "the file became shorter while it was read" if code == SHORT_READ else os.strerror(code)


def _frame_paths(root: str) -> list[str]:
    """The entries of the directories of `root` without hidden ones, in byte order of the whole paths."""
    if not is_remote(root):
        return sorted(glob.glob(os.path.join(glob.escape(root), "*", "*")), key=os.fsencode)
    folders = [entry.name for entry in sorted_entries(root) if entry.is_dir() and not entry.name.startswith(".")]
    found = [f"{root}/{folder}/{entry.name}" for folder in folders for entry in sorted_entries(f"{root}/{folder}")
             if not entry.name.startswith(".")]  # fmt: skip
    return sorted(found, key=os.fsencode)
