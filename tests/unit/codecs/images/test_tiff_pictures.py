"""TIFF: layouts, codings, numbers of bits, colour spaces, damage. tifffile and imagecodecs write many of the files."""

from __future__ import annotations

import io
import itertools
import struct
import zlib

import numpy as np
import pytest
from helpers.images import encode, picture, tiff
from helpers.marks import slow
from helpers.operators import run_operator
from PIL import Image

from asyncdali import types
from asyncdali.codecs import tiff_pixels
from asyncdali.codecs.image_decoding import decode_other
from asyncdali.codecs.image_headers import read_header
from asyncdali.operators.base import SampleError

H, W = 37, 53
rng = np.random.default_rng(4)
SMOOTH = picture(H, W, 5)
NOISE = rng.integers(0, 65536, (H, W, 5)).astype(np.uint16)


def made(array: np.ndarray, **options) -> bytes:
    pytest.importorskip("imagecodecs")
    tifffile = pytest.importorskip("tifffile")
    out = io.BytesIO()
    tifffile.imwrite(out, array, **options)
    return out.getvalue()


def decode(data: bytes, dtype=types.UINT8, output_type=types.ANY_DATA, **arguments) -> np.ndarray:
    return run_operator("decoders.image", [data], dtype=dtype, output_type=output_type, **arguments)[0]


CODINGS = [None, "lzw", "zlib", "packbits", "zstd", "lzma", "deflate"]


def stored(values: np.ndarray, coding: str | None, planar: bool, tile: tuple[int, int] | None, order: str, **more) -> bytes:
    channels = values.shape[2]
    array = np.ascontiguousarray(values.transpose(2, 0, 1)) if planar else values if channels > 1 else values[:, :, 0]
    options = {} if tile else {"rowsperstrip": 11}
    photometric = "rgb" if channels in (3, 4) else "minisblack"
    extra = {3: 0, 4: 1}.get(channels, channels - 1)
    kinds = {"extrasamples": ["unspecified"] * extra} if extra else {}
    planes = {"planarconfig": "separate" if planar else "contig"} if channels > 1 else {}
    return made(array, photometric=photometric, compression=coding, tile=tile, byteorder=order, **options, **planes, **kinds, **more)


ALL_LAYOUTS = slow(*((order, big, slice(None)) for order in "<>" for big in (False, True)))


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("order, big, part", [("<", False, slice(0, None, 5)), (">", True, slice(2, None, 5)), *ALL_LAYOUTS])
def test_layouts(coding, order, big, part):
    """Strips and tiles, planar and not, 1 to 5 channels, 8 and 16 bits, with and without a predictor.

    Together, the two fifths that run by default contain each pair of two such properties.
    """
    layouts = list(itertools.product((1, 2, 3, 4, 5), (False, True), (None, (16, 32), (48, 64)), (False, True)))
    for channels, planar, tile, wide in layouts[part]:
        if planar and channels == 1:
            continue
        values = (NOISE if wide else SMOOTH)[:, :, :channels]
        for predictor in (False, True) if coding not in (None, "packbits") else (False,):
            data = stored(values, coding, planar, tile, order, bigtiff=big, **({"predictor": True} if predictor else {}))
            found = decode(data, types.UINT16 if wide else types.UINT8)
            assert np.array_equal(found, values), (channels, planar, tile, wide, predictor)
            if channels != 2:
                rgb = decode(data, types.UINT16 if wide else types.UINT8, types.RGB)
                assert np.array_equal(rgb, values[:, :, :3] if channels in (3, 4) else np.repeat(values[:, :, :1], 3, 2)) or channels == 5
            assert run_operator("peek_image_shape", [data], image_type=types.ANY_DATA)[0].tolist() == [H, W, channels]


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("tile", [None, (32, 16)])
@pytest.mark.parametrize("order", "<>")
def test_floats(coding, tile, order):
    values = rng.random((H, W, 3)).astype(np.float32)
    for predictor in (False, True) if coding not in (None, "packbits") else (False,):
        data = stored(values, coding, False, tile, order, **({"predictor": True} if predictor else {}))
        assert np.array_equal(decode(data, types.FLOAT), values)


