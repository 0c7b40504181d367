"""The frames of encoded videos, found with as little decoding as possible, through PyAV (FFmpeg's libraries).

A packet is known by its place among the packets of the stream, counted from the beginning of the data. Timestamps are not used for that:
in some containers they are missing, repeated, or different after a seek.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from operator import le
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, BinaryIO
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    from av import Packet, VideoCodecContext, VideoStream
    from av.container import InputContainer

    VideoPacket: TypeAlias = Packet[VideoStream]

MAX_PIXELS = 1 << 28
"""Limit of a frame; a larger size is a broken header."""
UNKNOWN = -1
"""The place of a packet that is not known, and the number of a frame that is not in the index."""


def load_av() -> ModuleType:
    """Import PyAV. RuntimeError says how to install it."""
    try:
        import av
        import av.video.reformatter
    except ImportError:
        raise RuntimeError("reading videos needs PyAV, which is not installed: pip install asyncdali[video]") from None
    return av


@dataclass(frozen=True)
class VideoIndex:
    """The frames of a video, in the order in which a decoder returns them.

    `times` are the presentation times, int64, in units of `tick` seconds; they do not decrease. `rate` is in frames per second.
    `stream` is the number of the stream in the container. `packets` are the places of the frames' packets; without them (empty), frames
    can only be counted from the beginning. `keys` are the numbers of frames at which decoding can start; `marks` identify their packets
    after a seek, int64, and are empty if the container cannot seek to `times`. `sums`: of all packets, int64; packets that are read after
    a seek are compared with them.
    """

    times: np.ndarray
    tick: Fraction
    rate: float
    height: int
    width: int
    stream: int
    packets: np.ndarray
    keys: np.ndarray
    marks: np.ndarray
    sums: np.ndarray

    def __len__(self) -> int:
        return len(self.times)

    def shortened(self, count: int) -> VideoIndex:
        """The first `count` frames."""
        keys = int(np.searchsorted(self.keys, count))
        return replace(
            self, times=self.times[:count], packets=self.packets[:count], keys=self.keys[:keys], marks=self.marks[:keys],
        )  # fmt: skip

    def seconds(self, frames: np.ndarray) -> np.ndarray:
        """Times of frames relative to the first one, float64."""
        result: np.ndarray = (self.times[frames] - self.times[0]) * self.tick.numerator / self.tick.denominator
        return result

    def place_of(self, packet: VideoPacket) -> int:
        """The place of the packet of a key frame, or UNKNOWN. Two packets with the same mark are unknown."""
        found = np.flatnonzero(self.marks == mark_of(packet))
        return int(self.packets[self.keys[found[0]]]) if len(found) == 1 else UNKNOWN


def mark_of(packet: VideoPacket) -> int:
    """A number that identifies a packet of a file: its offset, size and bytes."""
    return hash((-1 if packet.pos is None else packet.pos, packet.size, crc32(packet)))


def sum_of(packet: VideoPacket) -> int:
    """A number that tells a packet from others that may come instead of it after a seek in damaged data."""
    return hash((packet.size, packet.is_keyframe, packet.is_corrupt, crc32(memoryview(packet)[:_SUMMED])))


_SUMMED = 4096
"""Bytes of a packet in its sum."""


def indexed(source: BinaryIO) -> tuple[Packets, VideoIndex, bool]:
    """Open a video and find its frames. ValueError names the error in the video.

    Returns the packets, the index, and whether the last frame may be incomplete: the container did not check it.
    """
    av = load_av()
    packets = None
    try:
        packets = Packets(source)
        _choose_stream(packets)
        index = _index_of_packets(packets) if _has_times(packets) else None
        if index is not None:
            return packets, index, False
        if packets.place:
            packets.rewind()
        index = _index_of_decoded(packets)
        packets.rewind()
        return packets, index, True
    except BaseException as error:
        if packets is not None:
            packets.close()
        if isinstance(error, av.FFmpegError):
            raise ValueError(reason(error)) from error
        raise


def reason(error: Exception) -> str:
    """The text of an error of PyAV."""
    return getattr(error, "strerror", None) or str(error)


# --- containers and streams

_NO_PROTOCOL = "none"
"""FFmpeg may open only the bytes that it was given. Without this list, a "video" could be a text that makes FFmpeg read other files
(``ffconcat``) or listen on a port (SDP)."""


def _open(source: BinaryIO) -> InputContainer:
    av = load_av()
    source.seek(0)
    # Titles and similar texts may be in any encoding. PyAV before version 19 would raise an error for other encodings than UTF-8.
    tolerant = {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
    # FFmpeg sees no file name, so that bytes in memory and in a file are read alike, and a name cannot make a text a video.
    nameless = SimpleNamespace(read=source.read, seek=partial(_seek, source), tell=source.tell)
    opened: InputContainer = av.open(nameless, options={"protocol_whitelist": _NO_PROTOCOL}, **tolerant)
    return opened


TOLERANT = ("h264", "hevc", "vvc")
"""Codecs whose damaged frames are replaced alike wherever decoding began. Their decoders would refuse wrong additional data, too (SEI).
Decoders of other codecs leave what was in memory before in damaged parts of a frame, so they report errors."""


def _seek(source: BinaryIO, offset: int, whence: int = 0) -> int:
    """Seek for FFmpeg, which treats a place before the beginning as the end of data. Files and bytes in memory raise different errors."""
    try:
        return source.seek(offset, whence)
    except (OSError, ValueError, OverflowError):
        return -errno.EINVAL


def _packets(container: InputContainer, streams: Sequence[VideoStream]) -> Iterator[VideoPacket]:
    """The packets of streams that have data. An empty packet would end decoding; AVI repeats frames by empty packets."""
    try:
        yield from (packet for packet in container.demux(tuple(streams)) if packet.size)
    except IndexError:  # PyAV ends so, if streams were added after the container was opened.
        return


def _copied(stream: VideoStream) -> tuple[VideoStream, InputContainer]:
    """A stream with the parameters of `stream` and a new decoder, and its container. The container must be open while the stream is used.

    PyAV copies parameters only into containers that may be written. The caller closes the container: otherwise both refer to each other
    until the garbage collector comes, 190 KB for each run of frames.
    """
    nowhere = load_av().open(io.BytesIO(), "w", format="null")
    return nowhere.add_stream_from_template(stream, opaque=True), nowhere


def _tag_of(context: VideoCodecContext) -> str | None:
    """The codec's tag, by which some decoders know a variant; None if PyAV cannot set it."""
    try:
        tag: str = context.codec_tag
    except UnicodeDecodeError:
        return None
    return tag


