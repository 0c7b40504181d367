"""Encoded videos: the positions of frames, and decoding of single frames, through PyAV (FFmpeg's libraries)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from .video_padding import MISSING

MAX_PIXELS = 1 << 28
"""Limit of a frame; a larger size is a broken header."""


def load_av() -> ModuleType:
    """Import PyAV; RuntimeError says how to install it."""
    try:
        import av
        import av.video.reformatter
    except ImportError:
        raise RuntimeError("reading videos needs PyAV, which is not installed: pip install asyncdali[video]") from None
    return av


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
            return _index(container, _video_stream(container))
    except av.FFmpegError as error:
        raise ValueError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _index(container: Any, stream: Any) -> VideoIndex:
    times, keys = _packet_times(container, stream)
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


def _packet_times(container: Any, stream: Any) -> tuple[list[int | None], list[int | None]]:
    """Times of all packets that become a frame, and of the packets with a key frame."""
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
    """A video that is being decoded. It closes `source` in the end. Use it in one thread at a time. ValueError if it can't be opened."""

    def __init__(self, index: VideoIndex, source: BinaryIO):
        av = self._av = load_av()
        self.index = index
        flags = av.video.reformatter.Interpolation
        self._flags = flags.BILINEAR | flags.FULL_CHR_H_INT | flags.ACCURATE_RND  # DALI's flags.
        self._convert = av.video.reformatter.VideoReformatter()
        self._source = source
        try:
            self._container = _open(source)
            self._stream = _video_stream(self._container)
        except av.FFmpegError as error:
            raise ValueError(_reason(error)) from error
        self._stream.codec_context.thread_count = 1  # Samples are already decoded in parallel.
        self._frames: Iterator[Any] = self._container.decode(self._stream)
        self._next = 0

    def read(self, frames: np.ndarray, target: np.ndarray, fill: Sequence[int], convert: Callable[[np.ndarray, np.ndarray], None]) -> None:
        """Write the frames with these numbers, in any order, to the places of `target`; `fill` (one value or three) replaces MISSING
        frames.

        ``convert(uint8[height, width, 3] RGB, place)`` writes a frame. ValueError names the frame that can't be decoded.
        """
        places: dict[int, list[int]] = {}
        for place, number in enumerate(frames.tolist()):
            places.setdefault(number, []).append(place)
        for place in places.pop(MISSING, []):
            target[place] = np.array(fill, np.uint8)
        for number in sorted(places):
            first, *others = places[number]
            try:
                convert(self._rgb(self._frame(number)), target[first])
            except (self._av.FFmpegError, ValueError) as error:
                raise ValueError(f"frame {number}: {_reason(error)}") from error
            for place in others:
                target[place] = target[first]

    def _frame(self, number: int) -> Any:
        key = self.index.key_before(number)
        if number < self._next or key > self._next:
            self._seek(key)
        found = self._forward(number)
        if found is None:  # The seek went too far: not all containers find the requested key frame.
            self._seek(0)
            found = self._forward(number)
        if found is None:
            raise ValueError("the frame could not be decoded")
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

    def _rgb(self, frame: Any) -> np.ndarray:
        height, width = self.index.height, self.index.width
        if (frame.height, frame.width) != (height, width):
            raise ValueError(f"the frame has {frame.width}x{frame.height} pixels, the video {width}x{height}")
        # Unspecified and unknown matrices are treated as BT.601, as in DALI.
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
