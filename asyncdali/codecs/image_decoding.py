"""Whole-image decoding from Python for what the compiled JPEG path does not do: other formats, other element types, conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batch import storage_dtype
from ..types import DALIDataType, DALIImageType
from . import jpeg2000, pnm, tiff_pixels
from .image_headers import ImageHeader, check_size, read_header, signature
from .jpeg.jpeg_tables import JPEG_HEADER, MOST_SIDE
from .png.png_files import for_opencv, reason


def decode_other(data: np.ndarray, output_type: DALIImageType) -> tuple[np.ndarray, int]:
    """Decode any supported format except JPEG: ([height, width, channels] as stored, EXIF orientation).

    The result is uint8, uint16 or float32. Channels are RGB or grey, with alpha if the file has alpha and `output_type` is ANY_DATA. For
    GRAY some formats are already decoded to luma. ValueError names the error in the data.
    """
    raw = data.tobytes()
    header = read_header(raw)
    if header.tiff is not None:
        image = tiff_pixels.decode(raw, header.tiff, _decode_part, _tiff_by_opencv)
    elif header.png is not None:
        data = np.frombuffer(for_opencv(raw, header.png), np.uint8)
        try:
            image = decode_opencv(data, header.format, _opencv_flags(header, output_type))
        except ValueError:
            raise ValueError(f"broken PNG: {reason(raw, header.png)}") from None
        if output_type == DALIImageType.ANY_DATA and header.channels == 2:
            image = image[:, :, ::3]  # OpenCV makes four channels of grey and alpha.
    elif header.pnm is not None:
        image = pnm.decode(raw, header.pnm)
        if output_type == DALIImageType.GRAY and image.shape[2] == 3:
            image = _opencv_luma(image)
    elif header.jpeg2000 is not None:
        image = _decode_jpeg2000(raw, header.jpeg2000, output_type)
    else:
        image = decode_opencv(data, header.format, _opencv_flags(header, output_type))
    if image.shape[:2] != (header.height, header.width):
        raise ValueError(f"broken {header.format}: the decoder found another image size than the header")
    return image, header.orientation


_LUMA_14 = np.array([4899, 9617, 1868], np.int64)
"""Weights of OpenCV's decoders, in 2**-14."""


def _opencv_luma(image: np.ndarray) -> np.ndarray:
    """The luma of RGB, rounded as OpenCV's and DALI's decoders do it."""
    return ((image.astype(np.int64) @ _LUMA_14 + (1 << 13)) >> 14).astype(image.dtype)[:, :, None]


def _decode_jpeg2000(raw: bytes, file: jpeg2000.Jpeg2000File, output_type: DALIImageType) -> np.ndarray:
    import cv2

    if jpeg2000.for_pillow(file, all_channels=output_type == DALIImageType.ANY_DATA):
        return jpeg2000.decode_pillow(raw, file)
    unchanged = output_type == DALIImageType.ANY_DATA or len(file.bits) == 1
    grey = output_type == DALIImageType.GRAY and file.bits[0] in (8, 16)  # Luma of other bits is computed after scaling.
    flags = cv2.IMREAD_UNCHANGED if unchanged else cv2.IMREAD_ANYDEPTH | (cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR)
    return jpeg2000.scaled(decode_opencv(np.frombuffer(raw, np.uint8), "JPEG2000", flags), file.bits[0])


def _decode_part(data: bytes, kind: str, most: tuple[int, int, int]) -> np.ndarray:
    """Decode a file of format `kind` that is a strip or tile of a TIFF: the pixels as stored. It has at most `most` rows and columns."""
    if signature(data) != kind:
        raise ValueError(f"found {signature(data) or 'no picture'}, expected {kind}")
    part = np.frombuffer(data, np.uint8)
    if kind == "JPEG":
        return decode_jpeg(part, grey=most[2] == 1, most=most[:2], ink=most[2] != 4)[0]
    header = read_header(data)
    _refuse_larger(header.height, header.width, most[:2])
    return decode_other(part, DALIImageType.ANY_DATA)[0]


def _refuse_larger(height: int, width: int, most: tuple[int, int]) -> None:
    if height > most[0] or width > most[1]:
        raise ValueError(f"found a picture of {width}x{height} pixels; at most {most[1]}x{most[0]} belong there")


MAX_SCANS = 500
"""A JPEG with more scans is refused: every scan is a pass over the whole image, and a file needs few bytes to ask for one."""


