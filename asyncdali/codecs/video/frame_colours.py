"""Decoded frames to RGB, with swscale's pixels.

swscale takes 500 us for a frame of 320x240, our kernel 32. The kernel covers planar YCbCr of 8 to 12 bits. swscale converts all other
formats, frames narrower than 32 pixels, and frames of odd size or less than 8 rows whose pixels share chroma.

Where shared chroma lies is a property of a stream that PyAV does not show. So noise in a small frame with the properties of the stream's
frames is converted both ways, and the kernel is used only in the way in which it has swscale's pixels. This also guards against a version
of FFmpeg with another arithmetic. The property can change at a key frame only, because it is part of the headers there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compiled.addresses import address_of
from .frame_colour_tables import FRAMES, NARROWEST

if TYPE_CHECKING:
    from av import VideoFrame

_NAME = re.compile(r"yuv(j?)(420|422|440|444)p(?:(9|10|12)le)?")
_HALVED = {"420": (1, 1), "422": (1, 0), "440": (0, 1), "444": (0, 0)}
_FULL_RANGE = 2
"""AVCOL_RANGE_JPEG"""
_ONE_PLACE = {"vp8", "vp9", "mjpeg"}
"""Codecs whose headers do not say where chroma lies, so a video has one place. A probe takes 200 us among other work, a frame 2,000."""
_FEWEST_ROWS = 8
"""Fewest rows of frames in which two rows share chroma. swscale does not interpolate between fewer than four rows of chroma."""
_PROBE_SIZE = (48, _FEWEST_ROWS)
"""Width and height of a probe: more than one block of the kernel, and rows at the edges and inside."""


def compile_kernels() -> None:
    """Compile what decoders of videos call, in ``build()``."""
    from .frame_colour_kernels import convert_frame

    convert_frame.compile()


@dataclass(frozen=True)
class _Layout:
    """A pixel format of the kernel: `halved` is 1 for x and y if two pixels share chroma; `full` is the range, `bits` are of a sample."""

    full: bool
    halved: tuple[int, int]
    bits: int

    def covers(self, width: int, height: int) -> bool:
        """Whether the kernel converts frames of this size."""
        halved_x, halved_y = self.halved
        known = width >= NARROWEST and not width & halved_x and not height & halved_y and height >= halved_y * _FEWEST_ROWS
        return known and (width, height) != _PROBE_SIZE


@cache
def _layout(name: str, color_range: int) -> _Layout | None:
    """The layout of frames with a format's name and FFmpeg's number of a range; None if the kernel does not know it."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    full_range, sampling, bits = found.groups()
    return _Layout(bool(full_range) or color_range == _FULL_RANGE, _HALVED[sampling], int(bits or 8))


class _Kernel:
    """The kernel for one layout. `left`: shared chroma is at the left one of two pixels."""

    def __init__(self, layout: _Layout, left: bool):
        from .frame_colour_kernels import convert_frame

        self._convert = convert_frame
        self._layout, self._left = layout, int(left)
        self._common: tuple[int, ...] = ()
        self._context = 0
        self._keep: list[object] = []

    def convert(self, frame: VideoFrame, target: np.ndarray) -> bool:
        """Write a frame to `target`. False if a sample has more bits than the format: swscale limits such samples."""
        luma, blue, red = frame.planes
        common = (frame.width, frame.height, luma.line_size, blue.line_size, red.line_size)
        if common != self._common:
            self._prepare(common)
        return self._convert(self._context, luma.buffer_ptr, blue.buffer_ptr, red.buffer_ptr, address_of(target)) == 0

    def _prepare(self, common: tuple[int, ...]) -> None:
        """Make the table for frames with this width, this height and these strides."""
        from .frame_colour_kernels import matrix

        width, height, *strides = common
        layout = self._layout
        table, arrays = FRAMES.make(
            stride_luma=strides[0], stride_blue=strides[1], stride_red=strides[2], width=width, height=height,
            halved_x=layout.halved[0], halved_y=layout.halved[1], left=self._left, bits=layout.bits,
            matrix=matrix(layout.full, layout.bits), scratch=np.empty((3, width + 2), np.int16),
        )  # fmt: skip
        self._common, self._context, self._keep = common, address_of(table), [table, *arrays]


