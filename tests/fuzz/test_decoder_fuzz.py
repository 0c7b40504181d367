"""Hostile image data: mutated files of every format give an image or an error that names the sample, and nothing else."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import time
import zlib
from functools import cache

import cv2
import numpy as np
import pytest
from helpers.images import encode, encode_cv, exif, jpeg_blocks, picture, png_16, png_with_exif, segment, with_orientation
from helpers.operators import run_operator

import asyncdali.fn as fn
from asyncdali import pipeline_def, types
from asyncdali.operators.base import SampleError

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")  # Pillow warns about broken TIFF tags before it refuses them

SLOWEST = 60.0
"""Seconds of processor time that one small broken image may take, compiling kernels included."""
MEMORY = 2 << 30
"""Address space in bytes that a run may take in addition to the space in use."""


@cache
def seeds() -> list[bytes]:
    """One small file of each kind."""
    rgb, grey, rgba = picture(24, 36), picture(24, 36, 1), picture(24, 36, 4)
    wide = (rgb.astype(np.uint16) << 8) + 77
    jpegs = [
        encode(rgb, "JPEG", quality=80), encode(grey, "JPEG"), encode(rgb, "JPEG", progressive=True, subsampling=2),
        with_orientation(encode(rgb, "JPEG"), 6), jpeg_blocks(37, 29, [(2, 2), (1, 1), (1, 1)], restart=2),
        jpeg_blocks(20, 20, [(1, 1)] * 4, adobe=2), jpeg_blocks(40, 10, [(4, 1), (1, 1), (1, 1)]),
    ]  # fmt: skip
    pngs = [encode(rgb, "PNG"), encode(rgba, "PNG"), png_16(wide), png_with_exif(rgb, 5)]
    tiffs = [
        encode(rgb, "TIFF"), encode(grey, "TIFF", compression="tiff_lzw"), encode(rgba, "TIFF", compression="tiff_deflate"),
        encode_cv(wide, ".tiff"), encode(rgb, "TIFF", compression="jpeg"),
    ]  # fmt: skip
    webps = [encode(rgb, "WEBP", quality=70), encode(rgba, "WEBP", lossless=True), encode(rgb, "WEBP", exif=exif(3))]
    rest = [
        encode(rgb, "BMP"), encode(grey, "BMP"), encode(rgb, "PPM"), b"P2\n3 2\n255\n1 2 3 4 5 6\n", b"P4\n# x\n9 2\n\1\2\3\4",
        encode(rgb, "JPEG2000"), encode(rgb, "JPEG2000", no_jp2=True),
    ]  # fmt: skip
    return jpegs + pngs + tiffs + webps + rest


def mutated(rng: np.random.Generator) -> bytes:
    """A seed file with one kind of damage: accidental, or as in an attack."""
    files = seeds()
    data = bytearray(files[rng.integers(len(files))])
    if data[:4] == b"\x89PNG" and rng.random() < 0.5:
        return with_valid_sums(data, rng)
    kind = rng.integers(7)
    if kind == 0:  # one bit anywhere
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    elif kind == 1:  # some bytes
        for _ in range(int(rng.integers(1, 12))):
            data[rng.integers(len(data))] = int(rng.integers(256))
    elif kind == 2:  # truncation
        del data[int(rng.integers(len(data))) :]
    elif kind == 3:  # something in the header
        data[rng.integers(min(64, len(data)))] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF]))
    elif kind == 4:  # a length or size field
        at = int(rng.integers(max(1, min(200, len(data) - 4))))
        value = int(rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 60000, 65535]))
        data[at : at + 4] = struct.pack("<I" if rng.random() < 0.5 else ">I", value)
    elif kind == 5:  # the end of another file
        other = files[rng.integers(len(files))]
        data = data[: rng.integers(len(data))] + other[int(rng.integers(len(other))) :]
    else:  # a piece taken out or doubled
        a, b = sorted(int(v) for v in rng.integers(0, len(data), 2))
        data = data[:a] + data[b:] if rng.random() < 0.5 else data[:b] + data[a:]
    return bytes(data)


def with_valid_sums(data: bytearray, rng: np.random.Generator) -> bytes:
    """A PNG with one flipped bit in a chunk and a corrected checksum, so the damage reaches the decoder."""
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        chunks.append((at + 8, length))
        at += 12 + length
    start, length = chunks[rng.integers(len(chunks))]
    if length:
        data[start + int(rng.integers(length))] ^= 1 << int(rng.integers(8))
    data[start + length : start + length + 4] = struct.pack(">I", zlib.crc32(data[start - 4 : start + length]))
    return bytes(data)


def attack(data: bytes, rng: np.random.Generator) -> bool:
    """Decode `data` by some operator with some arguments. Returns whether there was an image."""
    arguments = {
        "output_type": rng.choice([types.RGB, types.BGR, types.GRAY, types.YCbCr, types.ANY_DATA]),
        "dtype": rng.choice([types.UINT8, types.UINT8, types.FLOAT, types.UINT16]),
        "adjust_orientation": bool(rng.random() < 0.8),
    }
    window = [{}, {"rel_start": (0.1, 0.3), "rel_end": (0.6, 0.8)}, {"crop": (5, 7), "crop_pos_x": 1.0}][rng.integers(3)]
    name = "image" if not window else "image_slice" if "rel_start" in window else "image_crop"
    begin = time.process_time()
    try:
        image = run_operator(f"decoders.{name}", [data], **arguments, **window)[0]
    except SampleError as error:
        assert str(error) and error.sample == 0
        return False
    finally:
        assert time.process_time() - begin < SLOWEST
    assert image.ndim == 3 and image.size > 0
    return True


def fuzz(count: int, seed: int) -> tuple[int, int]:
    """(images, errors) of `count` mutated files."""
    rng = np.random.default_rng(seed)
    images = sum(attack(mutated(rng), rng) for _ in range(count))
    return images, count - images


def test_mutated_images_quick():
    images, errors = fuzz(600, 7)
    assert images > 50 and errors > 50


@pytest.mark.slow
def test_mutated_images_with_bounded_memory():
    """Thousands of files in a separate process, in development mode, with a checking allocator and an address-space limit."""
    here = os.path.dirname(__file__)
    code = f"""
