"""Our PNG decoder: every filter, channel layout and kind of deflated block, damaged files, and files that OpenCV must decode."""

from __future__ import annotations

import random
import struct
import zlib

import numpy as np
import pytest
from helpers.images import encode, exif, picture, png, png_16, png_chunk
from helpers.jpegs import Guarded
from helpers.operators import run_operator
from helpers.pipelines import pipeline_of

from asyncdali import fn, types
from asyncdali.codecs.png import png_kernels
from asyncdali.codecs.png.inflate import WORK_BYTES
from asyncdali.codecs.png.png_tables import DECODE_PNGS, PNG_HEADER
from asyncdali.compiled.job_tables import THREAD
from asyncdali.operators.base import SampleError
from asyncdali.operators.decode import png_samples

COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}
_file, _pixels, _scratch = Guarded(1 << 20), Guarded(1 << 20), Guarded(4 << 20)


def decoded(data: bytes) -> np.ndarray | None:
    """The pixels of a file; None if OpenCV must decode it. File and pixels end at guard pages."""
    file = _file.last(len(data))
    file[:] = np.frombuffer(data, np.uint8)
    addresses, sizes, headers = np.array([file.ctypes.data]), np.array([len(data)]), PNG_HEADER.zeros(1)
    if not png_kernels.read_headers(addresses.ctypes.data, sizes.ctypes.data, headers.ctypes.data, 1):
        return None
    word = PNG_HEADER.word
    shape = headers[0, [word.height, word.width, word.channels]].tolist()
    out = _pixels.last(int(np.prod(shape)))
    scratch = _scratch.last(png_kernels.scratch_bytes(headers))
    scratch[:WORK_BYTES] = 0xA5
    thread, statuses = THREAD.zeros(1)[0], np.full(1, 7)
    thread[THREAD.word.scratch], thread[THREAD.word.scratch_bytes] = scratch.ctypes.data, scratch.size
    context, _keep = DECODE_PNGS.make(
        addresses=addresses, sizes=sizes, headers=headers, samples=np.zeros(1, np.int64), targets=np.array([out.ctypes.data]),
        statuses=statuses, scratch=0,
    )  # fmt: skip
    assert png_kernels.decode_png(context.ctypes.data, 0, thread.ctypes.data) == 0
    return out.reshape(shape).copy() if statuses[0] == 0 else None