def packed(values: np.ndarray, bits: int) -> bytes:
    """Rows of values of this number of bits."""
    split = (values.reshape(len(values), -1, 1) >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(split.reshape(len(values), -1).astype(np.uint8), axis=1).tobytes()


def file_of(
    pixels: list[bytes], bits: int, photometric: int, width: int, rows: int, channels=1, coding=1, more=(), order="<", height=H
) -> bytes:
    """A TIFF of strips with these packed bytes."""
    offsets = np.cumsum([8, *map(len, pixels)]).tolist()
    fields = [
        (256, "I", [width]), (257, "I", [height]), (258, "H", [bits] * channels), (259, "H", [coding]), (262, "H", [photometric]),
        (273, "I", offsets[:-1]), (277, "H", [channels]), (278, "I", [rows]), (279, "I", list(map(len, pixels))), *more,
    ]  # fmt: skip
    at, beside = offsets[-1], b""
    entries = struct.pack(order + "H", len(fields))
    start = at + 2 + 12 * len(fields) + 4
    for tag, letter, values in sorted(fields, key=lambda field: field[0]):
        data = struct.pack(f"{order}{len(values)}{letter}", *values)
        if len(data) > 4:
            data, beside = struct.pack(order + "I", start + len(beside)), beside + data
        entries += struct.pack(order + "HHI", tag, {"B": 1, "H": 3, "I": 4}[letter], len(values)) + data.ljust(4, b"\0")
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "I", at) + b"".join(pixels) + entries + bytes(4) + beside


@pytest.mark.parametrize("bits", [*range(1, 8), *range(9, 16)])
@pytest.mark.parametrize("photometric", [0, 1])
@pytest.mark.parametrize("order", "<>")
def test_other_numbers_of_bits_are_scaled_to_the_full_range(bits, photometric, order):
    for channels in (1, 3) if photometric == 1 else (1,):
        values, full = rng.integers(0, 1 << bits, (H, W, channels)), (1 << bits) - 1
        top, dtype = (255, types.UINT8) if bits <= 8 else (65535, types.UINT16)
        expected = np.floor(values * top / full + 0.5)
        expected = top - expected if photometric == 0 else expected
        rows = [packed(values[y : y + 10], bits) for y in range(0, H, 10)]
        data = file_of(rows, bits, photometric, W, 10, channels, order=order)
        assert np.array_equal(decode(data, dtype), expected)
        lzw = file_of([zlib.compress(row) for row in rows], bits, photometric, W, 10, channels, coding=8, order=order)
        assert np.array_equal(decode(lzw, dtype), expected)


@pytest.mark.parametrize("values", [SMOOTH[:, :, 0], NOISE[:, :, 0]])
def test_min_is_white(values):
    dtype = types.UINT8 if values.dtype == np.uint8 else types.UINT16
    for tile in (None, (16, 16)):
        data = made(values, photometric="miniswhite", tile=tile)
        inverted = np.iinfo(values.dtype).max - values
        assert np.array_equal(decode(data, dtype)[:, :, 0], inverted)
        assert np.array_equal(decode(data, dtype, types.RGB), np.repeat(inverted[:, :, None], 3, 2))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("wide", [False, True])
def test_palettes(bits, wide):
    colours = rng.integers(0, 65536 if wide else 256, (3, 1 << bits))
    colours[0, 0] = 40_000 if wide else 255
    indices = rng.integers(0, 1 << bits, (H, W))
    data = file_of([packed(indices, bits)], bits, 3, W, H, more=[(320, "H", colours.reshape(-1).tolist())])
    expected = (colours >> 8 if wide else colours).T[indices]
    assert np.array_equal(decode(data), expected) and np.array_equal(decode(data, output_type=types.RGB), expected)
    with pytest.raises(SampleError, match="palette is missing"):
        decode(file_of([packed(indices, bits)], bits, 3, W, H))