def check_jpeg(header: np.ndarray, size: int) -> None:
    """Raise ValueError if the header (JPEG_HEADER) of a JPEG of `size` bytes is implausible, or of a kind that is not decoded."""
    word = JPEG_HEADER.word
    width, height, components, marker, scans = header[
        [word.width, word.height, word.components, word.marker, word.scans]
    ].tolist()
    if marker == 0:
        raise ValueError("broken JPEG: no frame header")
    check_size(width, height, size)
    # Huffman coding (SOF0 to SOF7) takes at least one bit for each block of 8x8.
    if marker < 0xC9 and width * height > 512 * size + 4096:
        raise ValueError(f"the header gives an image of {width}x{height} pixels, which {size} bytes of data cannot hold")
    if max(width, height) > MOST_SIDE:
        raise ValueError(f"JPEG of {width}x{height} pixels; at most {MOST_SIDE} in a row or column are decoded")
    if scans > MAX_SCANS:
        raise ValueError(f"JPEG of {scans} scans; at most {MAX_SCANS} are decoded")
    if components not in (1, 3, 4):
        raise ValueError(f"JPEG of {components} components is not supported; 1, 3 and 4 are")
    if header[word.found] != 1:
        raise ValueError("JPEGs that are lossless, hierarchical or of other than 8 bits are not supported")


def decode_jpeg(data: np.ndarray, grey: bool, most: tuple[int, int] | None = None, ink: bool = True) -> tuple[np.ndarray, int]:
    """Decode a whole JPEG from Python by libjpeg-turbo: (uint8[height, width, 1 or 3], EXIF orientation). ValueError names the error.

    most   rows and columns that it may have at most; None: any number
    ink    four components are CMYK, which becomes RGB; False: they are returned as stored, uint8[height, width, 4]
    """
    from .jpeg import jpeg_kernels
    from .jpeg.jpeg_library import function_table

    word = JPEG_HEADER.word
    header = jpeg_kernels.read_headers(np.array([data.ctypes.data]), np.array([data.size]))[0][0]
    check_jpeg(header, data.size)
    width, height, components = (int(value) for value in header[JPEG_HEADER.span("width", "components")])
    if most is not None:
        _refuse_larger(height, width, most)
    table, orientation = function_table(), int(header[word.orientation])
    if components == 4 and not ink and table is None:
        raise ValueError("a JPEG of four channels that are not CMYK needs libjpeg-turbo, which was not found")
    if table is None:
        return jpeg_by_opencv(data, width, height, grey=grey or components == 1), orientation
    channels = 1 if grey and components == 3 else components
    image, code, message = jpeg_kernels.decode_whole(table, data, (height, width, channels), components)
    if code:
        raise ValueError(f"broken JPEG: {message}" if message else "Premature end of JPEG data: the file is truncated")
    return cmyk_to_rgb(image, bool(header[word.adobe])) if components == 4 and ink else image, orientation


def _tiff_by_opencv(data: bytes) -> np.ndarray:
    """Decode an uncompressed TIFF of YCbCr or CIELab as RGB."""
    import cv2

    return decode_opencv(np.frombuffer(data, np.uint8), "TIFF", cv2.IMREAD_COLOR)


def _opencv_flags(header: ImageHeader, output_type: DALIImageType) -> int:
    """OpenCV's flags for the conversions of DALI's decoder."""
    import cv2

    if output_type == DALIImageType.ANY_DATA:
        return cv2.IMREAD_UNCHANGED
    colour = cv2.IMREAD_GRAYSCALE if output_type == DALIImageType.GRAY else cv2.IMREAD_COLOR
    if colour == cv2.IMREAD_COLOR and header.format == "PNG":
        colour = getattr(cv2, "IMREAD_COLOR_RGB", colour)  # OpenCV 4.11: saves an eighth of the time, reordering channels
    return colour | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION


def decode_opencv(data: np.ndarray, kind: str, flags: int) -> np.ndarray:
    """Decode `data` through OpenCV, with channels in RGB order. ValueError if OpenCV cannot decode it."""
    import cv2

    try:
        image = cv2.imdecode(data, flags)
    except cv2.error as error:
        raise ValueError(f"broken {kind}: {error.err}") from None
    if image is None:
        raise ValueError(f"broken {kind}: it is damaged, truncated or of an unsupported kind")
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        raise ValueError(f"{kind} image of {image.dtype} elements is not supported; unsigned 8 and 16 bit and float32 are")
    if image.ndim == 2:
        return image[:, :, None]
    if flags != cv2.IMREAD_UNCHANGED and flags & getattr(cv2, "IMREAD_COLOR_RGB", 0):
        return image
    return image[:, :, [2, 1, 0, 3][: image.shape[2]]] if image.shape[2] >= 3 else image


def jpeg_by_opencv(data: np.ndarray, width: int, height: int, grey: bool) -> np.ndarray:
    """Decode a JPEG when libjpeg-turbo's own API is unavailable: uint8[height, width, 1 or 3]."""
    import cv2

    if b"\xff\xd9" not in data[-64:].tobytes():  # OpenCV fills missing parts with grey.
        raise ValueError("Premature end of JPEG data: the file is truncated")
    colour = cv2.IMREAD_GRAYSCALE if grey else cv2.IMREAD_COLOR
    image = decode_opencv(data, "JPEG", colour | cv2.IMREAD_IGNORE_ORIENTATION)
    if image.shape[:2] != (height, width):
        raise ValueError("broken JPEG: the decoder found another image size than the header")
    return image


