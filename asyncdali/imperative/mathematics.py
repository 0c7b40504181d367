"""Mathematical functions on Tensors, Batches and numbers: element by element, with the types of pipelines' arithmetic.

Integers give float32 (`abs`, `min`, `max`, `clamp` and `pow` keep integers); float64 stays.
"""

from __future__ import annotations

from collections.abc import Callable

from .arithmetic import operation
from .spellings import spelled
from .work import without_frames

_UNARY = {
    "sqrt": "Square root; NaN for negative numbers.",
    "rsqrt": "1 / sqrt(input).",
    "cbrt": "Cube root.",
    "exp": "e to the power of `input`.",
    "log": "Natural logarithm.",
    "log2": "Logarithm to the base of 2.",
    "log10": "Logarithm to the base of 10.",
    "abs": "Absolute value; integers stay integers.",
    "fabs": "Absolute value, as a float.",
    "floor": "Largest whole number that is not greater.",
    "ceil": "Smallest whole number that is not less.",
    "sin": "Sine of radians.",
    "cos": "Cosine of radians.",
    "tan": "Tangent of radians.",
    "asin": "Arcus sine, in radians.",
    "acos": "Arcus cosine, in radians.",
    "atan": "Arcus tangent, in radians.",
    "sinh": "Hyperbolic sine.",
    "cosh": "Hyperbolic cosine.",
    "tanh": "Hyperbolic tangent.",
    "asinh": "Inverse hyperbolic sine.",
    "acosh": "Inverse hyperbolic cosine.",
    "atanh": "Inverse hyperbolic tangent.",
}


def _unary(name: str, doc: str) -> Callable[[object], object]:
    @without_frames
    def function(input: object) -> object:
        return operation(name, input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


for _name, _doc in _UNARY.items():
    globals()[_name] = _unary(_name, _doc)


@without_frames
@spelled(missing="two numbers; ndd.reductions.min(value) is the smallest element of one")
def min(left: object, right: object) -> object:
    """The smaller of two numbers."""
    return operation("min", left, right)


@without_frames
@spelled(missing="two numbers; ndd.reductions.max(value) is the largest element of one")
def max(left: object, right: object) -> object:
    """The larger of two numbers."""
    return operation("max", left, right)


@without_frames
def pow(base: object, exponent: object) -> object:
    """`base` to the power of `exponent`; integers stay integers."""
    return operation("pow", base, exponent)


@without_frames
def fpow(base: object, exponent: object) -> object:
    """`base` to the power of `exponent`, as a float."""
    return operation("fpow", base, exponent)


@without_frames
def atan2(x: object, y: object) -> object:
    """Angle of the point (y, x) in radians: the arcus tangent of x / y in the right quadrant."""
    return operation("atan2", x, y)


@without_frames
def clamp(value: object, lo: object, hi: object) -> object:
    """`value`, but not less than `lo` and not more than `hi`."""
    return operation("clamp", value, lo, hi)



NAMES = (*_UNARY, "min", "max", "pow", "fpow", "atan2", "clamp")
"""The functions' names."""

for _name in NAMES:
    globals()[_name].__module__ = "asyncdali.dynamic.math"
