"""JPEG files of many encoders, each with random settings, from the encoders of this machine.

The optional encoders are the packages jpeglib (libjpeg 6b to 9f, mozjpeg 1 to 4, libjpeg-turbo 1.2 to 2.1), pyvips, simplejpeg,
imagecodecs, pyguetzli and mozjpeg-lossless-optimization, and the commands cjpeg and jpegtran. Pillow, OpenCV, FFmpeg and the writer below
are always there.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .images import encode, encode_cv, exif, picture
from .jpeg_writer import write

Encoder = Callable[[np.ndarray, np.random.Generator], "bytes | None"]


def draw_picture(rng: np.random.Generator) -> np.ndarray:
    """A picture of 1 to 256 pixels a side: waves, noise, edges, a flat one, or a mixture; one in five is grey (two dimensions)."""
    height, width = (int(v) for v in np.exp(rng.uniform(np.log(1 if rng.random() < 0.1 else 5), np.log(256), 2)).round())
    kind, channels = rng.integers(5), 1 if rng.random() < 0.2 else 3
    waves = picture(height, width, channels, seed=int(rng.integers(1 << 30))).reshape(height, width, channels)
    noise = rng.integers(0, 256, waves.shape, np.uint8)
    coarse = rng.integers(0, 256, (-(-height // 9), -(-width // 9), channels), np.uint8).repeat(9, 0).repeat(9, 1)[:height, :width]
    edges = np.where(coarse > 128, 255, 0).astype(np.uint8)
    mixed = np.where(rng.random((height, width, 1)) < 0.3, noise, waves // 2 + coarse // 2)
    flat = np.broadcast_to(rng.integers(0, 256, channels).astype(np.uint8), waves.shape)
    image = np.ascontiguousarray([waves, noise, edges, mixed, flat][kind])
    return image[:, :, 0].copy() if channels == 1 else image


def _quality(rng: np.random.Generator) -> int:
    return int(rng.choice([1, 5, 10, 20, 30, 50, 75, 85, 90, 95, 98, 100, int(rng.integers(1, 101))]))


def _pillow(image: np.ndarray, rng: np.random.Generator) -> bytes | None:
    options: dict = {"quality": _quality(rng), "optimize": bool(rng.random() < 0.3), "progressive": bool(rng.random() < 0.4)}
    if image.ndim == 3:
        options["subsampling"] = int(rng.integers(3))
    if rng.random() < 0.2:
        options["qtables"] = [rng.integers(1, 256, 64).tolist() for _ in range(int(rng.integers(1, 4)))]
    if rng.random() < 0.3:
        options[str(rng.choice(["restart_marker_blocks", "restart_marker_rows"]))] = int(rng.integers(1, 9))
    if rng.random() < 0.3:
        options |= {"icc_profile": rng.bytes(int(rng.integers(1, 90_000))), "comment": rng.bytes(50), "dpi": (72, 72)}
    if rng.random() < 0.3:
        options["exif"] = b"Exif\0\0" + exif(int(rng.integers(1, 9)))
    try:
        return encode(image, "JPEG", **options)
    except OSError:  # a segment of a tiny picture is larger than Pillow's buffer
        return None


def _opencv(image: np.ndarray, rng: np.random.Generator) -> bytes:
    import cv2

    options = [cv2.IMWRITE_JPEG_QUALITY, _quality(rng), cv2.IMWRITE_JPEG_OPTIMIZE, int(rng.integers(2))]
    options += [cv2.IMWRITE_JPEG_PROGRESSIVE, int(rng.random() < 0.4), cv2.IMWRITE_JPEG_RST_INTERVAL, int(rng.choice([0, 0, 1, 3, 40]))]
    if image.ndim == 3:
        sampling = rng.choice(["444", "422", "420", "440", "411"], p=[0.24, 0.24, 0.24, 0.24, 0.04])
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")]
        options += [cv2.IMWRITE_JPEG_CHROMA_QUALITY, _quality(rng)] if rng.random() < 0.3 else []
    return encode_cv(image, ".jpg", options)


def _ffmpeg(image: np.ndarray, rng: np.random.Generator) -> bytes:
    import av

    rgb = image if image.ndim == 3 else image[:, :, None].repeat(3, 2)
    codec = av.CodecContext.create("mjpeg", "w")
    codec.height, codec.width = rgb.shape[:2]
    codec.pix_fmt = str(rng.choice(["yuvj420p", "yuvj422p", "yuvj444p"], p=[0.8, 0.1, 0.1]))
    codec.time_base = Fraction(1)
    quality = str(rng.integers(1, 32))
    codec.options = {"huffman": str(rng.choice(["default", "optimal"])), "qmin": quality, "qmax": quality}
    codec.options |= {"threads": "1", "slices": "1"}  # with slices, some files have restart markers out of turn
    frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format=codec.pix_fmt)
    packets = [*codec.encode(frame), *codec.encode(None)]
    return b"".join(bytes(packet) for packet in packets)


def _own_writer(image: np.ndarray, rng: np.random.Generator) -> bytes:
    return write(image, rng)


_SAMPLINGS = [((1, 1), (1, 1), (1, 1)), ((2, 1), (1, 1), (1, 1)), ((2, 2), (1, 1), (1, 1)), ((1, 2), (1, 1), (1, 1))]
_ODD_SAMPLINGS = [
    ((4, 1), (1, 1), (1, 1)),
    ((2, 2), (2, 1), (1, 1)),
    ((1, 1), (2, 2), (1, 1)),
    ((3, 1), (1, 1), (1, 1)),
    ((2, 2), (2, 2), (2, 2)),
]


def _sampling(rng: np.random.Generator) -> tuple[tuple[int, int], ...]:
    choices = _SAMPLINGS if rng.random() < 0.95 else _ODD_SAMPLINGS
    return choices[rng.integers(len(choices))]


def _libjpegs(family: str) -> Encoder:
    """The versions of jpeglib whose names begin with `family`."""

    def encoder(image: np.ndarray, rng: np.random.Generator) -> bytes | None:
        import jpeglib

        versions = sorted(v for v in jpeglib.version.versions() if (v.startswith(family) if family.isalpha() else v[0].isdigit()))
        jpeglib.version.set(str(rng.choice(versions)))
        made = jpeglib.from_spatial(image.reshape(*image.shape[:2], -1))
        if image.ndim == 3:
            made.samp_factor = _sampling(rng)
        flags = [f"{'+' if rng.random() < 0.4 else '-'}{name}" for name in ("PROGRESSIVE_MODE", "OPTIMIZE_CODING")]
        if family == "mozjpeg" and rng.random() < 0.5:
            flags = [f"{'+' if rng.random() < 0.5 else '-'}{name}" for name in ("TRELLIS_QUANT", "OPTIMIZE_SCANS", "OVERSHOOT_DERINGING")]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.jpg")
            try:
                made.write_spatial(path, qt=_quality(rng), smoothing_factor=int(rng.choice([0, 0, 30])), flags=flags)
            except OSError:
                return None
            with open(path, "rb") as file:
                return file.read()

    return encoder


def _vips(image: np.ndarray, rng: np.random.Generator) -> bytes:
    import pyvips

    options = {"Q": _quality(rng), "optimize_coding": bool(rng.integers(2)), "interlace": bool(rng.random() < 0.4)}
    options |= {"subsample_mode": str(rng.choice(["on", "off"])), "quant_table": int(rng.integers(9))}
    options["restart_interval"] = int(rng.choice([0, 5]))
    options |= {name: bool(rng.integers(2)) for name in ("trellis_quant", "overshoot_deringing", "optimize_scans")}
    return pyvips.Image.new_from_array(image).jpegsave_buffer(**options)


def _simplejpeg(image: np.ndarray, rng: np.random.Generator) -> bytes:
    import simplejpeg

    if image.ndim == 2:
        return simplejpeg.encode_jpeg(image[:, :, None].copy(), quality=_quality(rng), colorspace="GRAY", colorsubsampling="GRAY")
    sampling = str(rng.choice(["444", "422", "420", "440"]))
    return simplejpeg.encode_jpeg(image, quality=_quality(rng), colorsubsampling=sampling, fastdct=bool(rng.integers(2)))


def _imagecodecs(image: np.ndarray, rng: np.random.Generator) -> bytes:
    import imagecodecs

    options = {"subsampling": str(rng.choice(["444", "422", "420", "440"]))} if image.ndim == 3 else {}
    return imagecodecs.jpeg8_encode(image, level=_quality(rng), optimize=bool(rng.integers(2)), **options)


def _guetzli(image: np.ndarray, rng: np.random.Generator) -> bytes | None:
    from PIL import Image
    from pyguetzli import process_pil_image

    image = image[:40, :40]  # guetzli takes a second for each 100,000 pixels
    return process_pil_image(Image.fromarray(image).convert("RGB"), int(rng.integers(84, 101)))


def _mozjpeg_lossless(image: np.ndarray, rng: np.random.Generator) -> bytes:
    import mozjpeg_lossless_optimization

    return mozjpeg_lossless_optimization.optimize(_opencv(image, rng))


def _pnm(image: np.ndarray) -> bytes:
    height, width = image.shape[:2]
    return b"P%d\n%d %d\n255\n" % (6 if image.ndim == 3 else 5, width, height) + image.tobytes()


def draw_script(components: int, rng: np.random.Generator) -> str:
    """A progressive script that libjpeg accepts: any bands, any number of steps of refining."""
    lines, shift = [], int(rng.integers(0, 3))
    names = [str(k) for k in range(components)]
    first = [",".join(names)] if rng.random() < 0.7 else names
    lines += [f"{part}: 0-0, 0, {shift};" for part in first]
    bands = []
    for name in names:
        cuts = sorted({1, *(int(v) for v in rng.integers(2, 64, int(rng.integers(0, 4)))), 64})
        bands += [[name, a, b - 1, int(rng.integers(0, 4))] for a, b in itertools.pairwise(cuts)]
    rng.shuffle(bands)
    lines += [f"{name}: {a}-{b}, 0, {low};" for name, a, b, low in bands]
    late = [[",".join(names), 0, 0, shift]] if rng.random() < 0.7 else [[name, 0, 0, shift] for name in names]
    waiting = [[str(name), int(a), int(b), int(low)] for name, a, b, low in [*bands, *late] if int(low) > 0]
    while waiting:
        at = int(rng.integers(len(waiting)))
        name, a, b, low = waiting[at]
        lines.append(f"{name}: {a}-{b}, {low}, {low - 1};")
        waiting[at][3] = low - 1
        if low == 1:
            waiting.pop(at)
    return "\n".join(lines)


def _cjpeg(image: np.ndarray, rng: np.random.Generator) -> bytes | None:
    options = ["-quality", ",".join(str(_quality(rng)) for _ in range(1 if rng.random() < 0.8 else 3))]
    options += ["-baseline"] if rng.random() < 0.6 else []
    options += ["-optimize"] if rng.random() < 0.3 else []
    options += ["-restart", str(rng.choice(["1", "4B", "2"]))] if rng.random() < 0.3 else []
    options += ["-dct", str(rng.choice(["int", "fast", "float"])), "-smooth", str(rng.choice([0, 0, 50]))]
    if image.ndim == 3:
        options += ["-sample", ",".join(f"{h}x{v}" for h, v in _sampling(rng))]
    odd = rng.random()
    options += ["-arithmetic"] if odd < 0.02 else ["-rgb"] if odd < 0.04 and image.ndim == 3 else ["-grayscale"] if odd < 0.1 else []
    grey = image.ndim == 2 or "-grayscale" in options
    with tempfile.TemporaryDirectory() as folder:
        if rng.random() < 0.4:
            path = os.path.join(folder, "scans")
            with open(path, "w", encoding="ascii") as file:
                file.write(draw_script(1 if grey else 3, rng))
            options += ["-scans", path]
        elif rng.random() < 0.2:
            options += ["-progressive"]
        return _run("cjpeg", options, _pnm(image))


def _jpegtran(image: np.ndarray, rng: np.random.Generator) -> bytes | None:
    options = [["-rotate", "90"], ["-rotate", "180"], ["-rotate", "270"], ["-flip", "horizontal"], ["-transpose"], ["-transverse"], []]
    chosen = list(options[rng.integers(len(options))])
    chosen += ["-trim"] if chosen and rng.random() < 0.3 else []
    if rng.random() < 0.3:
        height, width = image.shape[:2]
        chosen += ["-crop", f"{int(rng.integers(1, width + 1))}x{int(rng.integers(1, height + 1))}+0+0"]
    chosen += [["-optimize"], ["-progressive"], ["-restart", "3"], ["-grayscale"], []][rng.integers(5)]
    chosen += ["-copy", str(rng.choice(["all", "none"]))]
    return _run("jpegtran", chosen, [_opencv, _own_writer][rng.integers(2)](image, rng))


def _run(command: str, options: list[str], data: bytes) -> bytes | None:
    done = subprocess.run([command, *options], input=data, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 and done.stdout else None


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def encoders() -> dict[str, Encoder]:
    """The encoders of this machine by name. An encoder returns None for a picture or settings that it refuses."""
    found: dict[str, Encoder] = {"Pillow": _pillow, "OpenCV": _opencv, "the writer of the tests": _own_writer}
    if _has("av"):
        found["FFmpeg"] = _ffmpeg
    if _has("jpeglib"):
        found |= {"libjpeg 6b to 9f": _libjpegs("6"), "mozjpeg 1 to 4": _libjpegs("mozjpeg")}
        found["libjpeg-turbo 1.2 to 2.1"] = _libjpegs("turbo")
    for name, package, encoder in (
        ("libvips", "pyvips", _vips), ("simplejpeg", "simplejpeg", _simplejpeg), ("imagecodecs", "imagecodecs", _imagecodecs),
        ("guetzli", "pyguetzli", _guetzli), ("mozjpeg's lossless optimisation", "mozjpeg_lossless_optimization", _mozjpeg_lossless),
    ):  # fmt: skip
        if _has(package):
            found[name] = encoder
    if shutil.which("cjpeg"):
        found["cjpeg"] = _cjpeg
    if shutil.which("jpegtran"):
        found["jpegtran"] = _jpegtran
    return found
