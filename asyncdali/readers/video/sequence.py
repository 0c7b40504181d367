"""readers.sequence: sequences of frames that are stored as image files."""

from __future__ import annotations

import glob
import os

import numpy as np

from ..._notices import warn
from ...batch import Batch
from ...operators.base import (
    REQUIRED,
    Arg,
    Arguments,
    Environment,
    Iteration,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    register,
)
from ...types import DALIDataType, DALIImageType
from ..base import READER_ARGS, ReaderOperator
from ..containers.containers import RecordNames
from ..digest import names_of
from ..files.batch_files import BatchFiles
from ..files.file_table import FileTable, sorted_entries
from ..remote.remote import is_remote

_EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".pnm", ".ppm", ".pgm", ".pbm", ".jp2", ".webp")
_MUCH = 1 << 20
"""Batches with more bytes are copied by all threads."""
_TYPES = (DALIImageType.RGB, DALIImageType.BGR, DALIImageType.GRAY, DALIImageType.YCbCr, DALIImageType.ANY_DATA)


@register
class SequenceReader(ReaderOperator):
    schema = Schema(
        name="readers.sequence",
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

    def identity(self) -> list[bytes | np.ndarray]:
        return [names_of(self._frames), self._starts]

    # --- one iteration

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8]

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        """Decode the frames, each once: sequences share frames where they overlap. Returns indices and the finished batch."""
        from . import frame_files

        draw = self.draw(iteration, arguments.count)
        length = self.spec.constant("sequence_length")
        wanted = self._files.numbers(draw.indices)
        order = list(dict.fromkeys(wanted.tolist()))  # in the order of use: the first error then belongs to the first broken sample
        frames: dict[int, np.ndarray] = {}
        open_file = self._files.opener(draw)

        def decode(k: int) -> None:
            frame = order[k]
            try:
                frames[frame] = frame_files.read_frame(self._frames.path(frame), self._type, open_file)
            except Exception as error:
                raise SampleError(int(np.argmax(wanted == frame)) // length, str(error)) from error

        yield from self._files.hints(draw)
        yield PythonJob(range(len(order)), decode)
        batch = self._batch(wanted.reshape(-1, length).tolist(), frames)

        def copy(sample: int) -> None:
            np.stack([frames[frame] for frame in wanted[sample * length : (sample + 1) * length].tolist()], out=batch.sample(sample))

        if batch.owner.nbytes > _MUCH:
            yield PythonJob(range(len(batch)), copy)
        else:
            for sample in range(len(batch)):
                copy(sample)
        return draw.indices, batch

    def _batch(self, sequences: list[list[int]], frames: dict[int, np.ndarray]) -> Batch:
        """A batch of sequences, given by the numbers of their frames; with memory, not filled yet. SampleError for different sizes."""
        shapes = []
        for sample, (first, *others) in enumerate(sequences):
            shape = frames[first].shape
            for other in others:
                if frames[other].shape != shape:
                    paths = self._frames.path(first), self._frames.path(other)
                    message = f"{paths[0]} is {shape}, {paths[1]} is {frames[other].shape}"
                    raise SampleError(sample, f"frames of one sequence must be of one size: {message}")
            shapes.append((1 + len(others), *shape))
        batch = Batch(np.array(shapes, np.int64).reshape(-1, 4), DALIDataType.UINT8, "FHWC")
        batch.reserve(self.environment.allocate)
        return batch

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        indices, batch = iteration.prepared
        batch.source_info = RecordNames(self._frames.path, self._starts[indices])
        return Planned([batch])


def _frame_paths(root: str) -> list[str]:
    """The entries of the directories of `root` without hidden ones, in byte order of the whole paths."""
    if not is_remote(root):
        return sorted(glob.glob(os.path.join(glob.escape(root), "*", "*")), key=os.fsencode)
    folders = [entry.name for entry in sorted_entries(root) if entry.is_dir() and not entry.name.startswith(".")]
    found = [f"{root}/{folder}/{entry.name}" for folder in folders for entry in sorted_entries(f"{root}/{folder}")
             if not entry.name.startswith(".")]  # fmt: skip
    return sorted(found, key=os.fsencode)