def filtered(image: np.ndarray, kinds: list[int]) -> bytes:
    """The filtered rows of uint8[height, width, channels]. The filters take turns (PNG specification, section 9.2)."""
    height, width, channels = image.shape
    wide = np.zeros((height + 1, width + 1, channels), np.int64)
    wide[1:, 1:] = image
    a, b, c = wide[1:, :-1], wide[:-1, 1:], wide[:-1, :-1]
    guess = a + b - c
    to = [abs(guess - one) for one in (a, b, c)]
    nearest = np.where((to[0] <= to[1]) & (to[0] <= to[2]), a, np.where(to[1] <= to[2], b, c))
    predicted = [np.zeros_like(a), a, b, (a + b) // 2, nearest]
    rows = []
    for k in range(height):
        kind = kinds[k % len(kinds)]
        rows.append(bytes([kind]) + (image[k] - predicted[kind][k]).astype(np.uint8).tobytes())
    return b"".join(rows)


def file_of(image: np.ndarray, packed: bytes, extra: bytes = b"", parts: int = 1, behind: bytes = b"") -> bytes:
    """A PNG whose deflated rows are divided into `parts` chunks."""
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)
    size = max(1, -(-len(packed) // parts))
    chunks = b"".join(png_chunk(b"IDAT", packed[k : k + size]) for k in range(0, len(packed), size))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra + chunks + behind + png_chunk(b"IEND", b"")


def with_checksums(data: bytes) -> bytes:
    """The file with a correct checksum behind each chunk, up to the first invalid chunk."""
    out, place = bytearray(data), 8
    while place + 12 <= len(out):
        length = struct.unpack_from(">I", out, place)[0]
        if place + 12 + length > len(out):
            break
        struct.pack_into(">I", out, place + 8 + length, zlib.crc32(out[place + 4 : place + 8 + length]))
        place += 12 + length
    return bytes(out)


def image_of(height: int, width: int, channels: int) -> np.ndarray:
    return picture(height, width, channels, seed=3).reshape(height, width, channels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("kinds", [[0], [1], [2], [3], [4], [4, 3, 2, 1, 0], [3, 4]])
def test_filters(channels, kinds):
    for height, width in ((1, 1), (1, 9), (7, 1), (23, 31)):
        image = image_of(height, width, channels)
        found = decoded(file_of(image, zlib.compress(filtered(image, kinds))))
        np.testing.assert_array_equal(found, image)


@pytest.mark.parametrize("strategy", [zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED])
@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_deflated_blocks(strategy, level):
    rng = np.random.default_rng(4)
    noise = rng.integers(0, 256, (90, 70, 3), np.uint8)
    skewed = np.minimum(rng.geometric(0.3, (200, 90, 3)) ** 2, 255).astype(np.uint8)  # codes of up to 15 bits
    runs = np.repeat(rng.integers(0, 9, 300), rng.integers(1, 200, 300))[: 60 * 50 * 3].astype(np.uint8).reshape(60, 50, 3)
    for image in (noise, skewed, runs, np.zeros((80, 70, 3), np.uint8), image_of(60, 50, 3)):
        for parts in (1, 5):
            packer = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
            packed = packer.compress(filtered(image, [0])) + packer.flush()
            np.testing.assert_array_equal(decoded(file_of(image, packed, parts=parts)), image)


def test_all_distances_and_lengths():
    chance = random.Random(5)
    for _ in range(40):
        data = bytearray(chance.randbytes(40))
        while len(data) < 30_000:
            distance, length = chance.randint(1, min(len(data), chance.choice([4, 20, 30_000]))), chance.randint(3, 300)
            for _ in range(length):
                data.append(data[-distance])
            data += chance.randbytes(chance.choice([0, 1, 5]))
        image = np.frombuffer(bytes(data[:30_000]), np.uint8).reshape(100, 100, 3)
        np.testing.assert_array_equal(decoded(file_of(image, zlib.compress(filtered(image, [0]), 9))), image)


def test_flushed_streams_have_empty_blocks():
    image, packer = image_of(20, 30, 3), zlib.compressobj()
    rows, packed = filtered(image, [1]), b""
    for k in range(0, len(rows), 100):
        packed += packer.compress(rows[k : k + 100]) + packer.flush(zlib.Z_SYNC_FLUSH if k % 200 else zlib.Z_FULL_FLUSH)
    np.testing.assert_array_equal(decoded(file_of(image, packed + packer.flush())), image)


def test_chunks_without_effect():
    image = image_of(9, 8, 3)
    extra = png_chunk(b"gAMA", struct.pack(">I", 45455)) + png_chunk(b"tEXt", b"Title\0x") + png_chunk(b"pHYs", bytes(9))
    found = decoded(file_of(image, zlib.compress(filtered(image, [2])), extra, behind=png_chunk(b"tIME", bytes(7))))
    np.testing.assert_array_equal(found, image)


def test_files_that_opencv_must_decode():
    image = image_of(9, 8, 3)
    packed = zlib.compress(filtered(image, [0]))
    apart = png_chunk(b"IDAT", packed[:9]) + png_chunk(b"tEXt", b"a\0b")
    for data in (
        encode(picture(9, 8), "JPEG"), png_16(np.zeros((4, 5), np.uint16)), png(8, 9, 8, 2, filtered(image, [0]), interlace=1),
        encode(np.zeros((4, 5), bool), "PNG"), file_of(image, packed, png_chunk(b"eXIf", exif(6))),
        file_of(image, packed, behind=png_chunk(b"eXIf", exif(6))), file_of(image, packed, png_chunk(b"CgBI", bytes(4))),
        file_of(image, packed[9:], apart), file_of(image, b""), b"", b"\x89PNG\r\n\x1a\n",
    ):  # fmt: skip
        assert decoded(data) is None


# --- one rule for both decoders


def none_decoded(*_):
    """In place of ``decoded_pngs``: OpenCV decodes all files."""
    return png_samples._NOTHING
    yield  # a generator without jobs


def results(data: bytes, monkeypatch, **arguments) -> list[np.ndarray | str]:
    """The result of the pipeline, picture or error: with our decoder, without it, and as the frame of a sequence."""
    found = []
    for own in (True, False):
        with monkeypatch.context() as patch:
            if not own:
                patch.setattr("asyncdali.operators.decode.image_decoder.decoded_pngs", none_decoded)
            try:
                found.append(run_operator("decoders.image", [data], **arguments)[0])
            except SampleError as error:
                found.append(str(error))
    return found


def one_result(data: bytes, monkeypatch, **arguments) -> np.ndarray | str:
    """The result of both decoders, which must be equal."""
    own, other = results(data, monkeypatch, **arguments)
    assert type(own) is type(other) and (own == other if isinstance(own, str) else np.array_equal(own, other)), (own, other)
    return own


IMAGE = picture(13, 11, seed=5)
PACKED = zlib.compress(filtered(IMAGE, [4, 1, 3]))
WHOLE = file_of(IMAGE, PACKED)
LAST = len(WHOLE) - 12


def damaged(kind: bytes, contents: bytes) -> bytes:
    chunk = bytearray(png_chunk(kind, contents))
    chunk[-1] ^= 1
    return bytes(chunk)


@pytest.mark.parametrize(
    "data",
    [
        file_of(IMAGE, PACKED, png_chunk(b"bKGD", b"abc")), file_of(IMAGE, PACKED, png_chunk(b"tRNS", b"a")),
        file_of(IMAGE, PACKED, png_chunk(b"PLTE", bytes(7))), file_of(IMAGE, PACKED, png_chunk(b"gAMA", b"")),
        file_of(IMAGE, PACKED, png_chunk(b"iCCP", b"x" * 99)), file_of(IMAGE, PACKED, damaged(b"sRGB", b"\1")),
        file_of(IMAGE, PACKED, damaged(b"eXIf", exif(6))), file_of(IMAGE, PACKED, png_chunk(b"eXIf", b"broken")),
        file_of(IMAGE, PACKED, png_chunk(b"vpAg", bytes(9))), file_of(IMAGE, PACKED, png_chunk(b"acTL", bytes(8))),
        file_of(IMAGE, PACKED, png_chunk(b"tEXt", b"")), file_of(IMAGE, PACKED, behind=png_chunk(b"IHDR", bytes(13))),
        file_of(IMAGE, PACKED, behind=png_chunk(b"tEXt", b"x") + png_chunk(b"IDAT", b"more")),
        file_of(IMAGE, PACKED, behind=damaged(b"tEXt", b"k\0v")), file_of(IMAGE, PACKED + b"behind the stream"),
        file_of(IMAGE, zlib.compress(filtered(IMAGE, [4, 1, 3]) + bytes(1000))), file_of(IMAGE, PACKED, png_chunk(b"IDAT", b"")),
        *(WHOLE[: LAST + k] for k in range(12)), WHOLE[:LAST] + b"garbage behind the data" * 9, WHOLE[:LAST] + bytes(40),
        file_of(IMAGE, PACKED, behind=png_chunk(b"tEXt", b"k\0v"))[:-20], WHOLE[:-4] + b"abcd",
        WHOLE[:LAST] + png_chunk(b"IEND", b"contents"), file_of(IMAGE, b"\x08\x1d" + PACKED[2:]),
        file_of(IMAGE, b"\x1d" + PACKED[2:], png_chunk(b"IDAT", b"") + png_chunk(b"IDAT", b"\x08")),
    ],
)  # fmt: skip
def test_what_follows_or_surrounds_the_pixels_changes_nothing(data, monkeypatch):
    """OpenCV refused some of these, and our decoder gave pixels: which one ran depended on a cache of kernels."""
    np.testing.assert_array_equal(one_result(data, monkeypatch), IMAGE)
    grey = one_result(data, monkeypatch, output_type=types.GRAY)
    np.testing.assert_array_equal(grey, one_result(WHOLE, monkeypatch, output_type=types.GRAY))
    np.testing.assert_array_equal(one_result(data, monkeypatch, output_type=types.ANY_DATA), IMAGE)
    assert run_operator("peek_image_shape", [data])[0].tolist() == [13, 11, 3]


WIDE = bytearray(WHOLE)
WIDE[16:20] = struct.pack(">I", 1_000_001)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (WHOLE[: LAST - 1], "truncated"), (WHOLE[: LAST - 20], "truncated"), (WHOLE[:50], "truncated"), (WHOLE[:33], "truncated"),
        (WHOLE[:20], "header is truncated"), (file_of(IMAGE, b""), "no data"), (file_of(IMAGE, PACKED[:-1]), "ends too early"),
        (file_of(IMAGE, PACKED[:-4] + bytes(4)), "damaged data"), (file_of(IMAGE, PACKED[:40] + b"\xff" + PACKED[41:]), "damaged data"),
        (file_of(IMAGE, zlib.compress(filtered(IMAGE, [0])[:-1])), "ends too early"), (with_checksums(bytes(WIDE)), "1000001x13"),
        (file_of(IMAGE, zlib.compress(b"\5" + filtered(IMAGE, [0])[1:])), "damaged"),
        (file_of(IMAGE, PACKED, png_chunk(b"CgBI", b"")), "CgBI"),
        (WHOLE.replace(b"IHDR", b"iHDR"), "start with IHDR"), (WHOLE[:29] + b"abcd" + WHOLE[33:], "wrong checksum of the header"),
        (WHOLE[: LAST - 4] + b"abcd" + WHOLE[LAST:], "wrong checksum of the data"), (b"\x89PNG\r\n\x1a\n", "header is truncated"),
    ],
)  # fmt: skip
def test_broken_files_have_one_error(data, words, monkeypatch):
    for output_type in (types.RGB, types.GRAY, types.ANY_DATA):
        assert words in one_result(data, monkeypatch, output_type=output_type)


def test_wrong_palettes_are_refused_only_where_they_are_used(monkeypatch):
    indices = np.arange(9, dtype=np.uint8).reshape(3, 3)
    rows = filtered(indices[:, :, None], [0])
    palette = bytes(range(27))
    file = lambda chunks: png(3, 3, 8, 3, rows, chunks)  # noqa: E731
    expected = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    for more in (b"", png_chunk(b"tRNS", bytes(5)), png_chunk(b"bKGD", b"abc")):
        for kind in (types.RGB, types.ANY_DATA):
            found = one_result(file(png_chunk(b"PLTE", palette) + more), monkeypatch, output_type=kind)
            np.testing.assert_array_equal(found, expected)
    assert "wrong checksum of the palette" in one_result(file(damaged(b"PLTE", palette)), monkeypatch)
    assert "PNG" in one_result(file(b""), monkeypatch)


def test_an_orientation_may_follow_the_data(monkeypatch):
    whole = file_of(IMAGE, PACKED, behind=png_chunk(b"eXIf", exif(6)))
    for data in (whole, whole[:-12]):
        np.testing.assert_array_equal(one_result(data, monkeypatch), np.rot90(IMAGE, -1))


def test_damaged_data_is_left_to_opencv():
    image = image_of(20, 30, 3)
    rows = filtered(image, [4, 1])
    packed = zlib.compress(rows)
    for wrong in (
        packed[:-1], packed[:-5], packed[:20], b"", packed[:-4] + bytes(4), zlib.compress(rows[:-1]), zlib.compress(rows + b"\0"),
        zlib.compress(b"\5" + rows[1:]), b"\x79" + packed[1:], bytes([packed[0] ^ 7]) + packed[1:],
        zlib.compress(rows)[:2] + b"\7" + packed[3:], packed[:2] + b"\1\5\0\xfa\xfeabcd",
    ):  # fmt: skip
        assert decoded(file_of(image, wrong)) is None


@pytest.mark.parametrize("parts", [1, 5])
def test_checksums_of_chunks(parts):
    """As in DALI, a wrong checksum of the header or the data is an error. Wrong checksums of other chunks are ignored."""
    image = image_of(20, 30, 3)
    good = file_of(image, zlib.compress(filtered(image, [4, 1])), png_chunk(b"tEXt", b"Title\0x"), parts=parts)
    place, kinds = 8, []
    while place < len(good):
        length, kind = struct.unpack_from(">I4s", good, place)
        data = bytearray(good)
        data[place + 8 + length + len(kinds) % 4] ^= 1
        found = decoded(bytes(data))
        assert (found is None) == (kind in (b"IHDR", b"IDAT")), kind
        assert found is None or np.array_equal(found, image)
        kinds.append(kind)
        place += 12 + length
    assert kinds == [b"IHDR", b"tEXt", *[b"IDAT"] * parts, b"IEND"]


def test_a_wrong_checksum_is_an_error_of_the_pipeline():
    data = bytearray(encode(picture(9, 8), "PNG"))
    data[data.index(b"IHDR") + 4 + 13] ^= 1  # a byte of the header's checksum
    pipe = pipeline_of(lambda: fn.decoders.image(fn.external_source(source=lambda: [np.frombuffer(data, np.uint8)])), batch_size=1)
    with pytest.raises(RuntimeError, match="decoders.image"):
        pipe.run()


@pytest.mark.parametrize("level", [0, 1, 9])
def test_damaged_files_are_decoded_without_access_to_other_memory(level):
    """Files, pixels and scratch end at guard pages. If a damaged file is decoded, all of its pixels are written."""
    image, chance = image_of(40, 30, 3), random.Random(level)
    good = file_of(image, zlib.compress(filtered(image, [4, 3, 1]), level))
    begin = good.index(b"IDAT") + 4
    for turn in range(1500):
        data = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(8 if turn % 4 == 0 else begin, len(data))] = chance.randrange(256)
        if turn % 7 == 0:
            del data[chance.randrange(30, len(data)) :]
        decoded(bytes(data) if turn % 3 == 0 else with_checksums(data))
    for flipped in range(begin, len(good) - 16):
        data = bytearray(good)
        data[flipped] ^= 1 << chance.randrange(8)
        found = decoded(with_checksums(data))
        assert found is None or np.array_equal(found, image)


