"""Canvas size and inverse maps of ``rotate``: arithmetic for a whole batch, without pixels.

Found by measuring DALI 2.4: the canvas is the bounding box of the rotated input, minus a hundredth of a pixel, rounded up. It is enlarged
by one if this gives it the parity of the input axis that contributes most (so that an unrotated picture keeps its pixel grid).
Angles become radians in float32; the box is float64.

Maps are float32, and every operation on them rounds: products first, then sums from the left. If positions tie (pictures rotated by 45
degrees, nearest neighbour), the last bit decides which pixel is taken. So the order of operations is DALI's, also found by measuring.
"""

from __future__ import annotations

import numpy as np

from ..sequences.per_frame_arguments import Frames

LAYOUTS = ("HWC", "FHWC", "DHWC", "FDHWC")
"""Layouts that rotate accepts. Unlabelled data gets the first layout of its length."""
_SLACK = 1e-2


def radians(angle: np.ndarray) -> np.ndarray:
    """Radians of float32 degrees: float64 with float32 precision."""
    return (angle.astype(np.float32) * np.float32(np.pi / 180)).astype(np.float64)


def rotation_2d(angle: np.ndarray) -> np.ndarray:
    """Source directions float64[n, 2, 2] of an output step along (x, y), counter-clockwise rotation by `angle` degrees [n]."""
    theta = radians(angle)
    cosine, sine = np.cos(theta), np.sin(theta)
    matrix = np.empty((len(theta), 2, 2))
    matrix[:, 0, 0] = matrix[:, 1, 1] = cosine
    matrix[:, 1, 0] = sine
    np.negative(sine, out=matrix[:, 0, 1])
    return matrix


def rotation_3d(angle: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Source directions float64[n, 3, 3] of an output step along (x, y, z), with float32 precision. `axis` [n, 3] has any length but 0.

    The inverse (transposed) Rodrigues matrix.
    """
    theta = radians(angle)
    cosine, sine = (part.astype(np.float32)[:, None, None] for part in (np.cos(theta), np.sin(theta)))
    unit = _unit(axis.astype(np.float32))
    x, y, z = unit.T
    zero = np.zeros_like(x)
    cross = np.stack([zero, z, -y, -z, zero, x, y, -x, zero], -1).reshape(-1, 3, 3)
    turned = np.where(np.eye(3, dtype=bool), cosine, cross * sine)
    matrix: np.ndarray = unit[:, :, None] * (np.float32(1) - cosine) * unit[:, None, :] + turned
    return matrix.astype(np.float64)


def _unit(axis: np.ndarray) -> np.ndarray:
    """float32[n, 3] of length 1 in the direction of `axis` float32[n, 3]."""
    with np.errstate(over="ignore", under="ignore"):
        square = axis * axis
    length = np.sqrt(square[:, :1] + square[:, 1:2] + square[:, 2:])
    if not ((length > 1e-15) & (length < np.inf)).all():  # The squares are too large or too small for float32.
        axis = axis / np.abs(axis).max(axis=1, keepdims=True)
        length = np.sqrt((axis * axis).sum(axis=1, keepdims=True))
    unit: np.ndarray = axis / length
    return unit


def canvas(shape: np.ndarray, matrix: np.ndarray, frames: Frames | None = None) -> np.ndarray:
    """Output extents int64[n, axes] that hold the rotated input.

    shape    int64[n, axes] input extents in tensor order ([depth,] height, width)
    matrix   float64[n, axes, axes] from :func:`rotation_2d` or :func:`rotation_3d` (x first)
    frames   given if the n inputs are frames of sequences. All frames of a sequence have one canvas: large enough for the largest frame,
    with the parity of most frames; even if there is a tie
    """
    extents = shape[:, ::-1]
    # `matrix` maps output to input, so its transpose maps input to output. Column k has the weights of the input axes for output axis k.
    weights = np.abs(matrix).swapaxes(1, 2)
    box: np.ndarray = np.ceil((weights * extents[:, None, :]).sum(axis=2) - _SLACK).astype(np.int64)
    odd = _parity_source(extents, weights) & 1
    if frames is not None:
        box, odd = frames.largest(box), (2 * frames.mean(odd) > 1).astype(np.int64)
    box = box + ((box ^ odd) & 1)
    return box[:, ::-1]


def _parity_source(extents: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """For each output axis the extent of the input axis that contributes most to it.

    In the plane, the exact comparison ``|sin| <= |cos|`` decides ties. In space, the axis with the same index wins ties.
    """
    axes = extents.shape[1]
    if axes == 2:
        own = (weights[:, 0, 1] <= weights[:, 0, 0])[:, None]
        return np.where(own, extents, extents[:, ::-1])
    favoured = weights + np.eye(axes) * 1e-6
    return np.take_along_axis(extents, favoured.argmax(axis=2), axis=1)


def inverse_maps(shape: np.ndarray, out_shape: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """float32[n, 3, 4]: source position (x, y, z), pixel centres at .5, of an output position (x, y, z, 1).

    Centres of the two canvases coincide. shape, out_shape int64[n, axes] in tensor order; planes have the identity in z.
    """
    middle, out_middle = (extents[:, ::-1].astype(np.float32) / np.float32(2) for extents in (shape, out_shape))
    linear = matrix.astype(np.float32)
    return padded_maps(linear, applied(linear, -out_middle) + middle)


def applied(linear: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """float32[n, axes]: ``linear @ vector`` of float32[n, axes, axes] and float32[n, axes], summed up from the left in float32."""
    products = linear * vector[:, None, :]
    total: np.ndarray = products[:, :, 0]
    for axis in range(1, vector.shape[1]):
        total = total + products[:, :, axis]
    return total


def padded_maps(linear: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """float32[n, 3, 4] of a linear part float32[n, axes, axes] and an offset float32[n, axes]; planes have the identity in z."""
    axes = linear.shape[1]
    maps = np.zeros((len(linear), 3, 4), np.float32)
    maps[:, 2, 2] = 1
    maps[:, :axes, :axes], maps[:, :axes, 3] = linear, offset
    return maps
