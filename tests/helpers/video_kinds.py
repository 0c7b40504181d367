"""Numbered videos in every container that FFmpeg writes, written by PyAV."""

from __future__ import annotations

import functools
import io
import tempfile
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from asyncdali.codecs.video.frame_colours import FrameColours

COUNT = 29
B_FRAMES, X264 = {"bf": "2"}, {"bf": "3"}
OPEN, OPEN_265 = {"bf": "3", "x264-params": "open-gop=1"}, {"x265-params": "log-level=none:keyint=9:open-gop=1"}
HIDDEN = {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "200k"}
REFRESHED = {"intra-refresh": "1", "x264-params": "scenecut=0:keyint=12"}


def picture(number: int, height: int, width: int) -> np.ndarray:
    """A moving picture whose upper half shows the number in binary."""
    rows, columns = np.mgrid[:height, :width]
    image = np.repeat(((columns * 3 + rows * 5 + 11 * number) % 200).astype(np.uint8)[..., None], 3, 2)
    image[height // 2 :, 5 * number % width :][:, :9] = 250
    for bit in range(6):
        image[4 : height // 2, 4 + bit * (width - 8) // 6 : 4 + (bit + 1) * (width - 8) // 6] = 220 if number >> bit & 1 else 30
    return image


def shown_number(image: np.ndarray) -> int:
    height, width = image.shape[:2]
    middles = (4 + bit * (width - 8) // 6 + (width - 8) // 12 for bit in range(6))
    return sum((int(image[height // 4, middle].mean()) > 125) << bit for bit, middle in enumerate(middles))


def write(path, codec, options=None, *, count=COUNT, size=(48, 64), pixels="yuv420p", kind=None, times=None, rate=25, gop=9, change=None,
          sound=None, sound_first=False, muxer=None, first=None):  # fmt: skip
    """`change(packet)` is called before a packet is written. `first`: (codec, pixels, count) of a video stream before the numbered one."""
    with av.open(str(path), "w", format=kind, options=muxer or {}) as container:
        if first is not None:
            before = container.add_stream(first[0], rate=rate)
            before.height, before.width, before.pix_fmt = 32, 32, first[1]
        voice = container.add_stream(sound, rate=48000) if sound and sound_first else None
        stream = container.add_stream(codec, rate=rate, options={"g": str(gop), **(options or {})})
        stream.height, stream.width, stream.pix_fmt = *size, pixels
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        if sound:
            voice = voice or container.add_stream(sound, rate=48000)
            kind_of, layout = (np.int16, "s16") if sound == "mp2" else (np.float32, "fltp")
            samples = av.AudioFrame.from_ndarray(np.zeros((1, 48000), kind_of), format=layout, layout="mono")
            samples.rate, samples.pts, samples.time_base = 48000, 0, Fraction(1, 48000)
            container.mux(voice.encode(samples) + voice.encode(None))
        if first is not None:
            frames = [av.VideoFrame.from_ndarray(picture(63, 32, 32), "rgb24").reformat(format=first[1]) for _ in range(first[2])]
            container.mux([packet for frame in [*frames, None] for packet in before.encode(frame)])
        for number in [*range(count), None]:
            frame = None
            if number is not None:
                frame = av.VideoFrame.from_ndarray(picture(number % 64, *size), "rgb24").reformat(format=pixels)
                if times is not None:
                    frame.pts, frame.time_base = times[number], Fraction(1, 1000)
            for packet in stream.encode(frame):
                if change is not None:
                    change(packet)
                container.mux(packet)
    return str(path)


def no_time(packet):
    packet.pts = packet.dts = 0


KINDS = {
    "a.mp4": ("mpeg4",), "b.mp4": ("libx264", X264), "bm.mp4": ("mpeg4", B_FRAMES), "a.mov": ("libx264", X264),
    "prores.mov": ("prores_ks", {}, {"pixels": "yuv422p10le"}), "open.mp4": ("libx264", OPEN), "open265.mp4": ("libx265", OPEN_265),
    "refreshed.mp4": ("libx264", REFRESHED), "av1.mp4": ("libsvtav1", {"preset": "12", "svtav1-params": "keyint=9"}),
    "fragments.mp4": ("libx264", X264, {"muxer": {"movflags": "frag_keyframe+empty_moov"}}),
    "ten.mp4": ("libx264", X264, {"pixels": "yuv420p10le"}), "one.mp4": ("libx264", X264, {"count": 1}),
    "fields.mp4": ("libx264", {"bf": "2", "x264-params": "interlaced=1"}), "zeros.mp4": ("mpeg4", {}, {"change": no_time}),
    "a.3gp": ("h263", {}, {"size": (144, 176)}), "a.ismv": ("libx264", X264),
    "b.mkv": ("libx264", X264), "bm.mkv": ("mpeg4", B_FRAMES), "m2.mkv": ("mpeg2video", B_FRAMES),
    "odd.mkv": ("libx264", X264, {"size": (45, 67), "pixels": "yuv444p"}), "zeros.mkv": ("libvpx-vp9", {}, {"change": no_time}),
    "zeros_b.mkv": ("libx264", X264, {"change": no_time}),
    "uneven.mkv": ("libx264", X264, {"times": [k * 40 + k * k * 7 % 30 for k in range(COUNT)]}),
    "before.mkv": ("libvpx-vp9", {}, {"times": [40 * k - 400 for k in range(COUNT)]}),
    "v8.webm": ("libvpx", HIDDEN), "v9.webm": ("libvpx-vp9",), "v8.ogv": ("libvpx", {}, {"kind": "ogg"}),
    "a.avi": ("mpeg4",), "b.avi": ("mpeg4", B_FRAMES), "x.avi": ("libx264", X264), "m2.avi": ("mpeg2video", B_FRAMES),
    "m.avi": ("mjpeg", {}, {"pixels": "yuvj420p"}), "huff.avi": ("huffyuv", {}, {"pixels": "yuv422p"}), "raw.avi": ("rawvideo",),
    "x.ts": ("libx264", X264), "m2.ts": ("mpeg2video", B_FRAMES), "open.ts": ("libx264", OPEN), "open265.ts": ("libx265", OPEN_265),
    "refreshed.ts": ("libx264", REFRESHED), "x.m2ts": ("libx264", X264),
    "sound.ts": ("libx264", X264, {"sound": "aac", "sound_first": True}),
    "fields.ts": ("mpeg2video", {"flags": "+ilme+ildct", "bf": "2"}), "zeros.ts": ("mpeg2video", {}, {"change": no_time}),
    "wrapped.ts": ("libx264", X264, {"times": [40 * k + 95_443_200 for k in range(COUNT)]}), "one.ts": ("libx264", X264, {"count": 1}),
    "a.mpg": ("mpeg2video", B_FRAMES), "m1.mpg": ("mpeg1video", B_FRAMES), "a.vob": ("mpeg2video", B_FRAMES),
    "sound.mpg": ("mpeg2video", B_FRAMES, {"sound": "mp2", "sound_first": True}), "one.mpg": ("mpeg2video", B_FRAMES, {"count": 1}),
    "x.flv": ("libx264", X264), "a.flv": ("flv",), "a.swf": ("flv",),
    "a.h264": ("libx264", X264), "a.hevc": ("libx265", OPEN_265), "one.h264": ("libx264", X264, {"count": 1}),
    "a.m1v": ("mpeg1video", B_FRAMES, {"kind": "mpeg1video"}), "a.m2v": ("mpeg2video", B_FRAMES, {"kind": "mpeg2video"}),
    "a.m4v": ("mpeg4", B_FRAMES, {"kind": "m4v"}), "a.mjpeg": ("mjpeg", {}, {"pixels": "yuvj420p", "kind": "mjpeg"}),
    "a.gif": ("gif", {}, {"pixels": "rgb8"}), "a.apng": ("apng", {}, {"pixels": "rgb24"}),
    "a.y4m": ("rawvideo", {}, {"kind": "yuv4mpegpipe"}), "a.wmv": ("wmv2",), "a.asf": ("msmpeg4",),
    "a.rm": ("rv10", {}, {"size": (144, 176)}),
    "v9.ivf": ("libvpx-vp9",), "v8.ivf": ("libvpx", HIDDEN), "a.nut": ("mpeg4", B_FRAMES), "a.mxf": ("mpeg2video", B_FRAMES),
}  # fmt: skip


@functools.cache
def encoded(name: str, **other: int) -> bytes:
    """The contents of the file of a kind. Each is encoded once, because many tests read the same kinds."""
    codec, options, rest = (*KINDS[name], {}, {})[:3]
    with tempfile.TemporaryDirectory() as folder:
        return Path(write(Path(folder) / name, codec, options, **{**rest, **other})).read_bytes()


def made(path: Path, name: str, **other: int) -> str:
    """The file of a kind, with `other` arguments. Skips the test if this FFmpeg lacks the encoder or the container."""
    try:
        (path / name).write_bytes(encoded(name, **other))
        return str(path / name)
    except (av.FFmpegError, av.codec.codec.UnknownCodecError, ValueError) as error:
        pytest.skip(f"this FFmpeg cannot write {KINDS[name][0]} into {name}: {error}")


def count_of(name: str) -> int:
    """The frames of a kind."""
    return KINDS[name][2].get("count", COUNT) if len(KINDS[name]) > 2 else COUNT


def sequential(data: bytes, tolerant: bool = False) -> list[np.ndarray]:
    """All frames, decoded by PyAV from the beginning. `tolerant`: packets that cannot be decoded are skipped."""
    with av.open(io.BytesIO(data)) as container:
        stream = next(stream for stream in container.streams.video if not stream.disposition & av.stream.Disposition.attached_pic)
        colours, frames = FrameColours(av, stream.codec_context.name), []
        for packet in container.demux(stream):
            try:
                decoded = packet.decode() if packet.size or packet.dts is None else []
            except av.FFmpegError:
                if not tolerant:
                    raise
                continue
            for frame in decoded:
                frames.append(np.empty((frame.height, frame.width, 3), np.uint8))
                colours.see(frame)
                colours.write(frame, frames[-1])
    return frames