def cmyk_to_rgb(image: np.ndarray, inverted: bool) -> np.ndarray:
    """Convert CMYK samples of a JPEG to RGB. Files with Adobe's segment store them `inverted` (255 = no ink)."""
    if not inverted:
        image = 255 - image
    colour, black = image[:, :, :3].astype(np.uint16), image[:, :, 3:].astype(np.uint16)
    return (colour * black // 255).astype(np.uint8)


# --------------------------------------------------------------------------------------------------------------- colour and type

# ITU-R BT.601.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_EXACT_LUMA = np.array([0.299, 0.587, 0.114])
TO_YCBCR = np.stack([
    _EXACT_LUMA * 219 / 255, (np.array([0, 0, 1]) - _EXACT_LUMA) / (1 - 0.114) * 112 / 255,
    (np.array([1, 0, 0]) - _EXACT_LUMA) / (1 - 0.299) * 112 / 255,
])  # fmt: skip
"""Factors of red, green and blue for luma (16-235 of 255) and chroma."""
_YCBCR_OFFSET = np.array([1 / 16, 1 / 2, 1 / 2])

SUPPORTED_DTYPES = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.UINT32, DALIDataType.INT32,
    DALIDataType.FLOAT,
)  # fmt: skip


@np.errstate(over="ignore", invalid="ignore")  # Pixels of a float TIFF may have any value.
def convert(image: np.ndarray, output_type: DALIImageType, dtype: DALIDataType) -> np.ndarray:
    """Convert stored channels [height, width, 1..4] (uint8, uint16, float32) to the requested colour space and element type.

    Alpha is dropped unless the type is ANY_DATA. Types are converted by :func:`convert_dtype`. YCbCr has head-room (luma 16-235 of 255)
    and is computed from the unrounded values, in the output's own range.
    """
    if output_type == DALIImageType.ANY_DATA:
        return convert_dtype(image, dtype)
    if output_type == DALIImageType.GRAY:
        grey = image[:, :, :1] if image.shape[2] < 3 else _rounded(image[:, :, :3].astype(np.float32) @ _LUMA, image.dtype)[:, :, None]
        return convert_dtype(grey, dtype)
    rgb = np.repeat(image[:, :, :1], 3, 2) if image.shape[2] < 3 else image[:, :, :3]
    if output_type == DALIImageType.YCbCr:
        return _to_ycbcr(rgb, storage_dtype(dtype))
    return convert_dtype(rgb[:, :, ::-1] if output_type == DALIImageType.BGR else rgb, dtype)


def _full(dtype: np.dtype) -> float:
    """The value that stands for 1.0."""
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else 1.0


def _to_ycbcr(rgb: np.ndarray, target: np.dtype) -> np.ndarray:
    """``matrix * rgb * full + (1/16, 1/2, 1/2) * (full + 1)`` with `full` of the target type (floats: 1 for both).

    In float32 and in this order, as `color_space_conversion` computes, so a decoder and the operator give the same pixels.
    """
    full = _full(target)
    red, green, blue = (np.ascontiguousarray(rgb[:, :, k : k + 1], np.float32) for k in range(3))
    matrix = (TO_YCBCR * (full / _full(rgb.dtype))).astype(np.float32)
    values = matrix[:, 0] * red
    values += matrix[:, 1] * green
    values += matrix[:, 2] * blue
    values += (_YCBCR_OFFSET * (full + 1 if target.kind in "iu" else 1.0)).astype(np.float32)
    return _rounded(values, target)


def _rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`values` as `dtype`. Integers are rounded half up and clamped."""
    if dtype.kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.floor(np.nan_to_num(values.astype(np.float64)) + 0.5), limits.min, limits.max).astype(dtype)


def convert_dtype(image: np.ndarray, dtype: DALIDataType) -> np.ndarray:
    """Map the full range of the stored type to the full positive range of `dtype` ([0, 1] for FLOAT), in float32 as DALI does."""
    target = storage_dtype(dtype)
    if image.dtype == target:
        return image
    scaled = image.astype(np.float32) * np.float32(1 / _full(image.dtype))
    if target.kind == "f":
        return scaled
    return _rounded(scaled * np.float32(_full(target)), target)


def orient(image: np.ndarray, orientation: int) -> np.ndarray:
    """The image as it should be displayed for an EXIF orientation (1-8). Returns a view."""
    if orientation >= 5:
        image = image.transpose(1, 0, 2)
    flips: dict[int, tuple[Any, Any]] = {
        2: (slice(None), slice(None, None, -1)),
        3: (slice(None, None, -1), slice(None, None, -1)),
        4: (slice(None, None, -1), slice(None)),
        6: (slice(None), slice(None, None, -1)),
        7: (slice(None, None, -1), slice(None, None, -1)),
        8: (slice(None, None, -1), slice(None)),
    }
    return image[flips[orientation]] if orientation in flips else image
