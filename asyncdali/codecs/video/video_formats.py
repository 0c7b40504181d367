"""Encoded videos: the positions of frames, and decoding of single frames, through PyAV (FFmpeg's libraries)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from .frame_colours import FrameColours, compile_kernels
from .video_padding import MISSING

MAX_PIXELS = 1 << 28
"""Limit of a frame; a larger size is a broken header."""


def load_av() -> ModuleType:
    """Import PyAV. RuntimeError says how to install it."""
    try:
        import av
        import av.video.reformatter
    except ImportError:
        raise RuntimeError("reading videos needs PyAV, which is not installed: pip install asyncdali[video]") from None
    return av


def prepare_decoding() -> None:
    """Import PyAV and compile the kernels of :class:`OpenVideo`, in ``build()``. RuntimeError says how to install PyAV."""
    load_av()
    compile_kernels()


@dataclass(frozen=True)
class VideoIndex:
    """The frames of a video. `times` are the frames' presentation times in order, int64, in units of `tick` seconds; `keys` are the
    numbers of frames at which decoding can start; `rate` is in frames per second."""

    times: np.ndarray
    keys: np.ndarray
    tick: Fraction
    rate: float
    height: int
    width: int

    def __len__(self) -> int:
        return len(self.times)

    def seconds(self, frames: np.ndarray) -> np.ndarray:
        """Times of frames relative to the first one, float64."""
        result: np.ndarray = (self.times[frames] - self.times[0]) * self.tick.numerator / self.tick.denominator
        return result

    def key_before(self, frame: int) -> int:
        """The frame at which decoding must start to reach `frame`."""
        place = int(np.searchsorted(self.keys, frame, "right")) - 1
        return int(self.keys[place]) if place >= 0 else 0


def read_index(source: BinaryIO) -> VideoIndex:
    """Find the frames of a video without decoding them; ValueError names the error in the video."""
    av = load_av()
    try:
        with _open(source) as container:
            stream = _video_stream(container)
            return _index(container, stream, container.demux(stream))
    except av.FFmpegError as error:
        raise ValueError(_reason(error)) from error


def open_video(source: BinaryIO) -> OpenVideo:
    """Find the frames of a video without decoding them, and open it for decoding. ValueError names the error in the video.

    FFmpeg decodes the first frame of a video to open it, so the video is opened once if it can be rewound.
    """
    av = load_av()
    try:
        container = _open(source)
        try:
            stream = _video_stream(container)
            packets = container.demux(stream)
            first = next(packets)
            index = _index(container, stream, chain([first], packets))
            if _rewound(container, stream, first, int(index.times[0])):
                return OpenVideo(index, source, container)
        except BaseException:
            container.close()
            raise
        container.close()
        source.seek(0)
        return OpenVideo(index, source)
    except av.FFmpegError as error:
        raise ValueError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _index(container: Any, stream: Any, packets: Iterable[Any]) -> VideoIndex:
    """The index of a stream with these packets."""
    times, keys = _packet_times(stream, packets)
    if None in times:  # The container has no presentation times; the decoder has them.
        container.seek(0)
        frames = [(frame.pts, frame.key_frame) for frame in container.decode(stream)]
        times, keys = [pts for pts, _ in frames], [pts for pts, key in frames if key]
    if None in times:
        raise ValueError("the frames of the video have no timestamps")
    if not times:
        raise ValueError("the video has no frames")
    context = stream.codec_context
    if not 0 < context.height * context.width <= MAX_PIXELS:
        raise ValueError(f"the frames of the video have {context.width}x{context.height} pixels; 1 to {MAX_PIXELS} pixels are supported")
    order = np.unique(np.array(times, np.int64))
    rate = stream.average_rate or stream.guessed_rate
    numbers = np.searchsorted(order, np.unique(np.array(keys, np.int64)))
    return VideoIndex(order, numbers, stream.time_base, float(rate or 0), context.height, context.width)


_NO_PROTOCOL = "none"
"""FFmpeg may open only the bytes that it was given. Without this list, a "video" could be a text that makes FFmpeg read other files
(``ffconcat``) or listen on a port (SDP)."""


def _open(source: BinaryIO) -> Any:
    av = load_av()
    # Titles and similar texts may be in any encoding. PyAV before version 19 would raise an error for other encodings than UTF-8.
    tolerant = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
    return av.open(source, options={"protocol_whitelist": _NO_PROTOCOL}, **tolerant)


def _video_stream(container: Any) -> Any:
    if not container.streams.video:
        raise ValueError("the data has no video stream")
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise ValueError("the codec of the video is unknown, or FFmpeg has no decoder for the codec")
    return stream


_WITH_TIMES = ("matroska", "mov")
"""Containers that store the time of every packet. In others, times after a seek may differ from those of the first pass."""


def _rewound(container: Any, stream: Any, first: Any, time: int) -> bool:
    """Whether the container could be moved back to its `first` packet. `time` is that of the first frame."""
    if not container.format.name.startswith(_WITH_TIMES):
        return False
    container.seek(time, stream=stream)
    found = next(container.demux(stream))
    container.seek(time, stream=stream)
    return bool((found.pos, found.size, found.pts) == (first.pos, first.size, first.pts))


def _packet_times(stream: Any, packets: Iterable[Any]) -> tuple[list[int | None], list[int | None]]:
    """Times of the packets that become a frame, and of those with a key frame."""
    hidden_frames = stream.codec_context.name in ("vp8", "libvpx")
    times, keys = [], []
    for packet in packets:
        if not packet.size or packet.is_discard:
            continue
        if hidden_frames and not memoryview(packet)[0] & 0x10:  # VP8's show_frame
            continue
        times.append(packet.pts)
        if packet.is_keyframe:
            keys.append(packet.pts)
    return times, keys


class OpenVideo:
    """A video that is being decoded. It closes `source` in the end. Use it in one thread at a time. ValueError if it can't be opened.

    `container`: `source` as PyAV has opened it, at its beginning.
    """

    def __init__(self, index: VideoIndex, source: BinaryIO, container: Any = None):
        av = self._av = load_av()
        self.index = index
        self._source = source
        try:
            self._container = _open(source) if container is None else container
            self._stream = _video_stream(self._container)
        except av.FFmpegError as error:
            raise ValueError(_reason(error)) from error
        self._colours = FrameColours(av, self._stream.codec_context.name)
        self._stream.codec_context.thread_count = 1  # Samples are already decoded in parallel.
        self._frames: Iterator[Any] = self._container.decode(self._stream)
        self._next = 0

    def read(
        self, frames: np.ndarray, target: np.ndarray, fill: Sequence[int], convert: Callable[[np.ndarray, np.ndarray], None] | None = None
    ) -> None:
        """Write the frames with these numbers, in any order, to the places of `target`; `fill` (one value or three) replaces MISSING
        frames.

        Frames are RGB, uint8[height, width, 3], and `target` is C-contiguous. For other frames, ``convert(RGB, place)`` writes a frame to
        its place. ValueError names the frame that can't be decoded.
        """
        places: dict[int, list[int]] = {}
        for place, number in enumerate(frames.tolist()):
            places.setdefault(number, []).append(place)
        for place in places.pop(MISSING, []):
            target[place] = np.array(fill, np.uint8)
        own = None if convert is None else np.empty((self.index.height, self.index.width, 3), np.uint8)
        for number in sorted(places):
            first, *others = places[number]
            try:
                image = target[first] if own is None else own
                self._colours.write(self._frame(number), image)
                if convert is not None:
                    convert(image, target[first])
            except (self._av.FFmpegError, ValueError) as error:
                raise ValueError(f"frame {number}: {_reason(error)}") from error
            for place in others:
                target[place] = target[first]

    def _frame(self, number: int) -> Any:
        if number != self._next:
            key = self.index.key_before(number)
            if number < self._next or key > self._next:
                self._seek(key)
        found = self._forward(number)
        if found is None:  # The seek went too far: not all containers find the requested key frame.
            self._seek(0)
            found = self._forward(number)
        if found is None:
            raise ValueError("the frame could not be decoded")
        height, width = self.index.height, self.index.width
        if (found.height, found.width) != (height, width):
            raise ValueError(f"the frame has {found.width}x{found.height} pixels, the video {width}x{height}")
        return found

    def _seek(self, key: int) -> None:
        self._container.seek(int(self.index.times[key]), stream=self._stream)
        self._frames, self._next = self._container.decode(self._stream), key

    def _forward(self, number: int) -> Any | None:
        """Decode up to frame `number`; None if the frame does not exist."""
        time = int(self.index.times[number])
        for frame in self._frames:
            if frame.pts is None or frame.pts < time:
                continue
            self._next = number + 1
            return frame if frame.pts == time else None
        self._next = len(self.index)
        return None

    def close(self) -> None:
        self._frames = iter(())
        self._container.close()
        self._source.close()
