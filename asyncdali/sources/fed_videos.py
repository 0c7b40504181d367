"""Videos that are fed to a pipeline, and the parts of them that iterations decode."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import numpy as np

from ..batch import Batch
from ..codecs.video.video_frames import OpenVideo, open_video
from ..codecs.video.video_padding import MISSING
from ..operators.base import SampleError
from ..types import DALIDataType
from .ports import Port

if TYPE_CHECKING:
    from ..device.cuda.fed_arrays import FedArrays
    from ..graph.plan import PlannedOperator
    from ..tensors.data import Allocate


class Film:
    """One encoded video, uint8[bytes], that is decoded in parts. Raises ValueError for data that is no video."""

    def __init__(self, data: np.ndarray):
        self._data = data
        self._lock = threading.Lock()  # several iterations may decode parts at the same time
        self._opened: OpenVideo | None = open_video(io.BytesIO(data.data))
        self.index = self._opened.index

    def read(self, first: int, output: Batch) -> None:
        """Decode consecutive sequences from the frame `first` on. Frames behind the end are 0. SampleError for a broken frame.

        The decoder stays open at its position, because the next part usually follows.
        """
        with self._lock:
            if self._opened is None:
                self._opened = OpenVideo(self.index, io.BytesIO(self._data.data))
            try:
                for sample, length in enumerate(output.shapes[:, 0].tolist()):
                    frames = np.arange(first, first + length)
                    frames[frames >= len(self.index)] = MISSING
                    try:
                        self._opened.read(frames, output.sample(sample), [0])
                    except ValueError as error:
                        raise SampleError(sample, f"broken video: {error}") from None
                    first += length
            except BaseException:
                self._opened.close()
                self._opened = None
                raise
            if first >= len(self.index):
                self._opened.close()
                self._opened = None


class FilmPart(Batch):
    """The sequences of one iteration, without memory: their shapes, and their first frames in the video."""

    __slots__ = ("film", "first")

    def __init__(self, film: Film, first: int, lengths: list[int]):
        index = film.index
        shapes = np.array([(length, index.height, index.width, 3) for length in lengths], np.int64)
        super().__init__(shapes, DALIDataType.UINT8, "FHWC")
        self.film, self.first = film, first


class FilmPort(Port):
    """The input of ``experimental.inputs.video``. The program feeds videos; every iteration takes as many sequences as a batch has samples.

    `position` is the number of sequences that iterations took from the current video. A checkpoint keeps it; after a restore the program
    feeds that video and the following ones again.
    """

    stateful = True
    position: int

    def __init__(self, planned: PlannedOperator, batch_size: int, allocate: Allocate, arrays: FedArrays | None = None):
        super().__init__(planned, batch_size, allocate, arrays)
        constant = planned.spec.constant
        self._length: int = constant("sequence_length")
        self._padded = constant("last_sequence_policy") == "pad"
        self._film: Film | None = None
        self.position = 0

    # --- checks

    def take_in(self, batch: Batch, layout: str | None = None) -> Batch:
        """The first sample of a batch, which must be an encoded video. Further samples are ignored, as in DALI. Raises RuntimeError."""
        batch = super().take_in(batch, layout)
        if not len(batch) or batch.ndim != 1 or batch.dtype != DALIDataType.UINT8:
            found = f"{len(batch)} samples of {batch.ndim} dimensions and type {batch.dtype.name}" if len(batch) else "no sample"
            raise RuntimeError(
                f"The input {self.name!r} takes one encoded video at a time: a batch of one sample, 1-D UINT8, such as [bytes]; got {found}"
            )
        return batch

    def drop(self) -> None:
        super().drop()
        self._film, self.position = None, 0

    # --- iterations

    def has_data(self) -> bool:
        return self._film is not None or super().has_data()

    def take(self) -> Batch | Exception:
        """The next part of the current or the next video. Returns (does not raise) an error if there is none, or if it is no video."""
        if self._film is None:
            fed = super().take()
            if isinstance(fed, Exception):
                return fed
            try:
                self._film = Film(fed.sample(0))
            except ValueError as error:
                self.position = 0
                return RuntimeError(f"The input {self.name!r} dropped the data that was fed, because it is not a video: {error}")
        film, frames = self._film, len(self._film.index)
        first = self.position * self._length
        if first >= frames:
            self._film, taken = None, self.position
            self.position = 0
            return RuntimeError(
                f"The checkpoint was taken after {taken} sequences of a video; the video fed now has {frames} frames. "
                "Feed the video that was being decoded, then the following videos."
            )
        stop = min(first + self.batch_size * self._length, frames)
        lengths = [self._length if self._padded else min(self._length, stop - at) for at in range(first, stop, self._length)]
        self.position += len(lengths)
        if stop == frames:
            self._film, self.position = None, 0
        return FilmPart(film, first, lengths)

    # --- checkpoints

    @property
    def before(self) -> int:
        """Equal to `position`, because nothing is decoded ahead of its use."""
        return self.position

    def settle(self) -> None:
        """Errors do not move the position."""

    def save(self, position: int) -> int:
        """The position as JSON data."""
        return position

    def load(self, data: object) -> int:
        """Go to the position that was saved as `data`. ValueError if `data` is no position."""
        if type(data) is not int or data < 0:
            raise ValueError(f"{data!r} is not the position of a video input; expected the number of sequences taken")
        self.position = int(data)
        return self.position