class Packets:
    """The packets of a stream of `source`. `place` is that of the next packet: the number of packets before, or UNKNOWN.

    `context` has the name of the codec and the size in the headers. The methods raise PyAV's errors.
    """

    stream: VideoStream
    context: VideoCodecContext
    place: int

    def __init__(self, source: BinaryIO, stream: int | None = None):
        self._source = source
        self._parameters: tuple[VideoStream, InputContainer] | None = None
        """A stream with the parameters of `stream`, as they were when the container was opened, and its container."""
        self._tag: str | None = None
        self.container = _open(source)
        if stream is not None:
            self.choose(stream)

    def choose(self, stream: int) -> None:
        """Read the packets of the stream with this number from now on. The container is at its beginning.

        ValueError if there is no such stream any more.
        """
        found = next((video for video in self.container.streams.video if video.index == stream), None)
        if found is None:
            raise ValueError(f"stream {stream} is no video any more: the data have changed since the video was indexed")
        self.stream = found
        self.context = self.stream.codec_context
        self._packets = _packets(self.container, [self.stream])
        self.place = 0
        if self._parameters is None:
            self._parameters, self._tag = _copied(self.stream), _tag_of(self.context)

    def decoder(self, tolerant: bool = False) -> VideoCodecContext:
        """A new decoder of the stream. A decoder that was emptied keeps some state, so damaged frames would depend on earlier ones.

        tolerant   return damaged frames, as a plain sequential decoder does
        """
        assert self._parameters is not None
        copied, nowhere = _copied(self._parameters[0])
        context = copied.codec_context
        nowhere.close()  # a decoder works without a container
        if self._tag is not None:
            context.codec_tag = self._tag
        context.thread_count = 1  # Samples are already decoded in parallel.
        strict = {} if tolerant or context.name in TOLERANT else {"err_detect": "explode"}
        context.options = {"max_pixels": str(MAX_PIXELS), **strict}
        return context

    def take(self) -> VideoPacket | None:
        """The next packet with data; None behind the last."""
        packet = next(self._packets, None)
        self.place += packet is not None and self.place != UNKNOWN
        return packet

    def rewind(self) -> None:
        """Go back to the beginning. The container is opened again, because not all can seek, and some seek to another packet."""
        stream = self.stream.index
        self._packets = iter(())
        self.container.close()
        self.container = _open(self._source)
        self.choose(stream)

    def seek(self, time: int) -> None:
        """Go to about this time. `place` is then UNKNOWN."""
        self.place = UNKNOWN
        self.container.seek(time, stream=self.stream)
        self._packets = _packets(self.container, [self.stream])

    def close(self) -> None:
        self._packets = iter(())
        self.container.close()
        if self._parameters is not None:
            self._parameters[1].close()
            self._parameters = None