@pytest.mark.parametrize("kind", ["group3", "group4", "tiff_ccitt", "packbits", "tiff_lzw", "tiff_deflate", "raw"])
@pytest.mark.parametrize("height", [1, 37, 800])
def test_bilevel(kind, height):
    bits = rng.integers(0, 2, (height, W), np.uint8)
    data = encode(Image.fromarray(bits * 255).convert("1"), "TIFF", compression=kind)
    assert np.array_equal(decode(data, output_type=types.GRAY)[:, :, 0], bits * 255)


def test_reversed_bits():
    bits = rng.integers(0, 2, (H, W))
    plain = np.frombuffer(packed(bits, 1), np.uint8)
    turned = np.packbits(np.unpackbits(plain[:, None], axis=1)[:, ::-1], axis=1).tobytes()
    assert np.array_equal(decode(file_of([turned], 1, 1, W, H, more=[(266, "H", [2])]))[:, :, 0], bits * 255)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_and_windows(orientation):
    turned = {1: SMOOTH, 2: SMOOTH[:, ::-1], 3: SMOOTH[::-1, ::-1], 4: SMOOTH[::-1], 5: SMOOTH.transpose(1, 0, 2), 6: np.rot90(SMOOTH, -1)}
    turned |= {7: SMOOTH[::-1, ::-1].transpose(1, 0, 2), 8: np.rot90(SMOOTH)}
    for planar, tile in itertools.product((False, True), (None, (16, 16))):
        data = stored(SMOOTH, "lzw", planar, tile, "<", extratags=[(274, "H", 1, orientation, True)])
        assert np.array_equal(decode(data), turned[orientation])
        assert np.array_equal(decode(data, adjust_orientation=False), SMOOTH)
        part = run_operator("decoders.image_crop", [data], crop=(9, 7), crop_pos_x=0, crop_pos_y=1, output_type=types.ANY_DATA)[0]
        assert np.array_equal(part, turned[orientation][-9:, :7])


@pytest.mark.parametrize("tile", [None, (32, 32)])
def test_strips_that_are_files(tile):
    """JPEG in TIFF, and codings that libtiff does not know. The latter came out black."""
    rgb, grey = np.ascontiguousarray(SMOOTH[:, :, :3]), SMOOTH[:, :, 0].copy()
    for coding in ("jpeg2000", "png", "webp"):
        options = {"compressionargs": {"level": 100 if coding == "webp" else None}} if coding == "webp" else {}
        for image in (rgb, grey) if coding != "webp" else (rgb,):
            photometric = "rgb" if image.ndim == 3 else "minisblack"
            found = decode(made(image, photometric=photometric, compression=coding, tile=tile, **options))
            assert np.abs(found.astype(int).squeeze() - image).max() <= (40 if coding == "webp" else 0), coding
    for image, photometric in ((rgb, "rgb"), (rgb, "ycbcr"), (grey, "minisblack")):
        source = made(image, photometric=photometric, compression="jpeg", compressionargs={"level": 95}, tile=tile)
        expected = pytest.importorskip("tifffile").imread(io.BytesIO(source))
        assert np.abs(decode(source).astype(int).squeeze() - expected).mean() < 2, photometric
    data = encode(rgb, "TIFF", compression="jpeg", quality=95)
    assert np.abs(decode(data).astype(int) - np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))).max() <= 3


def test_cmyk_is_rgb_with_full_alpha_as_in_dali():
    ink = SMOOTH[:, :, :4]
    data = encode(Image.fromarray(np.ascontiguousarray(ink), "CMYK"), "TIFF")
    light = 255 - ink.astype(int)
    expected = light[:, :, :3] * light[:, :, 3:] // 255
    assert np.array_equal(decode(data)[:, :, :3], expected) and (decode(data)[:, :, 3] == 255).all()
    assert np.array_equal(decode(data, output_type=types.RGB), expected)


