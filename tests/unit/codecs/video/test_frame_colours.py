"""The conversion of decoded frames to RGB has swscale's pixels, for every format, range, size and place of chroma."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("av", reason="decoding videos needs PyAV")

import av
from av.video.reformatter import Colorspace, Interpolation, VideoReformatter
from helpers.jpegs import Guarded
from helpers.videos import photographs, write_video

from asyncdali.codecs.video.frame_colour_kernels import convert_frame, matrix
from asyncdali.codecs.video.frame_colour_tables import FRAMES
from asyncdali.codecs.video.frame_colours import FrameColours

SAMPLINGS = {"420": (1, 1), "422": (1, 0), "440": (0, 1), "444": (0, 0)}
UNSPECIFIED, LIMITED, FULL = range(3)


def layout(name):
    """(bits of a sample, halved chroma in x and y) of a format."""
    sampling, bits = re.fullmatch(r"yuvj?(\d{3})p(?:(\d+)le)?", name).groups()
    return int(bits or 8), *SAMPLINGS[sampling]


def swscale(frame):
    """RGB pixels of a frame by FFmpeg, with DALI's flags."""
    flags = Interpolation.BILINEAR | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND
    colours = {"src_colorspace": Colorspace.ITU601, "dst_colorspace": Colorspace.ITU601}
    plane = VideoReformatter().reformat(frame, format="rgb24", interpolation=flags, **colours).planes[0]
    rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
    return rows[:, : 3 * frame.width].reshape(frame.height, frame.width, 3)


def frame_of(name, planes, color_range=UNSPECIFIED):
    """A frame with these planes, uint8 or uint16[rows, columns]."""
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, name)
    for plane, samples in zip(frame.planes, planes, strict=True):
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        rows[: len(samples), : samples[0].nbytes] = samples.view(np.uint8).reshape(len(samples), -1)
    frame.color_range = color_range
    return frame


def noisy(name, width, height, color_range=UNSPECIFIED, seed=0):
    """A frame of noise, with the smallest and largest samples among them."""
    bits, halved_x, halved_y = layout(name)
    rng = np.random.default_rng(seed)
    shapes = [(height, width), *[(height + halved_y >> halved_y, width + halved_x >> halved_x)] * 2]
    planes = [rng.integers(0, 1 << bits, shape, np.uint8 if bits == 8 else np.uint16) for shape in shapes]
    for plane in planes:
        plane[rng.random(plane.shape) < 0.1], plane[rng.random(plane.shape) < 0.1] = 0, (1 << bits) - 1
    return frame_of(name, planes, color_range)


def converted(frame):
    """The pixels, and whether the kernel made them."""
    colours, found = FrameColours(av, "h264"), np.empty((frame.height, frame.width, 3), np.uint8)
    colours.see(frame)
    colours.write(frame, found)
    return found, colours._kernel(frame) is not None


@pytest.mark.parametrize("color_range", [LIMITED, FULL])
def test_every_colour(color_range):
    """All combinations of luma and chroma of 8 bits. Some sums do not fit into 32 bits, and wrap."""
    luma, blue = (np.ascontiguousarray(plane) for plane in np.mgrid[:256, :256].astype(np.uint8))
    wrapped = 0
    for red in range(256):
        frame = frame_of("yuv444p", [luma, blue, np.full_like(luma, red)], color_range)
        found, ours = converted(frame)
        assert ours and np.array_equal(found, swscale(frame))
        wrapped += int((found[250:, 255, 2] == 0).sum())
    assert wrapped == (6 * 256 if color_range == LIMITED else 0)


NAMES = [f"yuv{j}{sampling}p" for j in ("", "j") for sampling in SAMPLINGS]
NAMES += ["yuv420p9le", "yuv420p10le", "yuv422p10le", "yuv440p10le", "yuv444p10le", "yuv420p12le", "yuv422p12le", "yuv444p12le"]


SIZES = [(32, 8), (48, 8), (66, 48), (94, 10), (96, 9), (97, 10), (40, 4), (48, 6), (30, 20), (400, 30)]


@pytest.mark.parametrize("name", NAMES)
def test_formats(name):
    """Ranges and sizes; the kernel makes all pixels but those of frames that are too small or of odd size."""
    _, halved_x, halved_y = layout(name)
    for seed, (width, height) in enumerate(SIZES):
        for color_range in (UNSPECIFIED, LIMITED, FULL):
            frame = noisy(name, width, height, color_range, seed)
            found, ours = converted(frame)
            assert np.array_equal(found, swscale(frame)), (width, height, color_range)
            odd = bool(width & halved_x or height & halved_y)
            small = width < 32 or (halved_y and height < 8) or (width, height) == (48, 8)
            assert ours == (not odd and not small), (width, height)


