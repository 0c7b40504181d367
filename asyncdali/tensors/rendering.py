"""Values as HTML: pictures, masks, strips of video, waveforms with a player, spectrograms, numbers; ranges and histograms."""

from __future__ import annotations

import base64
import html
import io
import struct
from collections.abc import Callable, Sequence

import numpy as np

_WIDEST = 384
"""Larger pictures are reduced to this number of pixels."""
_FRAMES = 6
_SOUND = 2000
"""A 1-D array of floats with so many elements is taken for a sound."""
_RATE = 16000
_FEW = 24
_BINS = 32


def escaped(value: object) -> str:
    """Text for HTML. Characters that UTF-8 cannot encode are written as escapes."""
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode())


def rendered(array: np.ndarray, layout: str, boxes: np.ndarray | None = None) -> str:
    """The value of one sample. `boxes` (float[n, 4]) are drawn on a picture."""
    if not array.size:
        return "<em>no elements</em>"
    if array.ndim == 1 and array.dtype == np.uint8 and array.size > _FEW:
        return _encoded(array) or _text(array)
    if array.ndim == 1 and array.dtype.kind == "f" and array.size >= _SOUND:
        return _sound(array)
    if array.ndim == 4 and (picture := _as_picture(array[0], layout[1:])) is not None:
        places = np.unique(np.linspace(0, len(array) - 1, _FRAMES).astype(int))
        frames = [_as_picture(array[k], layout[1:]) for k in places]
        return "".join(_image(frame, f"frame {k}") for k, frame in zip(places, frames, strict=True) if frame is not None)
    picture = _as_picture(array, layout)
    return _text(array) if picture is None else _image(picture, "", boxes)