def test_cmyk_in_jpeg():
    ink = Image.fromarray(np.ascontiguousarray(SMOOTH[:, :, :4]), "CMYK")
    data = encode(ink, "TIFF", compression="jpeg", quality=95)
    light = 255 - np.asarray(Image.open(io.BytesIO(data))).astype(int)
    expected = light[:, :, :3] * light[:, :, 3:] // 255
    assert np.array_equal(decode(data, output_type=types.RGB), expected)
    assert np.array_equal(decode(data), np.dstack([expected, np.full((H, W), 255)]))


@pytest.mark.parametrize("mode", ["RGBA", "RGBX"])
def test_four_channels_in_jpeg(mode):
    """A fourth channel that is no ink: the colours are not converted."""
    image = Image.frombytes(mode, (W, H), np.ascontiguousarray(SMOOTH[:, :, :4]).tobytes())
    data = encode(image, "TIFF", compression="jpeg", quality=95)
    stored = np.frombuffer(Image.open(io.BytesIO(data)).tobytes(), np.uint8).reshape(H, W, -1)
    assert np.abs(decode(data, output_type=types.ANY_DATA).astype(int)[:, :, : stored.shape[2]] - stored).max() <= 3
    assert np.array_equal(decode(data, output_type=types.RGB), decode(data, output_type=types.ANY_DATA)[:, :, :3])


def test_two_channels_in_jpeg_are_refused():
    image = Image.frombytes("LA", (W, H), np.ascontiguousarray(SMOOTH[:, :, :2]).tobytes())
    with pytest.raises(SampleError, match="JPEG of 2 components is not supported"):
        decode(encode(image, "TIFF", compression="jpeg"))


def test_ycbcr_of_four_channels_in_jpeg_is_refused():
    data = bytearray(encode(Image.fromarray(np.ascontiguousarray(SMOOTH[:, :, :4]), "RGBA"), "TIFF", compression="jpeg"))
    at = data.index(struct.pack("<HHIH", 262, 3, 1, 2))
    data[at + 8] = 6  # PhotometricInterpretation: YCbCr instead of RGB
    with pytest.raises(SampleError, match="YCbCr with 4 channels as JPEG is not supported"):
        decode(bytes(data))