_PICTURES = ("mjpeg", "png", "bmp", "tiff", "webp", "jpeg2000", "libopenjpeg", "jpegls", "libjxl", "gif")
"""Codecs of cover pictures. Not every writer marks the stream of a cover as an attached picture."""


def _choose_stream(packets: Packets) -> None:
    """Choose the first video that is no cover picture. ValueError if there is none."""
    av, streams = load_av(), list(packets.container.streams.video)
    if not streams:
        raise ValueError("the data has no video stream")
    streams = [stream for stream in streams if not stream.disposition & av.stream.Disposition.attached_pic]
    if not streams:
        raise ValueError("the data has a cover picture, but no video stream")
    streams = [stream for stream in streams if stream.codec_context is not None]
    if not streams:
        raise ValueError("the codec of the video is unknown, or FFmpeg has no decoder for the codec")
    if len(streams) == 1 or streams[0].codec_context.name not in _PICTURES:
        packets.choose(streams[0].index)
        return
    counts = dict.fromkeys((stream.index for stream in streams), 0)
    for packet in _packets(packets.container, streams):
        counts[packet.stream.index] += 1
    chosen = next((stream for stream in streams if stream.codec_context.name not in _PICTURES or counts[stream.index] > 1), streams[0])
    packets.stream = chosen
    packets.rewind()


# --- frames

WITH_TIMES = ("matroska", "mov", "flv")
"""Containers in which a packet is a frame and has its time. In others, the frames are found by decoding the video once."""
_REORDERED = ("h264", "hevc", "vvc")
"""Codecs whose frames may have another order than their packets, even if their headers do not say so."""
_DEFAULT_RATE = 25
"""FFmpeg's rate for streams that do not say theirs."""


_USER_DATA = b"\0\0\1\xb2"
"""ISO/IEC 14496-2, 6.2.1: user_data_start_code. FFmpeg's decoder finds the encoder's name there, and works around its faults."""


class _Table:
    """The packets that were read: times and sums, and marks of key packets by their places."""

    def __init__(self, context: VideoCodecContext) -> None:
        self.times: list[int | None] = []
        self.sums: list[int] = []
        self.marks: dict[int, int] = {}
        self._mpeg4 = context.name == "mpeg4"
        self._header = context.extradata or b""
        self._names: set[bytes] = set()
        """Names that the first packet tells and the header does not. Decoding cannot start at a packet without these names."""

    def add(self, packet: VideoPacket) -> None:
        if self._mpeg4 and not self.times:
            names = {text.partition(b"\0\0\1")[0] for text in bytes(packet).split(_USER_DATA)[1:]}
            self._names = {name for name in names if name not in self._header}
        if packet.is_keyframe and (not self._names or all(name in bytes(packet) for name in self._names)):
            self.marks[len(self.times)] = mark_of(packet)
        self.sums.append(sum_of(packet))
        self.times.append(packet.pts)

    def index(self, packets: Packets, places: list[int | None], keys: list[int], size: tuple[int, int]) -> VideoIndex:
        """The index of frames whose packets are at these `places`; `keys` are the numbers of frames at which decoding can start.

        ValueError for an impossible `size`.
        """
        _check_size(*size)
        stamps = [None if place is None else self.times[place] for place in places]
        known = [stamp for stamp in stamps if stamp is not None]
        rate, tick = packets.stream.average_rate or packets.stream.guessed_rate, packets.stream.time_base
        rate = rate if rate is not None and rate > 0 else None
        timed = tick is not None and tick > 0 and len(known) == len(stamps) and all(map(le, known, known[1:]))
        if tick is None or not timed:
            tick, known = 1 / Fraction(rate or _DEFAULT_RATE), list(range(len(places)))
        distinct = None not in places and len(set(places)) == len(places)  # Some packets have two frames.
        keys = keys if distinct else []
        marks = [self.marks[place] for place in (places[key] for key in keys if timed) if place is not None]
        return VideoIndex(
            np.array(known, np.int64), tick, float(rate or 0), *size, packets.stream.index, np.array(places if distinct else [], np.int32),
            np.array(keys, np.int32), np.array(marks, np.int64), np.array(self.sums, np.int64),
        )  # fmt: skip