def test_a_file_that_shrinks_after_its_header_was_read():
    image = image_of(20, 30, 3)
    data = bytearray(file_of(image, zlib.compress(filtered(image, [0]), 0), parts=3))
    second = data.index(b"IDAT", data.index(b"IDAT") + 4)
    file = np.frombuffer(data, np.uint8)
    addresses, sizes, headers = np.array([file.ctypes.data]), np.array([len(data)]), PNG_HEADER.zeros(1)
    assert png_kernels.read_headers(addresses.ctypes.data, sizes.ctypes.data, headers.ctypes.data, 1) == 1
    headers[0, PNG_HEADER.word.packed] = second  # the file is shorter than its chunks
    out, scratch = np.zeros(image.size, np.uint8), _scratch.last(png_kernels.scratch_bytes(headers))
    thread, statuses = THREAD.zeros(1)[0], np.full(1, 7)
    thread[THREAD.word.scratch] = scratch.ctypes.data
    context, _keep = DECODE_PNGS.make(
        addresses=addresses, sizes=sizes, headers=headers, samples=np.zeros(1, np.int64), targets=np.array([out.ctypes.data]),
        statuses=statuses, scratch=0,
    )  # fmt: skip
    assert png_kernels.decode_png(context.ctypes.data, 0, thread.ctypes.data) == 0 and statuses[0] != 0


