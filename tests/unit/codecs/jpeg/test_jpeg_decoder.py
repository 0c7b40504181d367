"""Our JPEG decoder: every pixel equals libjpeg-turbo's. Files that our decoder does not support are handed over to libjpeg-turbo."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import cv2
import numpy as np
import pytest
from helpers.images import encode, encode_cv, jpeg_blocks, picture, segment, with_orientation
from helpers.jpegs import Decoders
from helpers.operators import run_operator
from helpers.places import TESTS

from asyncdali import fn, pipeline_def, types
from asyncdali.codecs.jpeg import jpeg_kernels, jpeg_library, progressive, window_decoding

SAMPLINGS = {"444": [(1, 1)] * 3, "422": [(2, 1), (1, 1), (1, 1)], "420": [(2, 2), (1, 1), (1, 1)], "440": [(1, 2), (1, 1), (1, 1)],
             "grey": [(1, 1)]}  # fmt: skip
SIZES = [(5, 1), (5, 40), (40, 1), (7, 9), (16, 16), (17, 33), (64, 48), (99, 75), (130, 61), (300, 20)]


@pytest.fixture(scope="module")
def decoders():
    return Decoders()


def equal(decoders: Decoders, data: bytes, **arguments) -> None:
    """Whether our decoder gives libjpeg-turbo's pixels."""
    image = decoders.ours(data, **arguments)
    assert image is not None, "handed over"
    expected = decoders.turbos(data, **arguments)
    assert expected is not None and np.array_equal(image, expected), arguments


def windows(rng: np.random.Generator, width: int, height: int, count: int) -> list[tuple[int, int, int, int]]:
    """Windows: the whole image, the last pixel, and random ones."""
    found = [(0, 0, width, height), (width - 1, height - 1, 1, 1)]
    for _ in range(count):
        x, y = int(rng.integers(width)), int(rng.integers(height))
        found.append((x, y, int(rng.integers(1, width - x + 1)), int(rng.integers(1, height - y + 1))))
    return found


@pytest.mark.parametrize("restart", [0, 1, 7])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_windows_of_random_coefficients(decoders, sampling, restart):
    rng = np.random.default_rng(restart)
    for k, (width, height) in enumerate(SIZES):
        data = jpeg_blocks(width, height, SAMPLINGS[sampling], seed=k, restart=restart)
        for place in windows(rng, width, height, 12):
            equal(decoders, data, place=place, channels=3 if rng.random() < 0.8 else 1, bgr=bool(rng.random() < 0.3))


@pytest.mark.parametrize("optimize", [0, 1])
@pytest.mark.parametrize("quality", [1, 30, 75, 90, 100])
@pytest.mark.parametrize("sampling", ["444", "422", "420", "440"])
def test_photographic_windows(decoders, sampling, quality, optimize):
    rng = np.random.default_rng(quality)
    for width, height in [(131, 61), (37, 90)]:
        factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")
        options = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor, cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, optimize]
        options += [cv2.IMWRITE_JPEG_RST_INTERVAL, int(rng.choice([0, 0, 3]))]
        data = encode_cv(picture(height, width, seed=quality), ".jpg", options)
        for place in windows(rng, width, height, 6):
            equal(decoders, data, place=place, channels=int(rng.choice([1, 3])))


