"""Video files: where their frames are, and decoding some of them, through PyAV (FFmpeg's libraries)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np

from .remote import Opener, open_file

MAX_IDLE = 16
"""Videos kept open between sequences, so that the next one need not be sought."""
MAX_PIXELS = 1 << 28
"""Of a frame; what is larger is a broken header."""


def load_av() -> ModuleType:
    """PyAV; RuntimeError that says how to install it."""
    try:
        import av
        import av.video.reformatter
    except ImportError:
        raise RuntimeError("reading videos takes PyAV: install `av` (asyncdali[video])") from None
    return av


@dataclass(frozen=True)
class VideoIndex:
    """One video: `times` of its frames in order of presentation, int64, in units of `tick` seconds; `keys` are the numbers of frames at
    which decoding can start; `rate` in frames per second."""

    path: str
    times: np.ndarray
    keys: np.ndarray
    tick: Fraction
    rate: float
    height: int
    width: int

    def __len__(self) -> int:
        return len(self.times)

    def seconds(self, frames: np.ndarray) -> np.ndarray:
        """Times of frames since the first one, float64."""
        return (self.times[frames] - self.times[0]) * self.tick.numerator / self.tick.denominator

    def key_before(self, frame: int) -> int:
        """The frame at which decoding starts in order to get at `frame`."""
        place = int(np.searchsorted(self.keys, frame, "right")) - 1
        return int(self.keys[place]) if place >= 0 else 0


def index_video(path: str) -> VideoIndex:
    """Find the frames of a file without decoding them; RuntimeError that names the file."""
    av = load_av()
    try:
        with open_file(path) as source, av.open(source) as container:
            stream = _video_stream(container)
            times, keys = _packet_times(container, stream)
            if None in times:  # a container without times of presentation: the decoder knows
                container.seek(0)
                frames = [(frame.pts, frame.key_frame) for frame in container.decode(stream)]
                times, keys = [pts for pts, _ in frames], [pts for pts, key in frames if key]
            if None in times:
                raise ValueError("its frames have no times")
            if not times:
                raise ValueError("it has no frames")
            context = stream.codec_context
            if not 0 < context.height * context.width <= MAX_PIXELS:
                raise ValueError(f"its frames are {context.width}x{context.height}")
            order = np.unique(np.array(times, np.int64))
            rate = stream.average_rate or stream.guessed_rate
            numbers = np.searchsorted(order, np.unique(np.array(keys, np.int64)))
            return VideoIndex(path, order, numbers, stream.time_base, float(rate or 0), context.height, context.width)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise RuntimeError(f'Failed to open video file "{path}": {getattr(error, "strerror", None) or error}') from error


def _video_stream(container: Any) -> Any:
    if not container.streams.video:
        raise ValueError("it has no video stream")
    return container.streams.video[0]


def _packet_times(container: Any, stream: Any) -> tuple[list[int | None], list[int | None]]:
    """Times of all packets that become a frame, and of those that hold a key frame."""
    hidden_frames = stream.codec_context.name in ("vp8", "libvpx")
    times, keys = [], []
    for packet in container.demux(stream):
        if not packet.size or packet.is_discard:
            continue
        if hidden_frames and not memoryview(packet)[0] & 0x10:  # VP8's show_frame
            continue
        times.append(packet.pts)
        if packet.is_keyframe:
            keys.append(packet.pts)
    return times, keys


class OpenVideo:
    """A file that is being decoded; one thread at a time."""

    def __init__(self, index: VideoIndex, open_file: Opener):
        av = self._av = load_av()
        self.index = index
        flags = av.video.reformatter.Interpolation
        self._flags = flags.BILINEAR | flags.FULL_CHR_H_INT | flags.ACCURATE_RND  # DALI's
        self._convert = av.video.reformatter.VideoReformatter()
        try:
            self._source = open_file(index.path)
            self._container = av.open(self._source)
            self._stream = _video_stream(self._container)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise RuntimeError(f"{index.path}: {getattr(error, 'strerror', None) or error}") from error
        self._stream.codec_context.thread_count = 1  # samples are decoded side by side already
        self._frames: Iterator[Any] = self._container.decode(self._stream)
        self._next = 0

    def read(self, wanted: Sequence[int], put: Callable[[int, np.ndarray], None]) -> None:
        """Decode the frames with these numbers (ascending, each once) and give each to ``put(number, uint8[height, width, 3] RGB)``.

        RuntimeError names file and frame.
        """
        number = -1
        try:
            for number in wanted:
                put(number, self._rgb(self._frame(number)))
        except (self._av.FFmpegError, ValueError) as error:
            raise RuntimeError(f"{self.index.path}, frame {number}: {getattr(error, 'strerror', None) or error}") from error

    def _frame(self, number: int) -> Any:
        key = self.index.key_before(number)
        if number < self._next or key > self._next:
            self._seek(key)
        found = self._forward(number)
        if found is None:  # sought too far: not all containers find the key frame asked for
            self._seek(0)
            found = self._forward(number)
        if found is None:
            raise ValueError("it could not be decoded")
        return found

    def _seek(self, key: int) -> None:
        self._container.seek(int(self.index.times[key]), stream=self._stream)
        self._frames, self._next = self._container.decode(self._stream), key

    def _forward(self, number: int) -> Any | None:
        """Decode up to frame `number`; None if it does not come."""
        time = int(self.index.times[number])
        for frame in self._frames:
            if frame.pts is None or frame.pts < time:
                continue
            self._next = number + 1
            return frame if frame.pts == time else None
        self._next = len(self.index)
        return None

    def _rgb(self, frame: Any) -> np.ndarray:
        height, width = self.index.height, self.index.width
        if (frame.height, frame.width) != (height, width):
            raise ValueError(f"it is {frame.width}x{frame.height}, the video is {width}x{height}")
        # Unspecified and any other matrix are taken for BT.601, as DALI does.
        matrix = self._av.video.reformatter.Colorspace.ITU601
        plane = self._convert.reformat(
            frame, format="rgb24", interpolation=self._flags, src_colorspace=matrix, dst_colorspace=matrix, threads=1
        ).planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)
        return rows[:, : 3 * width].reshape(height, width, 3)

    def close(self) -> None:
        self._frames = iter(())
        self._container.close()
        self._source.close()


class VideoPool:
    """Videos that are open but not in use; safe for threads."""

    def __init__(self, indices: Sequence[VideoIndex]):
        self._indices = indices
        self._lock = threading.Lock()
        self._idle: OrderedDict[tuple[int, int], OpenVideo] = OrderedDict()  # (video, a number of its own)
        self._made = 0

    @contextmanager
    def borrow(self, video: int, open_file: Opener) -> Iterator[OpenVideo]:
        """An open video for one thread, opened with `open_file` if none is idle; after an error it is closed."""
        with self._lock:
            key = next((key for key in self._idle if key[0] == video), None)
            opened = self._idle.pop(key) if key is not None else None
        if opened is None:
            opened = OpenVideo(self._indices[video], open_file)
        try:
            yield opened
        except BaseException:
            opened.close()
            raise
        with self._lock:
            self._made += 1
            self._idle[video, self._made] = opened
            surplus = [self._idle.popitem(last=False)[1] for _ in range(len(self._idle) - MAX_IDLE)]
        for old in surplus:
            old.close()

    def close(self) -> None:
        """Close what is not in use; the pool can be used again."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
        for opened in idle:
            opened.close()
