"""Mathematical functions on nodes, and the semantics of operators on nodes.

At least one argument is a node or an array. Others may be numbers, ``types.Constant``, arrays or flat lists.

Types: the result has the widest float type of the operands. Among integers it has the wider type, signed if one operand is signed (8 and 16
bits grow so that both fit; nothing grows beyond 64). A Python int counts as INT32, a float as FLOAT, a bool as BOOL.
``types.Constant(x).uint8()`` and numpy scalars have their own type. ``/``, `fpow`, `atan2` and the functions of one number give FLOAT for
integers. Comparisons give BOOL and compare by value. Booleans alone can be multiplied, compared and combined by ``& | ^ ~ << >>``, but not
added.

Values: integers wrap. ``//`` and ``%`` of integers round towards zero; division by zero is a ValueError (on a GPU: 0). ``//`` of floats is
plain division. Integers to a negative power give 0. A shift uses the lowest 5 bits of its count (6 for 64-bit types).

Shapes broadcast as in numpy, sample by sample. Layouts must be equal, or one must be the end of the other. The result is on the GPU if an
operand is. A whole expression is computed in one pass over its inputs.

``node[...]`` accepts integers, slices, integer nodes as indices, and ``newaxis``. ``None`` means ``:``, and there is no ellipsis. Indices
never select samples of the batch.
"""

from __future__ import annotations

from .data_node import DataNode
from .graph.arithmetic import operation as _operation


def sqrt(input: object) -> DataNode:
    """Square root; NaN for negative numbers."""
    return _operation("sqrt", input)


def rsqrt(input: object) -> DataNode:
    """1 / sqrt(input)."""
    return _operation("rsqrt", input)


def cbrt(input: object) -> DataNode:
    """Cube root."""
    return _operation("cbrt", input)


def exp(input: object) -> DataNode:
    """e to the power of `input`."""
    return _operation("exp", input)


def log(input: object) -> DataNode:
    """Natural logarithm."""
    return _operation("log", input)


def log2(input: object) -> DataNode:
    """Logarithm to the base of 2."""
    return _operation("log2", input)


def log10(input: object) -> DataNode:
    """Logarithm to the base of 10."""
    return _operation("log10", input)


def abs(input: object) -> DataNode:
    """Absolute value, in the input's type."""
    return _operation("abs", input)


def fabs(input: object) -> DataNode:
    """Absolute value as a float."""
    return _operation("fabs", input)


def floor(input: object) -> DataNode:
    """The largest whole number that is not greater (floor)."""
    return _operation("floor", input)


def ceil(input: object) -> DataNode:
    """The smallest whole number that is not less (ceiling)."""
    return _operation("ceil", input)


def pow(base: object, exponent: object) -> DataNode:
    """``base ** exponent``: integers wrap, and negative integer exponents give 0."""
    return _operation("pow", base, exponent)


def fpow(base: object, exponent: object) -> DataNode:
    """`base` to the power of `exponent`, as a float also for integers."""
    return _operation("fpow", base, exponent)


def min(left: object, right: object) -> DataNode:
    """The smaller number of `left` and `right`; `right` if one is NaN."""
    return _operation("min", left, right)


def max(left: object, right: object) -> DataNode:
    """The larger number of `left` and `right`; `right` if one is NaN."""
    return _operation("max", left, right)


def clamp(value: object, lo: object, hi: object) -> DataNode:
    """`value` clamped to [`lo`, `hi`]; `hi` if `lo` is greater than `hi`."""
    return _operation("clamp", value, lo, hi)


def sin(input: object) -> DataNode:
    """Sine."""
    return _operation("sin", input)


def cos(input: object) -> DataNode:
    """Cosine."""
    return _operation("cos", input)


def tan(input: object) -> DataNode:
    """Tangent."""
    return _operation("tan", input)


def asin(input: object) -> DataNode:
    """Inverse sine."""
    return _operation("asin", input)


def acos(input: object) -> DataNode:
    """Inverse cosine."""
    return _operation("acos", input)


def atan(input: object) -> DataNode:
    """Inverse tangent."""
    return _operation("atan", input)


def atan2(x: object, y: object) -> DataNode:
    """Angle of the point with ordinate `x` and abscissa `y`. The names are DALI's."""
    return _operation("atan2", x, y)


def sinh(input: object) -> DataNode:
    """Hyperbolic sine."""
    return _operation("sinh", input)


def cosh(input: object) -> DataNode:
    """Hyperbolic cosine."""
    return _operation("cosh", input)


def tanh(input: object) -> DataNode:
    """Hyperbolic tangent."""
    return _operation("tanh", input)


def asinh(input: object) -> DataNode:
    """Inverse hyperbolic sine."""
    return _operation("asinh", input)


def acosh(input: object) -> DataNode:
    """Inverse hyperbolic cosine."""
    return _operation("acosh", input)


def atanh(input: object) -> DataNode:
    """Inverse hyperbolic tangent."""
    return _operation("atanh", input)
