"""Video files of numbered grey frames, written by PyAV."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

STEP = 6
"""Difference of grey between a frame and the next one."""


def write_video(
    path: Path, count: int, first: int = 0, codec: str = "libvpx-vp9", size: tuple[int, int] = (16, 32), rate: int = 25, gop: int = 5,
    times: list[int] | None = None, pixels: str = "yuv420p", images: np.ndarray | None = None, **options: str,
) -> str:  # fmt: skip
    """Write `count` frames, the k-th of grey `first` + STEP * k, or `images` (uint8[count, height, width, 3]); lossless VP9.

    `times` in milliseconds, instead of a constant `rate`. `gop`: number of frames from one key frame to the next.
    """
    import av

    options = options or ({"lossless": "1"} if codec == "libvpx-vp9" else {})
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate)
        stream.height, stream.width = size if images is None else images.shape[1:3]
        stream.pix_fmt, stream.gop_size, stream.options = pixels, gop, dict(options)
        if times is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for k in range(count):
            image = np.full((*size, 3), first + STEP * k, np.uint8) if images is None else images[k]
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[k], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return str(path)


def frame_numbers(frames: np.ndarray, first: int = 0) -> list[int]:
    """The numbers of these frames (uint8[frames, height, width, channels]) in a file of :func:`write_video`."""
    return [round((int(frame[8, 8, 0]) - first) / STEP) for frame in np.asarray(frames)]


def photographs(count: int, height: int = 48, width: int = 66) -> np.ndarray:
    """Moving frames with edges and colours: uint8[count, height, width, 3]."""
    rows, columns = np.mgrid[:height, :width]
    frames = [np.stack([(columns * 3 + 9 * k) % 256, (rows * 5 + columns * k) % 256, ((rows // 7 + columns // 9 + k) % 2) * 200], -1)
              for k in range(count)]  # fmt: skip
    return np.array(frames, np.uint8)