import sys, resource
sys.path[:0] = [{here!r}, {os.path.dirname(here)!r}]
import test_decoder_fuzz as t
t.fuzz(20, 1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + t.MEMORY,) * 2)
images, errors = t.fuzz(6000, 2)
assert images > 500 and errors > 500
"""
    environment = {**os.environ, "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"}
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_mutated_images_through_the_pipeline(tmp_path):
    """Every broken file fails its own iteration, with its name. The other files are decoded."""
    rng = np.random.default_rng(11)
    files = []
    for k in range(400):
        path = tmp_path / f"broken_{k:03}.bin"
        path.write_bytes(mutated(rng) or b"\0")
        files.append(str(path))

    @pipeline_def(batch_size=1, num_threads=2, device_id=None)
    def decode():
        encoded, label = fn.readers.file(files=files, name="files")
        return fn.decoders.image(encoded), label

    images = errors = 0
    with decode() as pipe:
        pipe.build()
        for k in range(len(files)):
            try:
                picture_, label = pipe.run()
                assert int(label.at(0)[0]) == k and picture_.at(0).ndim == 3
                images += 1
            except RuntimeError as error:
                assert f"broken_{k:03}.bin" in str(error) and "decoders.image" in str(error)
                errors += 1
    assert images > 40 and errors > 40


# ----------------------------------------------------------------------------------------------------------------- header bombs


def bombs() -> dict[str, bytes]:
    """Files of a few bytes whose headers declare 60000x60000 pixels, in every format."""
    side = 60000
    rgb = picture(24, 36)
    ifd = b"".join(
        struct.pack("<HHII", tag, 4, 1, value)
        for tag, value in [(256, side), (257, side), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, side), (279, 100)]
    )
    jpeg = bytearray(encode(rgb, "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = struct.pack(">HH", side, side)
    png = bytearray(encode(rgb, "PNG"))
    png[16:24] = struct.pack(">II", side, side)
    bmp = bytearray(encode(rgb, "BMP"))
    bmp[18:26] = struct.pack("<ii", side, side)
    j2k = bytearray(encode(rgb, "JPEG2000", no_jp2=True))
    j2k[8:16] = struct.pack(">II", side, side)
    vp8x = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + (side - 1).to_bytes(3, "little") * 2
    return {
        "JPEG": bytes(jpeg), "PNG": bytes(png), "BMP": bytes(bmp), "J2K": bytes(j2k),
        "arithmetic": bytes(jpeg).replace(b"\xff\xc0", b"\xff\xc9"), "progressive": bytes(jpeg).replace(b"\xff\xc0", b"\xff\xc2"),
        "TIFF": b"II*\0\x08\0\0\0" + struct.pack("<H", 9) + ifd + b"\0" * 200,
        "WebP": b"RIFF" + struct.pack("<I", 4 + len(vp8x)) + b"WEBP" + vp8x,
        "PPM": b"P6\n60000 60000\n255\n" + b"\0" * 100, "PGM text": b"P2 60000 60000 255 1 2 3", "PBM": b"P4\n60000 60000\n" + b"\0" * 100,
    }  # fmt: skip


@pytest.mark.parametrize("name", list(bombs()))
@pytest.mark.parametrize("dtype", [types.UINT8, types.FLOAT])
def test_header_bombs_are_refused_before_memory_is_taken(name, dtype):
    run_operator("decoders.image", [encode(picture(8, 8), "JPEG")], dtype=dtype)  # compile kernels first, because compiling takes memory
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    with pytest.raises(SampleError, match="60000x60000"):
        run_operator("decoders.image", [bombs()[name]], dtype=dtype)
    assert time.process_time() - begin < SLOWEST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_a_jpeg_of_endless_scans_is_refused():
    jpeg = encode(picture(64, 64), "JPEG", progressive=True)
    scan = jpeg.index(b"\xff\xda")
    header = jpeg[scan : jpeg.index(b"\xff", scan + 14)]
    with pytest.raises(SampleError, match="scans"):
        run_operator("decoders.image", [jpeg[:scan] + header * 600 + jpeg[scan:]])


@pytest.mark.parametrize("data", [b"\0", b"GIF89a" + b"\1" * 100, b"hello" * 30, b"\xff\xd8", b"\xff\xd8\xff\xd9", b"BM", b"P5", b"P5 "])
def test_errors_name_the_sample_that_is_no_image(data):
    with pytest.raises(SampleError) as caught:
        run_operator("decoders.image", [encode(picture(9, 9), "PNG"), data])
    assert caught.value.sample == 1


def test_empty_data():
    with pytest.raises(SampleError, match="empty"):
        run_operator("decoders.image", [b""])


def test_orientation_field_that_points_out_of_the_segment():
    broken = segment(0xE1, b"Exif\0\0II*\0\xff\xff\xff\xff" + b"\0" * 8)
    jpeg = encode(picture(9, 12), "JPEG")
    assert run_operator("decoders.image", [jpeg[:2] + broken + jpeg[2:]])[0].shape == (9, 12, 3)
    assert cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR) is not None