OTHERS = ["gray", "rgb24", "bgr24", "gbrp", "nv12", "yuyv422", "yuv410p", "yuv411p", "yuva420p", "yuv420p16le", "pal8"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_are_left_to_swscale(name):
    frame = av.VideoFrame(64, 16, name)
    for plane in frame.planes:
        samples = np.frombuffer(plane, np.uint8)
        samples[:] = np.random.default_rng(0).integers(0, 256, len(samples), np.uint8)
    found, ours = converted(frame)
    assert not ours and np.array_equal(found, swscale(frame))


def test_samples_with_too_many_bits():
    """swscale limits them, so the kernel hands the frame over."""
    for plane in range(3):
        planes = [np.full((16 >> (k > 0), 64 >> (k > 0)), 700, np.uint16) for k in range(3)]
        planes[plane][-1, -1] = 1024
        frame = frame_of("yuv420p10le", planes)
        assert np.array_equal(converted(frame)[0], swscale(frame))
        planes[plane][-1, -1] = 1023
        colours = FrameColours(av, "h264")
        colours.see(frame)
        kernel = colours._kernel(frame)
        target = np.empty((16, 64, 3), np.uint8)
        assert not kernel.convert(frame, target) and kernel.convert(frame_of("yuv420p10le", planes), target)


CODECS = [
    ("libvpx-vp9", "webm", "yuv420p", False), ("libvpx-vp9", "webm", "yuv444p", False), ("mpeg4", "mp4", "yuv420p", True),
    ("mpeg2video", "mkv", "yuv420p", True), ("mjpeg", "avi", "yuvj420p", False), ("mjpeg", "avi", "yuvj422p", False),
    ("ffv1", "mkv", "yuv422p10le", None), ("ffv1", "mkv", "yuv420p", None),
]  # fmt: skip


@pytest.mark.parametrize("codec, suffix, pixels, left", CODECS)
def test_streams(tmp_path, codec, suffix, pixels, left):
    """The place of chroma depends on the stream: MPEG-4 has it at the left pixel, VP9 and JPEG between two pixels."""
    path = write_video(tmp_path / f"v.{suffix}", 9, codec=codec, pixels=pixels, images=photographs(9, 48, 96), strict="-1")
    colours, found = FrameColours(av, "h264"), np.empty((48, 96, 3), np.uint8)
    with av.open(path) as container:
        for frame in container.decode(video=0):
            colours.see(frame)
            colours.write(frame, found)
            assert np.array_equal(found, swscale(frame))
            colours.see(frame)
            kernel = colours._kernel(frame)
            assert kernel is not None and (left is None or kernel._left == left)


@pytest.mark.parametrize("codec, probes", [("vp9", 1), ("mjpeg", 1), ("mpeg2video", 4), ("h264", 4)])
def test_how_often_the_place_of_chroma_is_looked_for(codec, probes, monkeypatch, tmp_path):
    """At each key frame; once if the codec's headers do not have the place."""
    colours, found, made = FrameColours(av, codec), np.empty((48, 66, 3), np.uint8), []
    genuine = FrameColours._chosen
    monkeypatch.setattr(FrameColours, "_chosen", lambda self, *rest: made.append(rest) or genuine(self, *rest))
    path = write_video(tmp_path / "v.mkv", 12, codec="mpeg2video", images=photographs(12), gop=3)
    with av.open(path) as container:
        for frame in container.decode(video=0):
            colours.see(frame)
            colours.write(frame, found)
    assert len(made) == probes


def test_a_library_with_other_pixels(monkeypatch):
    """If swscale's pixels are not those of the kernel, swscale is used."""
    frame = noisy("yuv420p", 64, 16)
    genuine = FrameColours._by_swscale
    monkeypatch.setattr(FrameColours, "_by_swscale", lambda self, convert, frame: genuine(self, convert, frame) ^ 1)
    found, ours = converted(frame)
    assert not ours and np.array_equal(found, swscale(frame) ^ 1)


@pytest.mark.parametrize("name", ["yuv420p", "yuv422p10le", "yuv444p", "yuv440p12le"])
@pytest.mark.parametrize("width, height", [(32, 8), (62, 12), (64, 8), (98, 10)])
def test_the_kernel_stays_in_its_memory(name, width, height):
    """Planes, scratch and pixels end at guard pages, so an access outside ends the process."""
    bits, halved_x, halved_y = layout(name)
    kind = np.dtype(np.uint8 if bits == 8 else np.uint16)
    sizes = [(height, width), *[(height >> halved_y, width >> halved_x)] * 2]
    planes = [Guarded(rows * columns * kind.itemsize) for rows, columns in sizes]
    for plane, (rows, columns) in zip(planes, sizes, strict=True):
        plane.last(rows * columns * kind.itemsize)[:] = 1 if bits == 8 else 0
    scratch, out = Guarded(6 * (width + 2)), Guarded(3 * width * height)
    addresses = [plane.last(rows * columns * kind.itemsize).ctypes.data for plane, (rows, columns) in zip(planes, sizes, strict=True)]
    for left in (0, 1):
        pixels = out.last(3 * width * height)
        pixels[:] = 7
        table, _ = FRAMES.make(
            stride_luma=width * kind.itemsize, stride_blue=sizes[1][1] * kind.itemsize, stride_red=sizes[2][1] * kind.itemsize,
            width=width, height=height, halved_x=halved_x, halved_y=halved_y, left=left, bits=bits, matrix=matrix(True, bits),
            scratch=scratch.last(6 * (width + 2)),
        )  # fmt: skip
        assert convert_frame(table.ctypes.data, *addresses, pixels.ctypes.data) == 0
        assert not (pixels == 7).all()
