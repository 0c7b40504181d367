"""Decoding of single frames of encoded videos, through PyAV (FFmpeg's libraries)."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from .frame_colours import FrameColours, compile_kernels
from .video_index import TOLERANT, UNKNOWN, WITH_TIMES, Packets, VideoIndex, indexed, load_av, reason, sum_of
from .video_padding import MISSING

if TYPE_CHECKING:
    from av import VideoCodecContext, VideoFrame

    from .video_index import VideoPacket


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

    Key frames cut a video into segments. Frames are decoded in runs of one or more segments, and every run starts with a new decoder. The
    run of a frame depends on the video alone. So a frame has the same pixels, or the same error, whatever was read before.

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
        """Frames at which segments 1 and up begin. Segment 0 begins with the first packet."""
        self._fit: dict[int, bool] = {0: True}
        """Segments -> whether decoding can start there; those that were tried."""
        self._numbers = np.full(int(index.packets.max(initial=UNKNOWN)) + 1, UNKNOWN, np.int32)
        """Places of packets -> numbers of frames."""
        self._numbers[index.packets] = np.arange(len(index.packets), dtype=np.int32)
        self._can_seek = len(index.marks) > 0
        self._sought = False
        """Whether the container went to its place by a seek."""
        self._kept: deque[VideoPacket] = deque()
        """The last packets that were read, from the first one on that another run needs. `pts` of a packet is its place."""
        self._run: tuple[int, int] | None = None
        """The run in work: its first segment and the one behind its last."""
        self._frames: Iterator[tuple[int, VideoFrame]] = iter(())
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

    def _frame(self, number: int) -> VideoFrame:
        found, height, width = self._find(number), self.index.height, self.index.width
        if (found.height, found.width) != (height, width):
            raise ValueError(f"the frame has {found.width}x{found.height} pixels, the video {width}x{height}")
        return found

    def _find(self, number: int) -> VideoFrame:
        own = first = int(np.searchsorted(self._keys, number, "right"))
        while not self._begins(first):
            first -= 1
        found = self._in_run(first, own, number)
        if found is None and first:
            found = self._in_run(0, own, number)  # The frame may need headers from the beginning.
        if found is None:
            raise ValueError("the frame could not be decoded")
        return found

    def _in_run(self, first: int, own: int, number: int) -> VideoFrame | None:
        """Frame `number` of segment `own`, in a run from segment `first` on; None if the run does not have the frame."""
        # If decoding cannot start at many segments, a run for each of them would decode the segments before again and again.
        run = first, first + (1 << (own - first).bit_length())
        if run != self._run or number < self._next:
            self._begin(run)
        try:
            found = self._forward(number)
        except _NoStart:
            found = None
        except BaseException:
            self._forget_run()
            raise
        if found is None:
            self._forget_run()
        return found

    def _begins(self, segment: int) -> bool:
        """Whether decoding can start at a segment, which is always tried in a run of this segment alone."""
        if segment not in self._fit:
            self._begin((segment, segment + 1))
            self._fit[segment] = True
            try:
                head = next(self._frames)
                self._frames = chain([head], self._frames)
            except _NoStart:
                self._forget_run()
                self._fit[segment] = False
            except (self._av.FFmpegError, ValueError):  # Reading a frame of the run raises the same error.
                self._forget_run()
            except BaseException:
                self._forget_run()
                del self._fit[segment]
                raise
        return self._fit[segment]

    def _forget_run(self) -> None:
        """Packets are found again, because PyAV gives no more packets after an error."""
        self._run, self._frames = None, iter(())
        self._kept.clear()
        self._packets.place = UNKNOWN

    def _begin(self, run: tuple[int, int]) -> None:
        self._run, self._next, self._frames = run, 0, self._decoded(*run)
        self._colours.begin()

    def _start_of(self, segment: int) -> int:
        """The first frame of a segment. UNKNOWN stands for the first packet."""
        return int(self._keys[segment - 1]) if segment else UNKNOWN

    def _forward(self, number: int) -> VideoFrame | None:
        """Decode up to frame `number` of the run; None if the run does not have the frame."""
        for found, frame in self._frames:
            self._next = found + 1
            self._colours.see(frame)
            if found >= number:
                return frame if found == number else None
        return None

    # --- runs

    def _decoded(self, first: int, end: int) -> Iterator[tuple[int, VideoFrame]]:
        """The numbers and frames of a run of the segments from `first` to the one before `end`. Raises _NoStart and PyAV's errors."""
        counted, number, begun = not len(self.index.packets), UNKNOWN, False
        start, decoder = self._start_of(first), self._packets.decoder()
        for packet in chain(self._run_packets(first, end), [None]):
            try:
                if packet is not None and packet.is_corrupt and self._strict:
                    raise self._av.InvalidDataError(errno.EINVAL, "its data are incomplete")
                frames = decoder.decode(packet)
            except self._av.FFmpegError:
                if self._may_be_broken(packet, start, begun):
                    continue
                if start != UNKNOWN and not begun:
                    raise _NoStart from None
                yield from self._frames_before(packet, decoder)
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

    def _frames_before(self, broken: VideoPacket | None, decoder: VideoCodecContext) -> Iterator[tuple[int, VideoFrame]]:
        """The frames that the decoder still has from before the last key frame. If decoding could start at that frame, the run would have
        ended before it. `broken`: the packet that could not be decoded."""
        if broken is None or not len(self.index.packets):
            return
        key = self.index.keys[self.index.packets[self.index.keys] <= broken.pts].max(initial=0)
        for frame in decoder.decode(None):
            number = self._number(frame.pts)
            if number < key and not frame.is_corrupt:
                yield number, frame

    def _may_be_broken(self, packet: VideoPacket | None, start: int, begun: bool) -> bool:
        """Whether a run continues behind a packet that cannot be decoded: no frame of the run needs it."""
        number = UNKNOWN if packet is None else self._number(packet.pts)
        if start == UNKNOWN:
            return number == UNKNOWN and not begun
        return UNKNOWN < number < start  # It needs frames before the key frame.

    def _number(self, place: int | None) -> int:
        """The number of the frame of the packet at `place`, or UNKNOWN."""
        return int(self._numbers[place]) if place is not None and 0 <= place < len(self._numbers) else UNKNOWN

    def _run_packets(self, first: int, end: int) -> Iterator[VideoPacket]:
        """The packets of a run. It ends where all its frames are known to the decoder."""
        start, packets = self._start_of(first), self.index.packets
        begin, last = 0 if start == UNKNOWN else int(packets[start]), np.iinfo(np.int64).max
        following = last
        if len(packets):
            behind = int(self._keys[end - 1]) if end <= len(self._keys) else len(packets)
            last = int(packets[max(start, 0) : behind].max())
            if behind < len(packets):
                following = int(packets[behind])
        self._move(begin, max(start, 0))
        for place in range(begin, last + 1):
            packet = self._packet(place, following)
            if packet is None:
                return
            yield packet

    # --- packets

    def _packet(self, place: int, keep: int) -> VideoPacket | None:
        """The packet at `place`, which is kept or the next one; None behind the last. Packets from `keep` on are kept."""
        kept = self._kept
        self._forget(min(place, keep))
        if kept and _place_of(kept[0]) <= place <= _place_of(kept[-1]):
            return kept[place - _place_of(kept[0])]
        packet = self._taken(place)
        if packet is not None:
            packet.pts = place
            if place >= keep:
                kept.append(packet)
        return packet

    def _taken(self, place: int) -> VideoPacket | None:
        """The packet at `place`, which is the next one. In damaged data some containers give other packets after a seek."""
        if not self._sought:
            return self._packets.take()
        try:
            packet = self._packets.take()
        except self._av.FFmpegError:
            packet = None
        expected = int(self.index.sums[place]) if place < len(self.index.sums) else None
        if expected == (None if packet is None else sum_of(packet)):
            return packet
        self._can_seek = False
        self._rewind()
        while self._packets.place < place and self._packets.take() is not None:
            pass
        return self._packets.take()

    def _rewind(self) -> None:
        self._packets.rewind()
        self._sought = False

    def _forget(self, place: int) -> None:
        """Forget the kept packets before `place`."""
        while self._kept and _place_of(self._kept[0]) < place:
            self._kept.popleft()

    def _move(self, place: int, frame: int) -> None:
        """Make the packet at `place`, of about this frame, the next one or a kept one."""
        self._forget(place)
        if (_place_of(self._kept[0]) if self._kept else self._packets.place) == place:
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
            self._rewind()
        while self._packets.place < place and self._taken(self._packets.place) is not None:
            pass

    def _seek(self, place: int, time: int) -> bool:
        """Go to the packet at `place`, or to one before. False if it is not known where the container went."""
        packets, self._sought = self._packets, True
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


def _place_of(packet: VideoPacket) -> int:
    """The place of a packet that was read: its `pts`."""
    assert packet.pts is not None
    return packet.pts