def _has_times(packets: Packets) -> bool:
    """Whether the container gives the frames' times. AVI numbers packets, which is the same without B frames."""
    name, context = packets.container.format.name, packets.context
    return name.startswith(WITH_TIMES) or (name == "avi" and not context.has_b_frames and context.name not in _REORDERED)


def _index_of_packets(packets: Packets) -> VideoIndex | None:
    """The index without decoding. None if packets and frames may differ."""
    context, table = packets.context, _Table(packets.context)
    frames_in = _FRAMES.get(context.name, _one)
    places, first, cut = [], False, False
    while (packet := packets.take()) is not None:
        table.add(packet)
        cut = packet.is_corrupt
        if packet.is_discard:
            first = first or (len(table.times) == 1 and packet.is_keyframe)  # An edit list begins between two key frames.
        else:
            places += [len(table.times) - 1] * frames_in(packet)
    times = [table.times[place] for place in places]
    if not places:
        raise ValueError("the video has no frames")
    if cut or None in times or len(set(times)) < len(times):
        return None
    order = np.argsort(np.array(times, np.int64))
    shown = np.array(places, np.int32)[order].tolist()
    if not first and (shown[0] != 0 or 0 not in table.marks):
        return None  # The video was cut, so a decoder does not return all frames.
    keys = [number for number, place in enumerate(shown) if place in table.marks]
    return table.index(packets, shown, keys, (context.height, context.width))


def _index_of_decoded(packets: Packets) -> VideoIndex:
    """The index of the frames that a decoder returns, damaged ones included."""
    av, table, decoder = load_av(), _Table(packets.context), packets.decoder(tolerant=True)
    places: list[int | None] = []
    keys: list[int] = []
    size, broken, ended = None, None, False
    while not ended:
        packet = packets.take()
        ended = packet is None
        if packet is not None:
            table.add(packet)
            packet.pts = len(table.times) - 1
        try:
            frames = decoder.decode(packet)
        except av.FFmpegError as error:
            broken = broken or error
            continue
        for frame in frames:
            size = size or (frame.height, frame.width)
            place = frame.pts
            if place in table.marks and frame.key_frame:
                keys.append(len(places))
            places.append(place)
    if size is None:
        raise ValueError(f"no frame of the video can be decoded: {reason(broken)}" if broken else "the video has no frames")
    return table.index(packets, places, keys, size)


def _check_size(height: int, width: int) -> None:
    if not 0 < height * width <= MAX_PIXELS:
        raise ValueError(f"the frames of the video have {width}x{height} pixels; 1 to {MAX_PIXELS} pixels are supported")


def _one(packet: object) -> int:
    return 1


def _vp8(packet: VideoPacket) -> int:
    """RFC 6386, section 9.1: show_frame."""
    return memoryview(packet)[0] >> 4 & 1


def _vp9(packet: VideoPacket) -> int:
    """VP9 bitstream specification, 6.2: show_existing_frame and show_frame. One frame of a superframe (annex B) is shown."""
    data = memoryview(packet)
    head = data[0] << 1 if data[0] & 0x30 == 0x30 else data[0]  # Profile 3 has one more bit.
    return int(data[-1] & 0xE0 == 0xC0 or head & 0x0A != 0)


def _mpeg4(packet: VideoPacket) -> int:
    """ISO/IEC 14496-2, 6.2.1: vop_start_code. Some writers of AVI put two frames into a packet, and an empty frame into the next one."""
    return bytes(packet).count(b"\0\0\1\xb6")


_FRAMES = {"vp8": _vp8, "libvpx": _vp8, "vp9": _vp9, "libvpx-vp9": _vp9, "mpeg4": _mpeg4}
"""Frames in a packet of a codec, where these can be others than one."""
