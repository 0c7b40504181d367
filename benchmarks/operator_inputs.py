"""The inputs of ``benchmarks.operators``: one batch of each kind, made once, the same for both libraries."""

from __future__ import annotations

import glob
import io
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .pictures import picture_folder

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

RATE = 16000
SECONDS = 4


@dataclass(frozen=True)
class Kind:
    """A batch to feed: an array uint8[batch, ...] or a list of arrays, and the layout of a sample."""

    data: Any
    layout: str = ""


def _random() -> np.random.Generator:
    return np.random.default_rng(5)


@cache
def encoded_photos() -> tuple[bytes, ...]:
    """Eight JPEGs of the picture folder."""
    paths = sorted(glob.glob(os.path.join(picture_folder(None), "*", "*.jp*g")))
    return tuple(Path(path).read_bytes() for path in paths[:: max(1, len(paths) // 8)][:8])


@cache
def photos(count: int = 8) -> np.ndarray:
    """Photographs, uint8[count, 375, 500, 3]."""
    from PIL import Image

    opened = (Image.open(io.BytesIO(data)).convert("RGB").resize((500, 375)) for data in encoded_photos()[:count])
    return np.ascontiguousarray([np.asarray(image) for image in opened])


@cache
def sound(count: int = 8) -> np.ndarray:
    """Four seconds at 16 kHz, float32[count, 64000]: bursts of coloured noise and tones between quiet parts, like speech."""
    random, time = _random(), np.arange(RATE * SECONDS) / RATE
    loud = (np.sin(2 * np.pi * 1.3 * time) > -0.2) * (time > 0.4) * (time < 3.5)
    signals = [
        loud * (np.sin(2 * np.pi * (110 + 30 * k) * time) * 0.3 + random.normal(0, 0.05, len(time))) + random.normal(0, 1e-4, len(time))
        for k in range(count)
    ]
    return np.float32(signals)


def _encoded_sound(format: str, subtype: str | None = None) -> list[np.ndarray]:
    import soundfile

    encoded = []
    for signal in sound():
        file = io.BytesIO()
        soundfile.write(file, signal, RATE, format=format, subtype=subtype)
        encoded.append(np.frombuffer(file.getvalue(), np.uint8))
    return encoded


def _encoded_images(format: str, **options: Any) -> list[np.ndarray]:
    from PIL import Image

    encoded = []
    for image in photos():
        file = io.BytesIO()
        Image.fromarray(image).save(file, format, **options)
        encoded.append(np.frombuffer(file.getvalue(), np.uint8))
    return encoded


def _boxes(batch: int = 64, count: int = 20) -> np.ndarray:
    """Boxes as left, top, right, bottom in 0 to 1: float32[batch, count, 4]."""
    corners = np.sort(_random().uniform(0, 1, (batch, count, 2, 2)), axis=2)
    return np.float32(corners.reshape(batch, count, 4))


def _spots(batch: int = 8) -> np.ndarray:
    """Masks with some objects: int32[batch, 120, 160]."""
    random, masks = _random(), np.zeros((batch, 120, 160), np.int32)
    for mask in masks:
        for label in range(1, 5):
            y, x = random.integers(0, 90), random.integers(0, 120)
            mask[y : y + random.integers(8, 30), x : x + random.integers(8, 40)] = label
    return masks


def _npy() -> list[np.ndarray]:
    encoded = []
    for image in photos():
        file = io.BytesIO()
        np.save(file, image)
        encoded.append(np.frombuffer(file.getvalue(), np.uint8))
    return encoded


@cache
def video_file() -> str:
    """A video of 60 frames of 320x240 in VP9, key frames ten apart."""
    from helpers.videos import photographs, write_video

    path = Path(tempfile.gettempdir()) / "asyncdali-bench-operators.webm"
    if not path.exists():
        write_video(path, 60, codec="libvpx-vp9", images=photographs(60, 240, 320), gop=10, crf="30")
    return str(path)


def _names() -> list[np.ndarray]:
    return [np.frombuffer(path.encode(), np.uint8) for path in photo_paths() for _ in range(8)]


@cache
def photo_paths() -> tuple[str, ...]:
    """The folder of the eight JPEGs."""
    folder = Path(tempfile.gettempdir()) / "asyncdali-bench-operators"
    folder.mkdir(exist_ok=True)
    for k, data in enumerate(encoded_photos()):
        (folder / f"{k}.jpg").write_bytes(data)
    return tuple(str(folder / f"{k}.jpg") for k in range(8))


def _spectrum() -> np.ndarray:
    frames = np.lib.stride_tricks.sliding_window_view(sound(), 400, axis=1)[:, ::160]
    return np.ascontiguousarray(np.abs(np.fft.rfft(frames, 512, axis=-1)).transpose(0, 2, 1) ** 2, np.float32)


MAKERS: dict[str, Callable[[], Kind]] = {
    "photo": lambda: Kind(photos(), "HWC"),
    "other": lambda: Kind(np.ascontiguousarray(photos()[::-1]), "HWC"),
    "gray": lambda: Kind(np.ascontiguousarray(photos()[..., :1]), "HWC"),
    "floats": lambda: Kind(photos().astype(np.float32), "HWC"),
    "shorts": lambda: Kind(photos().astype(np.int16), "HWC"),
    "positive": lambda: Kind((photos().astype(np.float32) + 1) / 256, "HWC"),
    "planes": lambda: Kind(np.ascontiguousarray(photos().transpose(0, 3, 1, 2)), "CHW"),
    "volume": lambda: Kind(_random().integers(0, 255, (4, 48, 96, 96, 1), np.uint8), "DHWC"),
    "sequence": lambda: Kind(np.ascontiguousarray(photos().repeat(6, 0).reshape(8, 6, 375, 500, 3)[:4, :, :120, :160]), "FHWC"),
    "sound": lambda: Kind(sound()),
    "pcm": lambda: Kind(np.int16(sound() * 32767)),
    "spectrum": lambda: Kind(_spectrum(), "ft"),
    "mel": lambda: Kind(np.ascontiguousarray(_spectrum()[:, :80]), "ft"),
    "boxes": lambda: Kind(_boxes()),
    "image_boxes": lambda: Kind(_boxes(8)),
    "labels": lambda: Kind(_random().integers(1, 9, (64, 20), np.int32)),
    "image_labels": lambda: Kind(_random().integers(1, 9, (8, 20), np.int32)),
    "points": lambda: Kind(np.float32(_random().uniform(0, 500, (64, 1000, 2)))),
    "matrix": lambda: Kind(np.float32(_random().uniform(-1, 1, (64, 2, 3)))),
    "warp": lambda: Kind(np.float32([[[0.97, -0.26, 30], [0.26, 0.97, -20]]]).repeat(8, 0)),
    "homography": lambda: Kind(np.float32([[[0.97, -0.2, 30], [0.2, 0.97, -20], [1e-4, 2e-4, 1]]]).repeat(8, 0)),
    "scalar": lambda: Kind(_random().integers(0, 9, (64,), np.int32)),
    "probability": lambda: Kind(np.float32(_random().uniform(0, 1, (64,)))),
    "scalar8": lambda: Kind(_random().integers(0, 9, (8,), np.int32)),
    "shape": lambda: Kind(np.int64([[375, 500, 3]]).repeat(64, 0)),
    "window": lambda: Kind(np.float32(np.full((8, 5, 5), 1 / 25))),
    "spots": lambda: Kind(_spots()),
    "polygons": lambda: Kind(np.int32([[[0, 0, 4], [1, 4, 9], [2, 9, 14]]]).repeat(64, 0)),
    "vertices": lambda: Kind(np.float32(_random().uniform(0, 1, (64, 14, 2)))),
    "mask_ids": lambda: Kind(np.int32([[0, 2]]).repeat(64, 0)),
    "choices": lambda: Kind(np.arange(64 * 10, dtype=np.int64).reshape(64, 10)),
    "jpeg": lambda: Kind([np.frombuffer(data, np.uint8) for data in encoded_photos()]),
    "png": lambda: Kind(_encoded_images("PNG")),
    "wav": lambda: Kind(_encoded_sound("WAV")),
    "flac": lambda: Kind(_encoded_sound("FLAC")),
    "ogg": lambda: Kind(_encoded_sound("OGG", "VORBIS")),
    "npy": lambda: Kind(_npy()),
    "video": lambda: Kind([np.fromfile(video_file(), np.uint8)]),
    "names": lambda: Kind(_names()),
}  # fmt: skip


@cache
def batch_of(name: str) -> Kind:
    """The batch of this kind."""
    return MAKERS[name]()
