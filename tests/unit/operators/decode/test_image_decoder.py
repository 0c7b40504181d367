"""The image decoders: formats, channels, types, orientations, windows and errors; and pipelines with cpu and mixed decoders."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from helpers.images import encode, encode_cv, exif, jpeg_blocks, picture, png, png_16, png_with_exif, with_orientation
from helpers.operators import PerSample, run_operator
from helpers.pipelines import pipeline_of
from PIL import Image

from asyncdali import fn, pipeline_def, types
from asyncdali.codecs.image_decoding import convert_dtype
from asyncdali.operators.base import SampleError
from asyncdali.types import DALIDataType

RGB, GREY, RGBA = picture(40, 52), picture(40, 52, 1), picture(40, 52, 4)
WIDE = np.random.default_rng(1).integers(0, 65536, (40, 52, 4)).astype(np.uint16)
TURNS = {
    1: np.asarray, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1], 5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1), 7: lambda a: a[::-1, ::-1].transpose(1, 0, 2), 8: np.rot90,
}  # fmt: skip


def decode(data: bytes, **arguments) -> np.ndarray:
    return run_operator("decoders.image", [data], **arguments)[0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("shape", [(1, -1), (-1, 1), (1, 1, -1)])
def test_encoded_bytes_may_have_any_shape(kind, shape):
    """A row [1, N], for example a slice of a larger array, holds the same bytes as [N]."""
    data = encode(RGB, kind)
    reshaped = np.frombuffer(data, np.uint8).reshape(shape)
    assert np.array_equal(run_operator("decoders.image", [reshaped])[0], decode(data))
    window = {"crop": [8.0, 9.0]}
    expected = run_operator("decoders.image_crop", [data], **window)[0]
    assert np.array_equal(run_operator("decoders.image_crop", [reshaped], **window)[0], expected)


LOSSLESS = {
    "png": encode(RGB, "PNG"), "bmp": encode(RGB, "BMP"), "tiff": encode(RGB, "TIFF"), "ppm": encode(RGB, "PPM"),
    "tiff lzw": encode(RGB, "TIFF", compression="tiff_lzw"), "tiff deflate": encode(RGB, "TIFF", compression="tiff_deflate"),
    "webp": encode(RGB, "WEBP", lossless=True), "jp2": encode(RGB, "JPEG2000"), "j2k": encode(RGB, "JPEG2000", no_jp2=True),
    "tiff pages": encode(RGB, "TIFF", save_all=True, append_images=[Image.fromarray(255 - RGB)]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(LOSSLESS))
def test_lossless_formats_give_what_was_written(name):
    assert np.array_equal(decode(LOSSLESS[name]), RGB)
    assert np.array_equal(decode(LOSSLESS[name], output_type=types.BGR), RGB[:, :, ::-1])
    assert np.array_equal(decode(LOSSLESS[name], output_type=types.ANY_DATA), RGB)
    grey = decode(LOSSLESS[name], output_type=types.GRAY)
    assert grey.shape == (40, 52, 1)
    assert np.abs(grey[:, :, 0] - RGB @ np.array([0.299, 0.587, 0.114])).max() <= 1.1


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "JPEG2000"])
def test_grey_files(kind):
    data = encode(GREY, kind)
    assert np.array_equal(decode(data), np.repeat(GREY[:, :, None], 3, 2))
    for output_type in (types.GRAY, types.ANY_DATA):
        assert np.array_equal(decode(data, output_type=output_type)[:, :, 0], GREY)


def test_alpha_is_kept_by_any_data_and_dropped_otherwise():
    for data in (encode(RGBA, "PNG"), encode(RGBA, "TIFF"), encode(RGBA, "WEBP", lossless=True, exact=True), encode(RGBA, "JPEG2000")):
        assert np.array_equal(decode(data, output_type=types.ANY_DATA), RGBA)
        assert np.array_equal(decode(data), RGBA[:, :, :3])
    two = np.dstack([GREY, RGBA[:, :, 3]])
    for kind in ("PNG", "TIFF"):
        data = encode(Image.fromarray(two), kind)
        assert np.array_equal(decode(data, output_type=types.ANY_DATA), two)
        assert np.array_equal(decode(data, output_type=types.GRAY)[:, :, 0], GREY)


def test_palettes_and_bits():
    palette = Image.fromarray(RGB).quantize(16)
    expected = np.asarray(palette.convert("RGB"))
    for data in (encode(palette, "PNG"), encode(palette, "BMP"), encode(palette, "PNG", transparency=bytes([0, 128] * 8))):
        assert np.array_equal(decode(data), expected)
        assert np.array_equal(decode(data, output_type=types.ANY_DATA), expected)
    bits = (GREY > 128) * np.uint8(255)
    one = Image.fromarray(bits).convert("1", dither=Image.Dither.NONE)
    for kind in ("PNG", "BMP", "TIFF", "PPM"):
        assert np.array_equal(decode(encode(one, kind), output_type=types.GRAY)[:, :, 0], bits)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bits(channels):
    stored = WIDE[:, :, :channels]
    for data in (png_16(stored.squeeze()), encode_cv(stored.squeeze(), ".tiff")):
        assert np.array_equal(decode(data, dtype=types.UINT16, output_type=types.ANY_DATA), stored)
        assert np.abs(decode(data, output_type=types.ANY_DATA) - stored / 257.0).max() <= 0.51
        assert np.abs(decode(data, dtype=types.FLOAT, output_type=types.ANY_DATA) - stored / 65535.0).max() < 1e-6


def test_interlaced_png():
    # The seven passes (PNG 1.2, section 2.6): (first row, row step, first column, column step).
    passes = [(0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1)]
    rows = b"".join(b"\0" + row.tobytes() for y, dy, x, dx in passes for row in RGB[y::dy, x::dx])
    assert np.array_equal(decode(png(52, 40, 8, 2, rows, interlace=1)), RGB)


def test_float_tiffs():
    values = (GREY / 255).astype(np.float32)
    data = encode(Image.fromarray(values), "TIFF")
    assert np.array_equal(decode(data, output_type=types.GRAY)[:, :, 0], GREY)
    assert np.array_equal(decode(data, output_type=types.ANY_DATA, dtype=types.FLOAT)[:, :, 0], values)


def test_pnm_text_and_comments():
    assert decode(b"P2\n# two\n3 2 # wide\n255\n1 2 3 40 50 60\n", output_type=types.GRAY)[:, :, 0].tolist() == [[1, 2, 3], [40, 50, 60]]
    assert decode(b"P3 1 1 255 7 8 9 ").tolist() == [[[7, 8, 9]]]


# --- element types and colours


def test_types_map_full_range_on_full_range():
    image = np.array([[[0], [1], [128], [255]]], np.uint8)
    expected = {
        "INT8": [0, 0, 64, 127], "UINT16": [0, 257, 32896, 65535], "INT16": [0, 128, 16448, 32767],
        "UINT32": [0, 1 << 24, 1 << 31, 2**32 - 1], "INT32": [0, 1 << 23, 1 << 30, 2**31 - 1], "FLOAT": [0, 1 / 255, 128 / 255, 1],
    }  # fmt: skip
    for name, values in expected.items():
        converted = convert_dtype(image, DALIDataType[name])[0, :, 0]
        assert np.allclose(converted.astype(np.float64), values, rtol=0.006), name


def test_decoders_and_the_operator_convert_colours_alike():
    pixels = np.random.default_rng(8).integers(0, 256, (600, 600, 3), np.uint8)
    png = np.frombuffer(encode(pixels, "PNG"), np.uint8)

    def graph():
        decoded = fn.decoders.image(fn.external_source(lambda: [png]), output_type=types.YCbCr)
        source = fn.external_source(lambda: [pixels], layout="HWC")
        return decoded, fn.color_space_conversion(source, image_type=types.RGB, output_type=types.YCbCr)

    with pipeline_of(graph, batch_size=1) as pipeline:
        decoded, converted = (np.array(output[0]) for output in pipeline.run())
    np.testing.assert_array_equal(decoded, converted)


@pytest.mark.parametrize("dtype", [types.UINT8, types.INT8, types.UINT16, types.INT16, types.UINT32, types.INT32, types.FLOAT])
def test_ycbcr_has_headroom(dtype):
    black_white = np.zeros((4, 4, 3), np.uint8)
    black_white[2:] = 255
    stored = decode(encode(black_white, "PNG"), dtype=dtype, output_type=types.YCbCr)
    out, full = stored.astype(np.float64), float(np.iinfo(stored.dtype).max) if stored.dtype.kind in "iu" else 1.0
    assert np.allclose(out[0, 0] / full, [16 / 255, 0.5, 0.5], atol=0.006)
    assert np.allclose(out[3, 3] / full, [235 / 255, 0.5, 0.5], atol=0.006)


@pytest.mark.parametrize("dtype", [types.FLOAT16, types.FLOAT64, types.BOOL])
def test_unsupported_types_are_refused_when_the_operator_is_made(dtype):
    with pytest.raises(ValueError, match="dtype"):
        decode(LOSSLESS["png"], dtype=dtype)


def test_cmyk_jpegs():
    data = encode(Image.fromarray(RGB).convert("CMYK"), "JPEG", quality=100)
    assert np.abs(decode(data).astype(int) - RGB).mean() < 3
    assert np.array_equal(decode(data, output_type=types.BGR), decode(data)[:, :, ::-1])
    with pytest.raises(SampleError, match="CMYK"):
        decode(data, output_type=types.ANY_DATA)


def test_grey_of_a_jpeg_is_its_luma_for_every_type():
    data = jpeg_blocks(33, 21, [(2, 2), (1, 1), (1, 1)])
    grey = decode(data, output_type=types.GRAY)
    assert np.allclose(decode(data, output_type=types.GRAY, dtype=types.FLOAT) * 255, grey, atol=1e-4)


def test_any_data_of_jpegs_in_one_batch():
    grey, colour = run_operator("decoders.image", [encode(GREY, "JPEG"), encode(RGB, "JPEG")], output_type=types.ANY_DATA)
    assert grey.shape == (40, 52, 1) and colour.shape == (40, 52, 3)


def test_fast_idct_acts():
    data = encode(RGB, "JPEG", quality=95)
    exact, fast = decode(data).astype(int), decode(data, use_fast_idct=True).astype(int)
    assert 0 < np.abs(exact - fast).max() < 16


# --- orientation


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientations(orientation):
    jpeg = encode(RGB, "JPEG", quality=95)
    cases = [(with_orientation(jpeg, orientation, little), decode(jpeg)) for little in (True, False)]
    cases += [(png_with_exif(RGB, orientation), RGB), (encode(RGB, "WEBP", lossless=True, exif=exif(orientation, False)), RGB)]
    cases += [(encode(RGB, "TIFF", tiffinfo={274: orientation}), RGB), (encode(RGBA, "TIFF", tiffinfo={274: orientation}), RGBA[:, :, :3])]
    for data, stored in cases:
        assert np.array_equal(decode(data), TURNS[orientation](stored))
        assert np.array_equal(decode(data, adjust_orientation=False), stored)
        whole = decode(data, dtype=types.FLOAT)
        part = run_operator("decoders.image_crop", [data], crop=(7, 9), crop_pos_x=0.8, crop_pos_y=0.13, dtype=types.FLOAT)[0]
        y, x = round(0.13 * (whole.shape[0] - 7)), round(0.8 * (whole.shape[1] - 9))
        assert np.array_equal(part, whole[y : y + 7, x : x + 9])


# --- windows


PLACES = encode(np.dstack([*np.mgrid[0:47, 0:61], np.zeros((47, 61), int)]).astype(np.uint8), "PNG")


def window(operator: str, *inputs, **arguments) -> tuple[int, ...]:
    """(y, x, h, w) of the output."""
    out = run_operator(f"decoders.{operator}", [PLACES], *inputs, **arguments)[0]
    return (int(out[0, 0, 0]), int(out[0, 0, 1]), *out.shape[:2])


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({}, (0, 0, 47, 61)), ({"crop": (10, 20)}, (19, 21, 10, 20)), ({"crop": (10.9, 20.9)}, (19, 21, 10, 20)),
        ({"crop_w": 20, "crop_h": 10}, (19, 21, 10, 20)), ({"crop": (0, -2)}, (0, 0, 47, 61)), ({"crop": (5, 10, 20)}, (19, 21, 10, 20)),
        ({"crop": (10, 20), "crop_pos_x": 1, "crop_pos_y": 0}, (0, 41, 10, 20)),
        ({"crop": (10, 20), "rounding": "truncate"}, (18, 20, 10, 20)),
        ({"crop_w": 20, "crop_h": 10, "crop_d": 3, "crop_pos_z": 1}, (19, 21, 10, 20)),
    ],
)  # fmt: skip
def test_crop(arguments, expected):
    assert window("image_crop", **arguments) == expected


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"start": (5, 6), "end": (15, 16)}, (6, 5, 10, 10)), ({"rel_start": (0.1, 0.2), "rel_end": (0.4, 0.5)}, (9, 6, 15, 18)),
        ({"rel_start": (0.5, 0.6)}, (28, 31, 19, 30)), ({"rel_shape": (0.5, 0.6)}, (0, 0, 28, 31)), ({"end": (5, 6)}, (0, 0, 6, 5)),
        ({"start": (5,), "end": (10,), "axes": [0]}, (5, 0, 5, 61)), ({"start": (5,), "end": (10,), "axis_names": "W"}, (0, 5, 47, 5)),
        ({"start": (5,), "shape": (10,), "axes": [-1]}, (0, 5, 47, 10)), ({"start": 5, "end": 10}, (5, 5, 5, 5)),
    ],
)  # fmt: skip
def test_slice(arguments, expected):
    assert window("image_slice", **arguments) == expected


def test_positional_slice():
    def f(*values):
        return [np.array(values, np.float32)]

    assert window("image_slice", f(0.1, 0.2), f(0.3, 0.4)) == (9, 6, 19, 18)
    assert window("image_slice", f(5.5, 6.5), f(10.5, 12.5), normalized_anchor=False, normalized_shape=False) == (7, 6, 12, 10)
    assert window("image_slice", [np.array([5, 6])], [np.array([10, 12])]) == (6, 5, 12, 10)
    with pytest.raises(ValueError, match="same type"):
        window("image_slice", f(0.1, 0.2), [np.array([10, 12])])
    with pytest.raises(SampleError, match="expected 2 elements"):
        window("image_slice", f(0.1), f(0.3))
    with pytest.raises(ValueError, match="positional"):
        window("image_slice", f(0.1, 0.1), f(0.3, 0.3), start=(1, 1))


def test_windows_that_leave_the_image_name_their_sample():
    crops = PerSample([np.array(v, np.float32) for v in [(10, 10), (48, 10)]])
    with pytest.raises(SampleError, match=r"\[-1\.\.47, 26\.\.36\] is not valid for image dimensions \[47 x 61\]") as caught:
        run_operator("decoders.image_crop", [PLACES, PLACES], crop=crops)
    assert caught.value.sample == 1
    with pytest.raises(SampleError, match="empty"):
        window("image_slice", start=(5, 6), end=(5, 6))
    with pytest.raises(ValueError, match="`crop_pos_z` is 1.5, outside 0 to 1"):
        window("image_crop", crop=(5, 5), crop_pos_z=1.5)
    for wrong in ({"rel_start": (np.nan, 0)}, {"rel_end": (1, np.inf)}, {"rel_shape": (np.nan, 1)}):
        with pytest.raises(SampleError, match="coordinates must be numbers"):
            window("image_slice", **wrong)


# --- in pipelines


@pytest.fixture
def files(tmp_path):
    names = []
    for k, data in enumerate([encode(RGB, "JPEG"), with_orientation(encode(picture(31, 90), "JPEG"), 6), *LOSSLESS.values()]):
        path = tmp_path / f"image_{k:02}.bin"
        path.write_bytes(data)
        names.append(str(path))
    return names


@pytest.mark.parametrize("device", ["cpu", "mixed"])
def test_pipelines(files, device):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=3)
    def pipeline():
        encoded, _ = fn.readers.file(files=files)
        extents = fn.random.uniform(range=[3, 9], shape=2, dtype=types.INT32)
        return (
            fn.decoders.image(encoded, device=device),
            fn.decoders.image_crop(encoded, device=device, crop=(9, 11)),
            fn.decoders.image_random_crop(encoded, device=device, seed=7),
            fn.decoders.image_slice(encoded, device=device, start=[1, 2], shape=extents),
        )

    with pipeline() as pipe:
        pipe.build()
        for k in range(3):
            outputs = [out.as_cpu() if device == "mixed" else out for out in pipe.run()]
            for i in range(4):
                with open(files[4 * k + i], "rb") as source:
                    expected = decode(source.read())
                whole, crop, random, part = (np.asarray(out.at(i)) for out in outputs)
                assert np.array_equal(whole, expected)
                assert crop.shape == (9, 11, 3) and random.size > 0
                assert np.array_equal(part, expected[2 : 2 + part.shape[0], 1 : 1 + part.shape[1]])


def test_an_error_names_operator_iteration_sample_and_file(files, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(encode(RGB, "JPEG")[:900])

    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def pipeline():
        return fn.decoders.image(fn.readers.file(files=[*files[:3], str(bad), *files[4:6]])[0])

    with pipeline() as pipe:
        pipe.build()
        pipe.run()
        with pytest.raises(RuntimeError, match=r"(?s)decoders\.image.*iteration 1, sample 1.*bad\.jpg.*Premature end"):
            pipe.run()
        assert np.array_equal(np.asarray(pipe.run()[0].at(0)), RGB)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**63 - 1, 2**62, 1 << 40])
def test_a_jp2_box_of_an_impossible_length_is_a_broken_picture(length):
    """The length of a box may have 64 bits. An offset beyond the range of Python's `struct` once raised an OverflowError without a text."""
    signature = bytes.fromhex("0000000c6a5020200d0a870a")
    data = signature + struct.pack(">I4sQ", 1, b"ftyp", length) + bytes(64)
    pictures = [np.frombuffer(picture, np.uint8) for picture in (encode(RGB, "JPEG2000"), data)]
    pipe = pipeline_of(lambda: fn.decoders.image(fn.external_source(lambda k: pictures)), batch_size=2)
    with pytest.raises(RuntimeError, match=r"(?s)fn\.decoders\.image` .*sample 1.*JPEG2000"):
        pipe.run()
    pipe.close()
