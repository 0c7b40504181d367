"""Decoding of single frames of encoded videos, through PyAV (FFmpeg's libraries)."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

import numpy as np

from .frame_colours import FrameColours, compile_kernels
from .video_index import TOLERANT, UNKNOWN, WITH_TIMES, Packets, VideoIndex, indexed, load_av, reason
from .video_padding import MISSING


def prepare_decoding() -> None:
    """Import PyAV and compile the kernels of :class:`OpenVideo`, in ``build()``. RuntimeError says how to install PyAV."""
    load_av()
    compile_kernels()


def read_index(source: BinaryIO) -> VideoIndex:
    """Find the frames of a video; ValueError names the error in the video."""
    video = open_video(source)
    video.close()
    return video.index


def open_video(source: BinaryIO) -> OpenVideo:
    """Find the frames of a video, and open it for decoding. ValueError names the error in the video."""
    packets, index, may_be_cut = indexed(source)
    video = OpenVideo(index, source, packets)
    whole = video.count_whole() if may_be_cut else len(index)
    if whole == len(index):
        return video
    packets.close()
    if not whole:
        raise ValueError("no frame of the video is complete")
    return OpenVideo(index.shortened(whole), source)


class _NoStart(Exception):
    """Decoding cannot start at a frame that the container calls a key frame."""


class OpenVideo:
    """A video that is being decoded. It closes `source` in the end. Use it in one thread at a time. ValueError if it can't be opened.

    Frames are decoded in runs, from a key frame to the frame before the next one. Every run starts with an empty decoder. So a frame has
    the same pixels wherever reading began, in damaged videos, too.

    `packets`: of `source`, read up to any place.
    """

    def __init__(self, index: VideoIndex, source: BinaryIO, packets: Packets | None = None):
        av = self._av = load_av()
        self.index = index
        self._source = source
        try:
            self._packets = Packets(source, index.stream) if packets is None else packets
        except av.FFmpegError as error:
            raise ValueError(reason(error)) from error
        self._colours = FrameColours(av, self._packets.context.name)
        # A program stream calls all frames of a broken packet of its own incomplete.
        framed = self._packets.container.format.name.startswith((*WITH_TIMES, "avi"))
        self._strict = framed and self._packets.context.name not in TOLERANT
        self._keys = index.keys[index.packets[index.keys] != 0]
        """Frames at which runs start. The first run starts with the first packet. A frame is removed if decoding cannot start at it."""
        self._numbers = np.full(int(index.packets.max(initial=UNKNOWN)) + 1, UNKNOWN, np.int32)
        """Places of packets -> numbers of frames."""
        self._numbers[index.packets] = np.arange(len(index.packets), dtype=np.int32)
        self._can_seek = len(index.marks) > 0
        self._kept: deque[Any] = deque()
        """The last packets that were read, from the first one on that another run needs. `pts` of a packet is its place."""
        self._run: int | None = None
        self._frames: Iterator[tuple[int, Any]] = iter(())
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
                raise ValueError(f"frame {number}: {reason(error)}") from error
            for place in others:
                target[place] = target[first]

    def count_whole(self) -> int:
        """The number of frames before the last packet's frame if that is incomplete, because the data were cut; otherwise of all."""
        number = int(np.argmax(self.index.packets)) if len(self.index.packets) else len(self.index) - 1
        try:
            self._find(number)
        except (self._av.FFmpegError, ValueError):
            return number
        return len(self.index)

    def _frame(self, number: int) -> Any:
        found, height, width = self._find(number), self.index.height, self.index.width
        if (found.height, found.width) != (height, width):
            raise ValueError(f"the frame has {found.width}x{found.height} pixels, the video {width}x{height}")
        return found

    def _find(self, number: int) -> Any:
        while True:
            start = self._start_of(number)
            if start != self._run or number < self._next:
                self._run, self._next, self._frames = start, 0, self._decoded(start)
            try:
                found = self._forward(number)
            except _NoStart:
                self._keys, self._run = self._keys[self._keys != start], None
                continue
            except BaseException:
                self._run = None
                raise
            if found is not None:
                return found
            self._run = None
            if start == UNKNOWN:
                raise ValueError("the frame could not be decoded")
            self._keys = self._keys[self._keys > number]  # The frame may need headers from the beginning.

    def _start_of(self, number: int) -> int:
        """The first frame of the run of frame `number`. UNKNOWN stands for the first packet."""
        place = int(np.searchsorted(self._keys, number, "right"))
        return int(self._keys[place - 1]) if place else UNKNOWN

    def _forward(self, number: int) -> Any | None:
        """Decode up to frame `number` of the run; None if the run does not have the frame."""
        for found, frame in self._frames:
            self._next = found + 1
            if found >= number:
                return frame if found == number else None
        return None

    # --- runs

    def _decoded(self, start: int) -> Iterator[tuple[int, Any]]:
        """The numbers and frames of a run. Raises _NoStart and PyAV's errors."""
        counted, number, begun = not len(self.index.packets), UNKNOWN, False
        for packet in chain(self._run_packets(start), [None]):
            try:
                if packet is not None and packet.is_corrupt and self._strict:
                    raise self._av.InvalidDataError(errno.EINVAL, "its data are incomplete")
                frames = self._packets.context.decode(packet)
            except self._av.FFmpegError:
                if self._may_be_broken(packet, start, begun):
                    continue
                if start != UNKNOWN and not begun:
                    raise _NoStart from None
                yield from self._frames_before(packet)
                raise
            for frame in frames:
                number = number + 1 if counted else self._number(frame.pts)
                if number < max(start, 0):
                    continue
                if start != UNKNOWN and not begun and not (number == start and frame.key_frame):
                    raise _NoStart
                begun = True
                if frame.is_corrupt:
                    raise ValueError("the data are damaged")
                yield number, frame
        if start != UNKNOWN and not begun:
            raise _NoStart

    def _frames_before(self, broken: Any) -> Iterator[tuple[int, Any]]:
        """The frames that the decoder still has from before the last key frame. If decoding could start at that frame, the run would have
        ended before it. `broken`: the packet that could not be decoded."""
        if broken is None or not len(self.index.packets):
            return
        key = self.index.keys[self.index.packets[self.index.keys] <= broken.pts].max(initial=0)
        for frame in self._packets.context.decode(None):
            number = self._number(frame.pts)
            if number < key and not frame.is_corrupt:
                yield number, frame

    def _may_be_broken(self, packet: Any, start: int, begun: bool) -> bool:
        """Whether a run continues behind a packet that cannot be decoded: no frame of the run needs it."""
        number = UNKNOWN if packet is None else self._number(packet.pts)
        if start == UNKNOWN:
            return number == UNKNOWN and not begun
        return UNKNOWN < number < start  # It needs frames before the key frame.

    def _number(self, place: int | None) -> int:
        """The number of the frame of the packet at `place`, or UNKNOWN."""
        return int(self._numbers[place]) if place is not None and 0 <= place < len(self._numbers) else UNKNOWN

    def _run_packets(self, start: int) -> Iterator[Any]:
        """The packets of a run, for an empty decoder. A run ends where all its frames are known to the decoder."""
        packets = self.index.packets
        first, last = 0 if start == UNKNOWN else int(packets[start]), np.iinfo(np.int64).max
        following = last
        if len(packets):
            place = int(np.searchsorted(self._keys, start, "right"))
            end = int(self._keys[place]) if place < len(self._keys) else len(packets)
            last = int(packets[max(start, 0) : end].max())
            if end < len(packets):
                following = int(packets[end])
        self._move(first, max(start, 0))
        self._packets.context.flush_buffers()
        for place in range(first, last + 1):
            packet = self._packet(place, following)
            if packet is None:
                return
            yield packet

    # --- packets

    def _packet(self, place: int, keep: int) -> Any | None:
        """The packet at `place`, which is kept or the next one; None behind the last. Packets from `keep` on are kept."""
        kept = self._kept
        self._forget(min(place, keep))
        if kept and kept[0].pts <= place <= kept[-1].pts:
            return kept[place - kept[0].pts]
        packet = self._packets.take()
        if packet is not None:
            packet.pts = place
            if place >= keep:
                kept.append(packet)
        return packet

    def _forget(self, place: int) -> None:
        """Forget the kept packets before `place`."""
        while self._kept and self._kept[0].pts < place:
            self._kept.popleft()

    def _move(self, place: int, frame: int) -> None:
        """Make the packet at `place`, of about this frame, the next one or a kept one."""
        self._forget(place)
        if (self._kept[0].pts if self._kept else self._packets.place) == place:
            return
        self._kept.clear()
        if self._can_seek:
            before = int(np.searchsorted(self.index.keys, frame)) - 1  # MPEG-TS goes to the middle of the packet, so to the next key frame.
            goals = (frame, int(self.index.keys[max(before, 0)]))
            self._can_seek = any(self._seek(place, int(self.index.times[goal])) for goal in goals)
        if self._kept and self._kept[0].pts == place:
            return
        self._kept.clear()
        if self._packets.place == UNKNOWN or self._packets.place > place:
            self._packets.rewind()
        while self._packets.place < place and self._packets.take() is not None:
            pass

    def _seek(self, place: int, time: int) -> bool:
        """Go to the packet at `place`, or to one before. False if it is not known where the container went."""
        packets = self._packets
        try:
            packets.seek(time)
            packet = packets.take()
            while packet is not None and not packet.is_keyframe:
                packet = packets.take()
        except self._av.FFmpegError:
            return False
        found = UNKNOWN if packet is None else self.index.place_of(packet)
        if packet is None or found == UNKNOWN or found > place:
            return False
        packets.place, packet.pts = found + 1, found
        self._kept.append(packet)
        return True

    def close(self) -> None:
        self._frames = iter(())
        self._kept.clear()
        self._packets.close()
        self._source.close()