def test_noise_and_flat_pictures(decoders):
    """Noise has blocks with all coefficients, and flat pictures have blocks without coefficients."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, (64, 80, 3), np.uint8)
    edges = np.where(rng.random((64, 80, 1)) < 0.5, 0, 255).astype(np.uint8).repeat(3, 2)
    flat = np.full((64, 80, 3), (200, 30, 90), np.uint8)
    for image in (noise, edges, flat, flat // 255):
        for quality in (20, 95, 100):
            for subsampling in (0, 1, 2):
                data = encode(image, "JPEG", quality=quality, subsampling=subsampling)
                equal(decoders, data)
                for place in windows(rng, 80, 64, 3):  # blocks outside of the windows are skipped by separate code
                    equal(decoders, data, place=place)


@pytest.mark.parametrize("quality", [10, 75, 97])
@pytest.mark.parametrize("sampling", ["444", "422", "420", "440", "grey"])
def test_progressive_windows(decoders, sampling, quality):
    rng = np.random.default_rng(quality)
    for width, height in [(131, 61), (37, 90), (8, 8)]:
        image = picture(height, width, 1 if sampling == "grey" else 3, seed=quality)
        options = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_QUALITY, quality]
        options += [cv2.IMWRITE_JPEG_RST_INTERVAL, int(rng.choice([0, 3]))]
        if sampling != "grey":
            options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling}")]
        data = encode_cv(image, ".jpg", options)
        for place in windows(rng, width, height, 8):
            equal(decoders, data, place=place, channels=int(rng.choice([1, 3])), bgr=bool(rng.random() < 0.3))


def test_restart_intervals_that_change_between_scans(decoders):
    data = encode(picture(40, 64), "JPEG", progressive=True, subsampling=1, restart_marker_rows=1)
    assert data.count(b"\xff\xdd\0\4") > 1
    equal(decoders, data)


@pytest.mark.parametrize("options", [{}, {"restart_marker_rows": 1}])
def test_progressive_windows_need_no_rows_below(decoders, options):
    """The last scan ends early. Our decoder accepts this only if the missing rows are below its window."""
    data = encode(picture(96, 64), "JPEG", progressive=True, **options)
    data = data[:-12] + data[-2:]
    assert decoders.ours(data) is None
    for place in ((0, 0, 64, 16), (5, 9, 40, 50), (20, 0, 1, 1)):
        equal(decoders, data, place=place)


def test_progressive_files_that_lack_scans(decoders):
    """libjpeg-turbo smooths pictures with missing scans, so they are handed over. Files that end within a scan are handed over, too."""
    data = encode(picture(40, 51), "JPEG", progressive=True, quality=80)
    scans = [at for at in range(len(data) - 1) if data[at : at + 2] == b"\xff\xda"]
    assert len(scans) > 5
    equal(decoders, data)
    for at in scans[1:]:
        assert decoders.ours(data[:at] + b"\xff\xd9") is None
        assert decoders.ours(data[: at - 20]) is None
        assert np.array_equal(run_operator("decoders.image", [data[:at] + b"\xff\xd9"])[0], decoders.turbos(data[:at] + b"\xff\xd9"))


def test_huge_progressive_files_are_handed_over(decoders):
    """The coefficients of these files would need more memory than our decoder allocates."""
    data = bytearray(encode(picture(40, 51), "JPEG", progressive=True))
    frame = data.index(b"\xff\xc2")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 30000, 30000)
    assert decoders.ours(bytes(data), place=(0, 0, 16, 16)) is None


@pytest.mark.parametrize("factors", ["small", "large", "65535"])
def test_quantisation_tables_of_16_bits(decoders, factors):
    """libjpeg-turbo's x86 code keeps 16 bits of each product. Files for which this matters are handed over."""
    rng = np.random.default_rng(3)
    for data in (baseline(), encode(picture(40, 51), "JPEG", progressive=True)):
        body = {"small": rng.integers(1, 30, 64), "large": rng.integers(200, 900, 64), "65535": np.full(64, 65535)}[factors]
        at = data.index(b"\xff\xdb\0\x43\0")
        deep = data[:at] + segment(0xDB, b"\x10" + body.astype(">u2").tobytes()) + data[at + 69 :]
        image = decoders.ours(deep)
        assert (image is None) == (factors == "large")
        if image is not None:
            assert np.array_equal(image, decoders.turbos(deep))


def with_segment(data: bytes, marker: int, payload: bytes) -> bytes:
    return data[:2] + segment(marker, payload) + data[2:]


def baseline() -> bytes:
    return encode(picture(40, 51), "JPEG", quality=80)


