"""Values as HTML: pictures, masks, strips of video, sounds with a player, spectrograms, numbers; ranges and histograms."""

from __future__ import annotations

import html
import io
from collections.abc import Callable

import numpy as np

from .pictures import Marks, data_uri, picture_of, strip
from .sounds import is_sound, sound

WIDEST = 384
"""Larger pictures are reduced to this number of pixels."""
_FRAMES = 6
_FEW = 24
_BINS = 32
_SHOWN_LARGER = 96
"""Smaller pictures are shown larger."""


def escaped(value: object) -> str:
    """Text for HTML. Characters that UTF-8 cannot encode are written as escapes."""
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode())


def rendered(
    array: np.ndarray, layout: str, marks: Marks | None = None, *, name: str = "", widest: int = WIDEST, rate: float = 0,
    player: bool = True,
) -> str:  # fmt: skip
    """The value of one sample.

    Args:
        marks: drawn on a picture.
        name: begins the texts of pictures.
        widest: larger pictures are reduced to this number of pixels.
        rate: the sampling rate of a sound in Hz; 0: unknown.
        player: whether a sound gets a player, which takes up to 128 KB.
    """
    if not array.size:
        return "<em>no elements</em>"
    if array.ndim == 1 and array.dtype == np.uint8 and array.size > _FEW:
        return _encoded(array, name, widest) or _text(array)
    if is_sound(array, layout, rate):
        return sound(array, escaped(name), rate, player)
    if array.ndim == 4 and (frames := _frames(array, layout)):
        count = len(frames_first(array, layout)[0])
        pixels = strip([frame for _, frame in frames], max(16, widest // 3))
        return _image(pixels, f"{name} frames {', '.join(str(k) for k, _ in frames)} of {count},", widest * 2, array.shape)
    picture = picture_of(array, layout)
    return _text(array) if picture is None else _image(picture, name, widest, array.shape, marks)


def _frames(array: np.ndarray, layout: str) -> list[tuple[int, np.ndarray]]:
    """Numbers and pictures of some frames, or of some slices of a volume."""
    array, layout = frames_first(array, layout)
    places = np.unique(np.linspace(0, len(array) - 1, _FRAMES).astype(int)).tolist()
    found = [(k, picture_of(array[k], layout[1:])) for k in places]
    return [(k, picture) for k, picture in found if picture is not None]


def frames_first(array: np.ndarray, layout: str) -> tuple[np.ndarray, str]:
    """A video or a volume with its frames or slices in front: CFHW and CDHW have them behind the channels."""
    if layout[:2] not in ("CF", "CD"):
        return array, layout
    return np.moveaxis(array, 1, 0), layout[1] + layout[0] + layout[2:]


def _image(pixels: np.ndarray, name: str, widest: int, shape: tuple[int, ...], marks: Marks | None = None) -> str:
    address, width, height = data_uri(pixels, widest, marks)
    label = escaped(f"{name} {' x '.join(map(str, shape))}".strip())
    larger = -(-_SHOWN_LARGER // max(width, height)) if max(width, height) < _SHOWN_LARGER else 1
    exact = ' class="exact"' if larger > 1 else ""
    return f'<img{exact} alt="{label}" title="{label}" width="{larger * width}" height="{larger * height}" src="{address}">'


def _encoded(array: np.ndarray, name: str, widest: int) -> str:
    """An encoded picture, decoded. Empty for other bytes."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(array.tobytes()), formats=("JPEG", "PNG")) as image:
            kind = image.format or ""
            if image.width * image.height > 1 << 26:
                return ""
            whole = image.size
            image.draft("RGB", (widest, widest))  # a JPEG is decoded at a fraction of its size
            pixels = np.asarray(image.convert("RGB"))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""
    return _image(pixels, f"{name} {kind}, {array.size} bytes,".strip(), widest, whole[::-1])


def _text(array: np.ndarray) -> str:
    shown = np.array2string(array.ravel()[:_FEW] if array.size > _FEW else array, precision=5, separator=", ", max_line_width=60)
    return f"<code>{escaped(shown)}{' ...' if array.size > _FEW else ''}</code>"


def summary(array: np.ndarray, dtype: object, layout: str) -> str:
    """Type, shape, range, and a histogram."""
    facts = f"{escaped(getattr(dtype, 'name', dtype))} {' x '.join(map(str, array.shape)) or 'scalar'} {escaped(layout)}"
    if not array.size or array.dtype.kind not in "buif":
        return f'<span class="facts">{facts}</span>'
    if array.dtype == np.uint8:
        places = np.bincount(array.ravel(), minlength=256)
        found = np.flatnonzero(places)
        low, high, mean = float(found[0]), float(found[-1]), float(places @ np.arange(256)) / array.size
        facts += f"<br>{low:.5g} to {high:.5g}, mean {mean:.5g}"
        counts = np.histogram(np.arange(256), _BINS, (low, high), weights=places)[0] if high > low else places
        return f'<span class="facts">{facts}</span>{_histogram(counts, low, high) if array.size > _FEW and high > low else ""}'
    values = (array if array.dtype == np.float32 else array.astype(np.float64)).ravel()
    finite = np.isfinite(values)
    wrong = values.size - int(np.count_nonzero(finite))
    values = values[finite] if wrong else values
    if not len(values):
        return f'<span class="facts">{facts}<br>{wrong} values are not finite</span>'
    low, high, mean = float(values.min()), float(values.max()), float(values.mean(dtype=np.float64))
    facts += f"<br>{low:.5g} to {high:.5g}, mean {mean:.5g}" + (f", {wrong} not finite" if wrong else "")
    shown = _histogram(_counts(values, low, high), low, high) if len(values) > _FEW and high > low else ""
    return f'<span class="facts">{facts}</span>{shown}'


def _counts(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Values per bin. Halves keep the range finite."""
    span = high / 2 - low / 2
    if not span:
        return np.array([len(values)])
    places = (values.astype(np.float64) / 2 - low / 2) / span * _BINS
    return np.bincount(np.minimum(places.astype(np.int64), _BINS - 1), minlength=_BINS)


def _histogram(counts: np.ndarray, low: float, high: float) -> str:
    bars = "".join(f"M{4 * k + 2} 30v{-29 * count / counts.max():.2g}" for k, count in enumerate(counts.tolist()) if count)
    label = f"histogram from {low:.5g} to {high:.5g}"
    return (
        f'<svg class="histogram" viewBox="0 0 {4 * _BINS} 30" role="img" aria-label="{label}">'
        f'<path d="{bars}" stroke="currentColor" stroke-width="3"/></svg>'
    )


_MOST = 16
"""Samples that a sheet shows."""


def sheet(facts: str, count: int, sample: Callable[[int], np.ndarray], dtype: object, layout: str) -> str:
    """Samples side by side, for notebooks. `facts`: the line above; `sample(k)`: the k-th one."""
    arrays = map(sample, range(min(count, _MOST)))
    cells = "".join(f"<div>{rendered(array, layout)}<br>{summary(array, dtype, layout)}</div>" for array in arrays)
    more = f"<div>and {count - _MOST} more</div>" if count > _MOST else ""
    sizes = (
        "<style>.asyncdali-sheet svg{width:160px;height:40px;display:block}.asyncdali-sheet img{max-width:160px;height:auto}"
        ".asyncdali-sheet .exact{image-rendering:pixelated}</style>"
    )
    style = "display:flex;flex-wrap:wrap;gap:8px;font-size:11px"
    return f'<div class="asyncdali-sheet">{sizes}<b>{escaped(facts)}</b><div style="{style}">{cells}{more}</div></div>'
