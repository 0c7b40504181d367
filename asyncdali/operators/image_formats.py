"""Whole-image decoding from Python: what the compiled JPEG path does not do (other formats, CMYK, other output types)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batch import storage_dtype
from ..types import DALIDataType, DALIImageType

MAX_PIXELS = 1 << 28
"""Largest image that is decoded (268 million pixels): a header that claims more is refused before memory is taken."""


def signature(data: np.ndarray) -> str | None:
    """Format name by the first bytes, or None if it is none that is read here."""
    head = data[:16].tobytes()
    if head[:2] == b"\xff\xd8":
        return "JPEG"
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return "PNG"
    if head[:2] == b"BM":
        return "BMP"
    if head[:4] in (b"II*\0", b"MM\0*"):
        return "TIFF"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    if len(head) > 2 and head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace():
        return "PNM"
    if head[:12] == b"\0\0\0\x0cjP  \r\n\x87\n" or head[:4] == b"\xff\x4f\xff\x51":
        return "JPEG2000"
    return None


def decode_other(data: np.ndarray) -> np.ndarray:
    """Any supported format as stored: [height, width, channels], uint8 or uint16, channels 1 or RGB or RGBA.

    Raises ValueError naming what is wrong with the data.
    """
    import cv2

    kind = signature(data)
    if kind is None:
        head = data[:8].tobytes()
        raise ValueError(f"unrecognised image format (it starts with {head!r}); known are JPEG, PNG, BMP, TIFF, WebP, PNM and JPEG2000")
    if kind == "PNG" and len(data) >= 24:
        width, height = (int.from_bytes(data[at : at + 4].tobytes(), "big") for at in (16, 20))
        check_size(width, height)
    try:
        image = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise ValueError(f"{kind} data cannot be decoded: {error.err}") from None
    if image is None:
        raise ValueError(f"{kind} data cannot be decoded: broken or truncated")
    if image.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{kind} image of {image.dtype} elements is not supported; 8 and 16 bit unsigned are")
    if image.ndim == 2:
        return image[:, :, None]
    order = [2, 1, 0, 3][: image.shape[2]]
    return np.ascontiguousarray(image[:, :, order])


def check_size(width: int, height: int) -> None:
    """ValueError for sizes that cannot be meant."""
    if width <= 0 or height <= 0:
        raise ValueError(f"the header gives an image of {width}x{height} pixels")
    if width * height > MAX_PIXELS:
        raise ValueError(f"the header gives an image of {width}x{height} pixels; at most {MAX_PIXELS} are decoded")


# --------------------------------------------------------------------------------------------------------------- colour and type

_LUMA = (0.299, 0.587, 0.114)


def _full(dtype: np.dtype) -> float:
    return float(np.iinfo(dtype).max) if dtype.kind in "iu" else 1.0


def convert_colour(image: np.ndarray, output_type: DALIImageType) -> np.ndarray:
    """Stored channels (1, RGB, RGBA) to the requested colour space. ITU-R BT.601; YCbCr has head-room (16-235)."""
    if output_type == DALIImageType.ANY_DATA:
        return image
    channels = image.shape[2]
    if output_type == DALIImageType.GRAY:
        if channels < 3:
            return image[:, :, :1]
        return _rounded(image[:, :, :3].astype(np.float32) @ np.array(_LUMA, np.float32), image.dtype)[:, :, None]
    rgb = np.repeat(image[:, :, :1], 3, 2) if channels < 3 else image[:, :, :3]
    if output_type == DALIImageType.BGR:
        return rgb[:, :, ::-1]
    if output_type == DALIImageType.YCbCr:
        return _to_ycbcr(rgb)
    return rgb


def _to_ycbcr(rgb: np.ndarray) -> np.ndarray:
    full = _full(rgb.dtype)
    exact = np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255
    offset = np.array([16, 128, 128]) / 255 * full
    return _rounded(rgb.astype(np.float32) @ exact.T.astype(np.float32) + offset.astype(np.float32), rgb.dtype)


def _rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.floor(values + 0.5), limits.min, limits.max).astype(dtype)


SUPPORTED_DTYPES = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.UINT32, DALIDataType.INT32,
    DALIDataType.FLOAT,
)  # fmt: skip


def convert_dtype(image: np.ndarray, dtype: DALIDataType) -> np.ndarray:
    """The full range of the stored type mapped on the full positive range of `dtype` ([0, 1] for FLOAT)."""
    target = storage_dtype(dtype)
    if image.dtype == target:
        return image
    scale = _full(target) / _full(image.dtype)
    if target.kind == "f":
        return image.astype(np.float32) * np.float32(scale)
    values = image.astype(np.float64) * scale
    limits = np.iinfo(target)
    return np.clip(np.floor(values + 0.5), limits.min, limits.max).astype(target)


def orient(image: np.ndarray, orientation: int) -> np.ndarray:
    """The image as seen, for an EXIF orientation (1-8)."""
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
    if orientation in flips:
        image = image[flips[orientation]]
    return image