def handed_over() -> dict[str, bytes]:
    """Files that our decoder does not support."""
    data = baseline()
    scan = data.index(b"\xff\xda")
    frame = data.index(b"\xff\xc0")
    twelve_bits = data[: frame + 4] + b"\x0c" + data[frame + 5 :]
    return {
        "arithmetic": data.replace(b"\xff\xc0", b"\xff\xc9"), "lossless": data.replace(b"\xff\xc0", b"\xff\xc3"), "12 bits": twelve_bits,
        "CMYK": jpeg_blocks(20, 20, [(1, 1)] * 4, adobe=2),
        "RGB by Adobe": jpeg_blocks(20, 20, [(1, 1)] * 3, adobe=0), "RGB by names": jpeg_blocks(20, 20, [(1, 1)] * 3, ids="RGB"),
        "4:1:1": jpeg_blocks(40, 20, [(4, 1), (1, 1), (1, 1)]), "odd sampling": jpeg_blocks(40, 20, [(2, 2), (2, 1), (1, 1)]),
        "four columns": jpeg_blocks(4, 20, SAMPLINGS["420"]), "no end": data[:-2], "cut": data[: scan + 200],
        "not a marker": data[: scan + 100] + b"\xff\xd0" + data[scan + 100 :], "stray bytes": data[:2] + b"\0" + data[2:],
        "cut table": data.replace(b"\xff\xdb\0\x43\0", b"\xff\xdb\0\x43\x10", 1), "DNL": with_segment(data, 0xDC, struct.pack(">H", 40)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", handed_over())
def test_files_left_to_libjpeg_turbo(decoders, kind):
    data = handed_over()[kind]
    if decoders.header(data)[3] in (1, 3):
        assert decoders.ours(data) is None
    if kind != "not a marker":
        return
    assert decoders.turbos(data) is not None  # libjpeg-turbo warns and continues


def test_extreme_coefficients_are_handed_over(decoders):
    """libjpeg-turbo has a shortcut for blocks with few coefficients, which overflows where the full transform saturates.

    Files with such coefficients are handed over.
    """
    data = bytearray(jpeg_blocks(24, 24, [(1, 1)]))
    table = data.index(b"\xff\xdb") + 5
    data[table : table + 64] = bytes([255] * 64)
    assert decoders.ours(bytes(data)) is None
    expected = decoders.turbos(bytes(data), channels=1)
    assert expected is not None
    assert np.array_equal(run_operator("decoders.image", [bytes(data)], output_type=types.GRAY)[0], expected)


def test_files_that_exceed_the_scratch_are_handed_over(decoders):
    data = baseline()
    for room in (0, 64, 4096, 60_000, 90_000):
        assert decoders.ours(data, room=room) is None


def counts(**arguments) -> list[int]:
    """From a pipeline's statistics: the number of files of a batch that each decoder decoded."""

    for kernel in (window_decoding.decode_window, progressive.decode_scans):
        kernel.compile()  # compile first, because libjpeg-turbo decodes until the kernel is compiled
    encoded = (baseline(), handed_over()["4:1:1"], encode(picture(30, 30), "JPEG", progressive=True), with_orientation(baseline(), 6))
    files = [np.frombuffer(data, np.uint8) for data in encoded]

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, prefetch_queue_depth=1)
    def decode():
        return fn.decoders.image(fn.external_source(source=lambda: files, batch=True), name="decode", **arguments)

    with decode() as pipe:
        pipe.run()
        before = pipe.statistics()
        pipe.run()
        found = pipe.statistics().since(before).operator("decode").counted
    assert [name for name, _ in found] == list(jpeg_kernels.COUNT_NAMES)
    return [number for _, number in found[:2]]


def test_statistics_count_both_decoders(monkeypatch):
    assert counts() == [3, 1]
    assert counts(dtype=types.FLOAT) == [3, 1]
    assert counts(device="mixed") == [3, 1]  # on the host device
    assert counts(use_fast_idct=True) == [0, 4]
    monkeypatch.setenv("ASYNCDALI_JPEG", "turbo")
    assert counts() == [0, 4]
    assert "libjpeg-turbo decodes all files" in jpeg_library.described()


def test_the_environment_variable_accepts_two_values(monkeypatch):
    monkeypatch.setenv("ASYNCDALI_JPEG", "own")
    assert counts() == [3, 1]
    monkeypatch.setenv("ASYNCDALI_JPEG", "fast")
    assert "'fast'" in jpeg_library.described()
    with pytest.raises(ValueError, match="ASYNCDALI_JPEG is 'fast'; allowed are 'own' .* and 'turbo'"):
        run_operator("decoders.image", [baseline()])


def test_a_machine_on_which_the_decoders_differ(monkeypatch):
    """The decoder checks itself with test pictures. If one differs or is handed over, libjpeg-turbo decodes all files, with one warning."""
    real = jpeg_kernels.decode_whole

    def wrong(*arguments, **named):
        image, code, text = real(*arguments, **named)
        return (image + bool(named.get("own")), code, text)

    table = jpeg_library.function_table()
    try:
        for name, value in (("jpeg_kernels.decode_whole", wrong), ("jpeg_library._PICTURES", [handed_over()["no end"]])):
            jpeg_library._equal_to_turbo.cache_clear()
            with monkeypatch.context() as patch:
                patch.setattr(f"asyncdali.codecs.jpeg.{name}", value)
                with pytest.warns(RuntimeWarning, match="differ in a test picture"):
                    assert jpeg_library.own_decoder(table) == 0
    finally:
        jpeg_library._equal_to_turbo.cache_clear()
    assert jpeg_library.own_decoder(table) != 0


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["no x86", "sse2", "avx2"])
def test_other_processors(processor, tmp_path):
    """Code for narrower vectors, and code without x86 instructions. Each runs in a separate process."""
    here = os.path.dirname(__file__)
    code = f"""
import sys
sys.path[:0] = [{here!r}, {str(TESTS)!r}]
import numpy as np
from asyncdali.compiled import vectors
if {processor!r} == "no x86":
    vectors.native_bits = lambda: 0
assert vectors.native_bits() == {{"no x86": 0, "sse2": 128, "avx2": 256}}[{processor!r}]
import test_jpeg_decoder as t
decoders = t.Decoders()
for sampling in t.SAMPLINGS:
    t.test_windows_of_random_coefficients(decoders, sampling, 7)
    t.test_progressive_windows(decoders, sampling, 75)
t.test_noise_and_flat_pictures(decoders)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    if processor != "no x86":
        wide = "+avx,+avx2,+fma,+bmi,+bmi2" if processor == "avx2" else "+sse2"
        environment |= {"NUMBA_CPU_NAME": "haswell" if processor == "avx2" else "x86-64", "NUMBA_CPU_FEATURES": wide}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