class FrameColours:
    """Converts the frames of one open video of a `codec` (FFmpeg's name). Use it in one thread at a time."""

    def __init__(self, av: ModuleType, codec: str):
        self._may_change = codec not in _ONE_PLACE
        self._errors = av.FFmpegError
        flags = av.video.reformatter.Interpolation
        self._flags = flags.BILINEAR | flags.FULL_CHR_H_INT | flags.ACCURATE_RND  # DALI's flags.
        self._nearest = flags.POINT
        # Unspecified and unknown matrices are treated as BT.601, as in DALI.
        matrix = av.video.reformatter.Colorspace.ITU601
        self._options = {"src_colorspace": matrix, "dst_colorspace": matrix, "threads": 1}
        self._swscale, self._to_probe, self._of_probe = (av.video.reformatter.VideoReformatter() for _ in range(3))
        self._kernels: dict[_Layout, _Kernel | None] = {}
        self._model: VideoFrame | None = None
        """The frame whose properties decide: the first one, or the last key frame, of the run that is being decoded. It is kept until the
        next one comes, and not only while it is needed: a decoder writes into the memory of frames that are gone."""

    def begin(self) -> None:
        """Forget the frames that were seen: a run of frames begins."""
        self._model = None

    def see(self, frame: VideoFrame) -> None:
        """Take notice of the next frame that was decoded, whether or not it will be written."""
        if self._model is None or frame.key_frame:
            self._model = frame
            if self._may_change:
                self._kernels.clear()

    def write(self, frame: VideoFrame, target: np.ndarray) -> None:
        """Write a frame that was seen to `target`, uint8[height, width, 3], C-contiguous. Raises PyAV's errors."""
        kernel = self._kernel(frame)
        if kernel is None or not kernel.convert(frame, target):
            target[...] = self._by_swscale(self._swscale, frame)

    def _kernel(self, frame: VideoFrame) -> _Kernel | None:
        """The kernel that has swscale's pixels for this frame; None if there is none."""
        layout = _layout(frame.format.name, frame.color_range)
        if layout is None or not layout.covers(frame.width, frame.height):
            return None
        if layout not in self._kernels:
            model = self._model if self._may_change else frame
            assert model is not None
            alike = _layout(model.format.name, model.color_range) == layout
            self._kernels[layout] = self._chosen(model, layout) if alike else None
        return self._kernels[layout]

    def _chosen(self, frame: VideoFrame, layout: _Layout) -> _Kernel | None:
        """The kernel that converts noise like swscale, for frames with the properties of `frame`."""
        width, height = _PROBE_SIZE
        try:
            probe = self._to_probe.reformat(
                frame, width=width, height=height, format=frame.format.name, interpolation=self._nearest, **self._options
            )
            for plane, noise in zip(probe.planes, _noise(layout.bits), strict=True):
                samples = np.frombuffer(plane, noise.dtype)
                samples[:] = noise[: len(samples)]
            expected = self._by_swscale(self._of_probe, probe)
        except self._errors:
            return None
        found = np.empty((height, width, 3), np.uint8)
        for left in (False, True):
            kernel = _Kernel(layout, left)
            if kernel.convert(probe, found) and np.array_equal(found, expected):
                return kernel
        return None

    def _by_swscale(self, convert: Any, frame: VideoFrame) -> np.ndarray:
        """A view of the frame's pixels."""
        plane = convert.reformat(frame, format="rgb24", interpolation=self._flags, **self._options).planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
        return rows[:, : 3 * frame.width].reshape(frame.height, frame.width, 3)


@cache
def _noise(bits: int) -> np.ndarray:
    """Samples for three planes of a probe."""
    kind = np.uint8 if bits == 8 else np.uint16
    return np.random.default_rng(0).integers(0, 1 << bits, (3, 4096), kind)