@pytest.mark.parametrize("output_type", [types.RGB, types.BGR, types.GRAY, types.YCbCr, types.ANY_DATA])
@pytest.mark.parametrize("dtype", [types.UINT8, types.FLOAT])
def test_pipelines_give_the_pixels_of_opencv(output_type, dtype, monkeypatch):
    """In mixed batches OpenCV decodes some of the files."""
    files = [encode(image_of(31, 22, channels).squeeze(), "PNG") for channels in (1, 3, 4)]
    files += [png_16(np.full((4, 5, 3), 777, np.uint16)), encode(picture(9, 8), "JPEG"), encode(image_of(12, 13, 2), "PNG")]
    broken = files[1][:-30] + files[1][-29:]

    def outputs(own: bool) -> list[np.ndarray]:
        if not own:
            monkeypatch.setattr("asyncdali.operators.decode.image_decoder.decoded_pngs", none_decoded)
        batch = [np.frombuffer(data, np.uint8) for data in files]

        def graph():
            return fn.decoders.image(fn.external_source(lambda: batch), output_type=output_type, dtype=dtype)

        with pipeline_of(graph, batch_size=len(batch)) as pipeline:
            return [np.array(pipeline.run()[0].at(k)) for k in range(len(batch))]

    for one, other in zip(outputs(True), outputs(False), strict=True):
        np.testing.assert_array_equal(one, other)
    batch = [np.frombuffer(broken, np.uint8)]
    graph = lambda: fn.decoders.image(fn.external_source(lambda: batch))  # noqa: E731
    with pipeline_of(graph, batch_size=1) as pipeline, pytest.raises(RuntimeError, match="broken PNG"):
        pipeline.run()