@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (2, 2), (1, 2), (4, 2)])
def test_ycbcr_in_strips(steps):
    """Units of `steps` pixels and two values of chroma. Grey chroma gives grey pictures."""
    across, down = steps
    units = (-(-W // across), -(-H // down))
    luma = picture(units[1] * down, units[0] * across, 1)
    blocks = luma.reshape(units[1], down, units[0], across).transpose(0, 2, 1, 3).reshape(units[1], units[0], -1)
    pixels = np.concatenate([blocks, np.full((*blocks.shape[:2], 2), 128, np.uint8)], 2)
    for coding in (1, 8):
        data = pixels.tobytes() if coding == 1 else zlib.compress(pixels.tobytes())
        found = decode(file_of([data], 8, 6, W, H, 3, coding, more=[(530, "H", list(steps))]))
        assert np.abs(found.astype(int) - luma[:H, :W, None]).max() <= 1


# --- damage and kinds that are refused


@pytest.mark.parametrize("coding", CODINGS[1:])
@pytest.mark.parametrize("tile", [None, (16, 16)])
def test_damaged_strips_are_errors(coding, tile):
    """Decoders gave black or noise for them."""
    values = SMOOTH[:, :, :3]
    data = stored(values, coding, False, tile, "<")
    with pytest.importorskip("tifffile").TiffFile(io.BytesIO(data)) as file:
        offsets, sizes = file.pages[0].dataoffsets, file.pages[0].databytecounts
    at, size = offsets[1], sizes[1]
    damage = [bytes(size), b"\xff" * size, data[at + 60 : at + 60 + size]]
    for wrong in damage[:1] if coding == "packbits" else damage:  # Nearly any bytes are valid PackBits, and nothing has a checksum.
        with pytest.raises(SampleError, match="broken TIFF: .*(strip|tile)"):
            decode(data[:at] + wrong + data[at + size :])
    if coding in ("zlib", "deflate"):
        for place in (at + size // 2, at + size - 1):
            with pytest.raises(SampleError, match="(strip|tile) 1 is damaged"):
                decode(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
    with pytest.raises(SampleError, match="TIFF"):
        decode(data[: offsets[-1] + 5])


@pytest.mark.parametrize("tile", [None, (16, 16)])
def test_truncated_files(tile):
    data = stored(SMOOTH, None, True, tile, "<")
    for cut in (1, 100, len(data) // 2):
        with pytest.raises(SampleError, match="broken TIFF"):
            decode(data[:-cut])


@pytest.mark.parametrize(
    ("coding", "name"),
    [(50002, "JPEG XL"), (34887, "LERC"), (32809, "ThunderScan"), (34676, "SGILog"), (34661, "JBIG"), (34934, "JPEG XR"), (777, "777")],
)
def test_unknown_codings_are_named(coding, name):
    data = file_of([SMOOTH[:, :, 0].tobytes()], 8, 1, W, H, coding=coding)
    with pytest.raises(SampleError, match=f"TIFF coding .*{name}.* is not supported; supported are .*LZW"):
        decode(data)
    assert run_operator("peek_image_shape", [data])[0].tolist() == [H, W, 3]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (file_of([bytes(99)], 8, 1, W, H), "99 of 1961 bytes|truncated"),
        (file_of([SMOOTH[:, :, 0].tobytes()], 8, 32803, W, H), "colour space 32803"),
        (file_of([SMOOTH[:, :, 0].tobytes()], 8, 1, W, H, coding=3), "broken TIFF: CCITT"),
        (file_of([SMOOTH[:, :, 0].tobytes()], 8, 2, W, H), "RGB of 1"),
        (tiff(SMOOTH[:, :, :1], 1)[:60], "truncated"),
        (file_of([b"x" * 2000], 8, 1, W, 10), "1 of 4 strips"),
        (file_of([b""], 8, 1, W, H), "outside the file|truncated"),
        (file_of([SMOOTH[:, :, 0].tobytes()], 8, 1, W, H, more=[(322, "I", [1 << 14]), (323, "I", [1 << 13])]), "broken TIFF: "),
    ],
)
def test_what_is_refused(data, words):
    with pytest.raises(SampleError, match=words):
        decode(data)


def test_strips_that_hold_other_files_than_the_coding_says():
    """A strip can be the file itself, which would be decoded without an end, or a picture much larger than the strip."""
    data = bytearray(file_of([bytes(300)], 8, 1, W, H, coding=34933))
    place = data.index(struct.pack("<HHII", 273, 4, 1, 8))
    data[place + 8 : place + 12] = bytes(4)
    with pytest.raises(SampleError, match="strip 0: found TIFF, expected PNG"):
        decode(bytes(data))
    large = np.zeros((600, 600, 3), np.uint8)
    for coding, kind in ((34933, "PNG"), (50001, "WebP"), (34712, "JPEG2000"), (7, "JPEG")):
        with pytest.raises(SampleError, match="strip 0: found a picture of 600x600 pixels"):
            decode(file_of([encode(large, kind.upper())], 8, 2, W, H, 3, coding=coding))
        with pytest.raises(SampleError, match="strip 0"):
            decode(file_of([b"x" * 300], 8, 2, W, H, 3, coding=coding))


@pytest.mark.parametrize("coding", [1, 5, 8])
def test_strips_that_overlap_take_no_memory(coding):
    """Each of 5,000 strips is nearly the whole file: 2 GB of strips."""
    data = bytearray(file_of([bytes(400_000)] + [b"x"] * 4999, 8, 1, W, 1, coding=coding, height=5000))
    sizes = data.rindex(struct.pack("<II", 400_000, 1))
    data[sizes : sizes + 20_000] = struct.pack("<5000I", *[400_000] * 5000)
    offsets = data.rindex(struct.pack("<II", 400_008, 400_009)) - 4
    data[offsets : offsets + 20_000] = struct.pack("<5000I", *[8] * 5000)
    with pytest.raises(SampleError, match="strips or tiles overlap"):
        decode(bytes(data))


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "uint32", "float16", "float64"])
def test_other_elements_are_refused_by_name(kind):
    """As in DALI."""
    with pytest.raises(SampleError, match=f"TIFF image of {kind} elements is not supported"):
        decode(made(SMOOTH[:, :, 0].astype(kind), photometric="minisblack"))


def test_sizes_of_strips_may_be_missing_or_too_large():
    """Some writers leave the sizes out, and some give the last strip the size of the others."""
    pixels = SMOOTH[:, :, 0].tobytes()
    data = bytearray(file_of([pixels], 8, 1, W, H))
    at = data.index(struct.pack("<HHI", 279, 4, 1))
    data[at : at + 2] = struct.pack("<H", 60000)
    assert np.array_equal(decode(bytes(data))[:, :, 0], SMOOTH[:, :, 0])


def test_only_the_first_page_is_decoded():
    pages = np.stack([SMOOTH[:, :, 0], 255 - SMOOTH[:, :, 0]])
    assert np.array_equal(decode(made(pages, photometric="minisblack"))[:, :, 0], pages[0])


@pytest.mark.parametrize("coding", ["tiff_lzw", "packbits", "group4", "tiff_deflate"])
def test_pillows_limit_of_pixels_does_not_apply(coding, monkeypatch):
    """Headers are checked here. Strips are unpacked as pictures of bytes, so Pillow's limit for pictures came too early."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    image = SMOOTH[:, :, 0] > 99 if coding == "group4" else np.ascontiguousarray(SMOOTH[:, :, :3])
    found = decode(encode(image, "TIFF", compression=coding))
    assert np.array_equal(found.squeeze(), image * 255 if coding == "group4" else image)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("rows, width, channels", [(1, 1, 1), (3, 1, 4), (5, 7, 1), (4, 9, 3), (2, 3, 11)])
def test_the_predictor_is_a_sum_along_rows_that_wraps(dtype, rows, width, channels):
    values = np.random.default_rng(rows).integers(0, np.iinfo(dtype).max, (rows, width * channels), dtype, endpoint=True)
    before = values.copy()
    expected = np.cumsum(values.reshape(rows, width, channels), axis=1, dtype=dtype)
    assert np.array_equal(tiff_pixels._summed(values, channels).reshape(expected.shape), expected)
    assert np.array_equal(values, before)


@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("rows", [1, 7, H])
@pytest.mark.parametrize("coding", [None, "zlib", "lzw"])
def test_strips_of_any_number_of_rows(coding, rows, planar):
    values = SMOOTH[:, :, :3]
    data = made(
        values if planar == "contig" else values.transpose(2, 0, 1), photometric="rgb", planarconfig=planar, compression=coding,
        rowsperstrip=rows, predictor=True if coding else None,
    )  # fmt: skip
    assert np.array_equal(decode(data), values)


def own(entries: dict[int, tuple[int, int, bytes]], pixels: bytes, big: bool = False) -> bytes:
    """A little-endian file of one strip or tile: tag -> type, count, value. Longer values lie behind the directory."""
    head, count, field = (16, "<Q", "<HHQ") if big else (8, "<H", "<HHI")
    inline, begin = 8 if big else 4, head + len(pixels)
    behind, out = b"", struct.pack(count, len(entries))
    at = begin + len(out) + (20 if big else 12) * len(entries) + inline
    for tag, (kind, number, value) in sorted(entries.items()):
        if len(value) > inline:
            value, behind = struct.pack("<Q" if big else "<I", at + len(behind)), behind + value
        out += struct.pack(field, tag, kind, number) + value.ljust(inline, b"\0")
    start = struct.pack("<HHQ", 8, 0, begin) if big else struct.pack("<I", begin)
    return (b"II+\0" if big else b"II*\0") + start + pixels + out + bytes(inline) + behind


def fields(width: int, height: int, bits: int, coding: int, colour: int, samples: int, size: int, big: bool = False) -> dict:
    numbers = {256: width, 257: height, 278: height, 273: 16 if big else 8, 279: size}
    short = {258: [bits] * samples, 259: [coding], 262: [colour], 277: [samples]}
    made = {tag: (4, 1, struct.pack("<I", value)) for tag, value in numbers.items()}
    return made | {tag: (3, len(values), struct.pack(f"<{len(values)}H", *values)) for tag, values in short.items()}


def test_a_tile_that_is_larger_than_the_picture():
    """Its bytes decide how much memory is taken: 34 GB here."""
    packed = zlib.compress(bytes(1 << 20))
    for coding, pixels in ((8, packed), (5, b"\x80\0\x50" * 700), (32773, b"\x81\0" * 700)):
        entries = fields(1, 1, 16, coding, 1, 1024, len(pixels))
        entries |= {tag: (4, 1, struct.pack("<I", value)) for tag, value in ((322, 4096), (323, 4096), (324, 8), (325, len(pixels)))}
        with pytest.raises(SampleError, match="34359738368 bytes, which .* cannot hold|take at least"):
            decode(own(entries, pixels))


def test_jpegs_with_palettes_of_few_colours_and_of_cielab():
    grey, colours = encode(picture(16, 16, 1), "JPEG"), encode(picture(16, 16), "JPEG", subsampling=0)
    entries = fields(16, 16, 4, 7, 3, 1, len(grey)) | {320: (3, 48, struct.pack("<48H", *range(0, 48 * 256, 256)))}
    with pytest.raises(SampleError, match="a palette of 4 bits for pixels of JPEG"):
        decode(own(entries, grey))
    with pytest.raises(SampleError, match="TIFF of CIELab as JPEG is not supported"):
        decode(own(fields(16, 16, 8, 7, 8, 3, len(colours)), colours))


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_inks_with_further_channels(extra):
    data = own(fields(4, 4, 8, 1, 5, 4 + extra, 16 * (4 + extra)), bytes(range(16 * (4 + extra))))
    assert run_operator("peek_image_shape", [data], image_type=types.ANY_DATA)[0].tolist() == [4, 4, 4] == list(decode(data).shape)


@pytest.mark.parametrize("number", [0, 2, 4, 1 << 33, (1 << 64) - 1])
@pytest.mark.parametrize("kind", [0, 3, 4, 5, 16])
def test_coefficients_of_a_wrong_number(kind, number):
    entries = fields(4, 4, 8, 1, 6, 3, 48, big=True) | {530: (3, 2, struct.pack("<HH", 1, 1)), 529: (kind, number, struct.pack("<Q", 20))}
    with pytest.raises(SampleError, match="tag 529 is not 3 numbers"):
        decode(own(entries, bytes(100), big=True))


@pytest.mark.parametrize("coding, tile, big, order", [
    ("lzw", None, False, "<"), ("zlib", (16, 16), True, ">"), ("jpeg", (16, 16), False, ">"), ("packbits", None, True, "<"),
])  # fmt: skip
def test_any_value_of_any_field_of_the_directory(coding, tile, big, order):
    """A ValueError, or a picture of the shape in the header; no other exception."""
    data = bytearray(stored(SMOOTH[:, :, :3], coding, False, tile, order, bigtiff=big))
    place = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)[0]
    (count,) = struct.unpack_from(order + ("Q" if big else "H"), data, place)
    first, step, letter, width = (place + 8, 20, "Q", 8) if big else (place + 2, 12, "I", 4)
    values = [0, 1, 2, 3, 5, 7, 16, 255, 65535, 65536, 1 << 31, (1 << 32) - 1, *([1 << 40, (1 << 62) - 1, 1 << 63] if big else [])]
    changes = ((0, "H", [320, 322, 530]), (2, "H", range(19)), (4, letter, values), (step - width, letter, values))
    pictures = 0
    for field, (at, kind, wanted) in itertools.product(range(first, first + step * count, step), changes):
        for value in wanted:
            changed = bytearray(data)
            struct.pack_into(order + kind, changed, field + at, value)
            try:
                found, _ = decode_other(np.frombuffer(changed, np.uint8), types.ANY_DATA)
            except ValueError:
                continue
            header = read_header(bytes(changed))
            assert found.shape == (header.height, header.width, header.channels)
            pictures += 1
    assert pictures > 20