def _as_picture(array: np.ndarray, layout: str) -> np.ndarray | None:
    """uint8[height, width, 1 or 3] of an array that can be shown as a picture; None for others."""
    if layout.startswith("C") or (not layout and array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4)):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or min(array.shape[:2]) < 2 or array.dtype.kind not in "buif":
        return None
    array = array[..., :3]
    if array.dtype != np.uint8:
        finite = np.nan_to_num(array.astype(np.float64), nan=0, posinf=0, neginf=0)
        low, high = finite.min(), finite.max()
        array = ((finite - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)
    return np.ascontiguousarray(array)


def _image(pixels: np.ndarray, title: str, boxes: np.ndarray | None = None) -> str:
    from PIL import Image, ImageDraw

    image = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if boxes is not None and len(boxes):
        image = image.convert("RGB")
        draw, scale = ImageDraw.Draw(image), (image.width, image.height) if boxes.max() <= 1.001 else (1, 1)
        for left, top, right, bottom in boxes.tolist():
            if right < left or bottom < top:  # width and height, not the other corner
                right, bottom = left + right, top + bottom
            corners = [left * scale[0], top * scale[1], right * scale[0], bottom * scale[1]]
            draw.rectangle(corners, outline=(255, 60, 0), width=max(1, image.width // 150))
    size = image.size
    image.thumbnail((_WIDEST, _WIDEST))
    place = io.BytesIO()
    image.save(place, "PNG")
    return _picture_tag(place.getvalue(), "png", title, size)


def _picture_tag(data: bytes, kind: str, title: str, size: tuple[int, int]) -> str:
    label = f"{size[0]} x {size[1]} {title}".strip()
    return f'<img alt="{escaped(label)}" title="{escaped(label)}" src="data:image/{kind};base64,{base64.b64encode(data).decode()}">'


def _encoded(array: np.ndarray) -> str:
    """An encoded picture, as the browser shows it. Empty for other bytes."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(array.tobytes()), formats=("JPEG", "PNG")) as image:
            kind = image.format or ""
            if image.width * image.height > 1 << 26:
                return ""
            pixels = np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""
    return _image(pixels, f"{kind}, {array.size} bytes")


def _sound(array: np.ndarray) -> str:
    """A waveform, and a player."""
    values = np.nan_to_num(array.astype(np.float64))
    columns = np.array_split(values, min(300, len(values)))
    peak = max(float(np.abs(values).max()), 1e-12)
    bars = "".join(
        f"M{x} {20 - 19 * part.max() / peak:.1f}V{20 - 19 * part.min() / peak:.1f}" for x, part in enumerate(columns)
    )
    samples = (values / max(peak, 1.0) * 32767).astype("<i2").tobytes()
    header = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt "
    header += struct.pack("<IHHIIHH", 16, 1, 1, _RATE, 2 * _RATE, 2, 16) + b"data" + struct.pack("<I", len(samples))
    sound = base64.b64encode(header + samples).decode()
    return (
        f'<svg class="wave" viewBox="0 0 {len(columns)} 40" role="img" aria-label="waveform"><path d="{bars}" stroke="currentColor"/></svg>'
        f'<audio controls preload="none" title="played at {_RATE} Hz" src="data:audio/wav;base64,{sound}"></audio>'
    )


def _text(array: np.ndarray) -> str:
    shown = np.array2string(array.ravel()[:_FEW] if array.size > _FEW else array, precision=5, separator=", ", max_line_width=60)
    return f"<code>{escaped(shown)}{' ...' if array.size > _FEW else ''}</code>"


def summary(array: np.ndarray, dtype: object, layout: str) -> str:
    """Type, shape, range, and a histogram."""
    facts = f"{escaped(getattr(dtype, 'name', dtype))} {' x '.join(map(str, array.shape)) or 'scalar'} {escaped(layout)}"
    if not array.size or array.dtype.kind not in "buif":
        return f'<span class="facts">{facts}</span>'
    values = array.astype(np.float64).ravel()
    wrong = int(np.count_nonzero(~np.isfinite(values)))
    values = values[np.isfinite(values)]
    if not len(values):
        return f'<span class="facts">{facts}<br>{wrong} values are not finite</span>'
    low, high = float(values.min()), float(values.max())
    facts += f"<br>{low:.5g} to {high:.5g}, mean {values.mean():.5g}" + (f", {wrong} not finite" if wrong else "")
    return f'<span class="facts">{facts}</span>{_histogram(values, low, high) if len(values) > _FEW and high > low else ""}'


def _histogram(values: np.ndarray, low: float, high: float) -> str:
    counts, _ = np.histogram(values, _BINS, (low, high))
    bars = "".join(f"M{4 * k + 2} 30v{-29 * count / counts.max():.1f}" for k, count in enumerate(counts.tolist()) if count)
    return (
        f'<svg class="histogram" viewBox="0 0 {4 * _BINS} 30" role="img" aria-label="histogram from {low:.5g} to {high:.5g}">'
        f'<path d="{bars}" stroke="currentColor" stroke-width="3"/></svg>'
    )


def boxes_of(arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """The boxes among a sample's outputs: the first float[n, 4]."""
    return next((array for array in arrays if array.ndim == 2 and array.shape[1] == 4 and array.dtype.kind == "f"), None)


_MOST = 16
"""Samples that a sheet shows."""


def sheet(facts: str, count: int, sample: Callable[[int], np.ndarray], dtype: object, layout: str) -> str:
    """Samples side by side, for notebooks. `facts`: the line above; `sample(k)`: the k-th one."""
    arrays = map(sample, range(min(count, _MOST)))
    cells = "".join(f"<div>{rendered(array, layout)}<br>{summary(array, dtype, layout)}</div>" for array in arrays)
    more = f"<div>and {count - _MOST} more</div>" if count > _MOST else ""
    sizes = "<style>.asyncdali-sheet svg{width:160px;height:40px;display:block}.asyncdali-sheet img{max-width:160px}</style>"
    style = "display:flex;flex-wrap:wrap;gap:8px;font-size:11px"
    return f'<div class="asyncdali-sheet">{sizes}<b>{escaped(facts)}</b><div style="{style}">{cells}{more}</div></div>'
