"""transforms.*: affine transforms as matrices, [ndim, ndim + 1] float32 per sample (per frame, with a layout F**); known after planning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...types import DALIDataType
from ..accepts import CHOSEN, Input, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, refuse_where, register
from ..sequences.per_frame_arguments import Frames, agreed, folded, named_arguments, unfolded, unfolded_arguments

if TYPE_CHECKING:
    from ...compiled.step import Compiled

_LAYOUT = "**"
_REVERSE = Arg("reverse_order", "bool", False, "Whether the new transform is applied before that of the input.")
_CENTER = Arg("center", "float_list", None, "The point that stays where it is; by default the origin.", tensor=True)
_INPUTS = (Input((DALIDataType.FLOAT,), name="transforms", ranks=(2, 3)),)
_FEW = 4096
"""This number of products takes less time than releasing the interpreter lock and waiting for it again."""
_OUTPUT = (Output(DALIDataType.FLOAT, CHOSEN, CHOSEN),)


def _matrices(batch: Batch, position: int) -> np.ndarray:
    """Inputs as float32[samples, ndim, ndim + 1]."""
    shapes, values = batch.shapes, batch.values
    if values is not None and values.ndim == 3 and values.shape[2] == values.shape[1] + 1:  # Equal samples: nothing to compare.
        return values
    if batch.ndim != 2 or (len(batch) and ((shapes != shapes[0]).any() or shapes[0, 1] != shapes[0, 0] + 1)):
        found = tuple(shapes[0].tolist()) if len(batch) else ()
        raise ValueError(f"input {position} must be matrices of one shape (n, n + 1), got {found}")
    return np.stack([batch.sample(i) for i in range(len(batch))]) if len(batch) else np.empty((0, 1, 2), np.float32)


def _product(multiply: Any, second: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The transform that applies `first`, then `second`. One of the two may have one matrix for all samples."""
    count, axes, columns = max(first.shape[0], second.shape[0]), first.shape[1], first.shape[2]
    second, first = np.ascontiguousarray(second, np.float32), np.ascontiguousarray(first, np.float32)
    result = np.empty((count, axes, columns), np.float32)
    size = 4 * axes * columns
    steps = size if len(second) > 1 else 0, size if len(first) > 1 else 0
    call = multiply.held if count <= _FEW else multiply
    call(address_of(second), steps[0], address_of(first), steps[1], address_of(result), count, axes)
    return result


def _multiply() -> Compiled:
    """Compile the kernel that multiplies matrices, and return it. ``build()`` calls this function."""
    from .transforms_kernels import multiply

    multiply.compile()
    return multiply


def _affine(linear: np.ndarray, offset: np.ndarray) -> np.ndarray:
    return np.concatenate([linear, offset[:, :, None]], axis=2).astype(np.float32, copy=False)


def _around(linear: np.ndarray, center: np.ndarray | None) -> np.ndarray:
    """The transform with the matrix `linear` and the fixed point `center`."""
    if center is None:
        return _affine(linear, np.zeros(linear.shape[:2], np.float32))
    return _affine(linear, center - (linear @ center[:, :, None])[:, :, 0])


def _named(inputs: list[Batch]) -> list[tuple[str, Batch]]:
    return [(f"input {k}", batch) for k, batch in enumerate(inputs)]


def _delivered(matrices: np.ndarray, frames: Frames | None) -> Planned:
    return Planned([Batch.from_values(matrices, _LAYOUT) if frames is None else folded(matrices, frames, _LAYOUT)])


class _Transform(Operator):
    """A transform made from arguments, applied after the input transform if there is one."""

    eager = True
    reads = (0,)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._constant: dict[int | None, np.ndarray] = {}
        self._multiply = _multiply()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        named = named_arguments(arguments)
        frames = agreed(_named(inputs), named, True)
        if frames is not None:
            inputs, arguments = [unfolded(batch, frames) for batch in inputs], unfolded_arguments(arguments, frames)
        return _delivered(self._matrices(inputs, arguments), frames)

    def _matrices(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        before = _matrices(inputs[0], 0) if inputs else None
        made = self._made(arguments, None if before is None else before.shape[1])
        if before is not None and len(before):
            if before.shape[1:] != made.shape[1:]:
                raise ValueError(f"the input is a {before.shape[1]}-D transform, the arguments are for {made.shape[1]} dimensions")
            reverse = arguments.constant("reverse_order")
            return _product(self._multiply, *((before, made) if reverse else (made, before)))
        return np.repeat(made, arguments.count // max(1, len(made)), axis=0)  # A copy: outputs do not share the constant.

    def _made(self, arguments: Arguments, ndim: int | None) -> np.ndarray:
        """The result of :meth:`_make`. For constants it is one matrix for all samples, computed once."""
        if self.spec.argument_inputs or not arguments.count:
            with np.errstate(all="ignore"):
                return self._make(arguments, ndim)
        made = self._constant.get(ndim)
        if made is None:
            with np.errstate(all="ignore"):
                made = self._constant[ndim] = self._make(Arguments(self.spec, {}, 1), ndim)
        return made

    def _make(self, arguments: Arguments, ndim: int | None) -> np.ndarray:
        """float32[samples, ndim, ndim + 1]; `ndim` is the input's."""
        raise TypeError("abstract")


def _numbers(arguments: Arguments, name: str, length: int | None = None) -> np.ndarray:
    """float32[samples, length] of an argument whose samples may have several dimensions."""
    if arguments.is_input(name) and arguments.batch(name).ndim > 1:
        batch = arguments.batch(name)
        return np.stack([batch.sample(i).reshape(-1).astype(np.float32) for i in range(len(batch))])
    return np.array(arguments.vectors(name, length))


def _center(arguments: Arguments, ndim: int) -> np.ndarray | None:
    return _numbers(arguments, "center", ndim) if arguments.given("center") else None


def _schema(name: str, doc: str, *args: Arg, aliases: tuple[str, ...] = ()) -> Schema:
    doc += "\n\nAn input is a transform that is applied first; the result is the product."
    per_frame = tuple(arg.name for arg in args if arg.tensor)
    return Schema(
        name=f"transforms.{name}", doc=doc, accepts=_INPUTS, per_frame=per_frame, gives=_OUTPUT, inputs=(0, 1), args=(*args, _REVERSE),
        aliases=aliases,
    )  # fmt: skip


@register
class Translation(_Transform):
    schema = _schema(
        "translation", "A translation.", Arg("offset", "float_list", REQUIRED, "Translation along each axis.", tensor=True),
        aliases=("transform_translation",),
    )  # fmt: skip

    def _make(self, arguments: Arguments, ndim: int | None) -> np.ndarray:
        offset = _numbers(arguments, "offset")
        if not offset.shape[1] and len(offset):
            raise ValueError("`offset` is empty")
        return _affine(np.tile(np.eye(offset.shape[1], dtype=np.float32), (len(offset), 1, 1)), offset)


@register
class Scale(_Transform):
    schema = _schema(
        "scale", "A scaling, about `center`.", _CENTER,
        Arg("ndim", "int", None, "Number of dimensions, where `scale` is one number for all."),
        Arg("scale", "float_list", REQUIRED, "Factors, one or one per axis.", tensor=True),
    )  # fmt: skip

    def _make(self, arguments: Arguments, ndim: int | None) -> np.ndarray:
        factors = _numbers(arguments, "scale")
        if factors.shape[1] == 1:
            wanted = arguments.constant("ndim")
            factors = np.repeat(factors, ndim or wanted or 1, axis=1)
        count, length = factors.shape
        linear = np.zeros((count, length, length), np.float32)
        linear[:, range(length), range(length)] = factors
        return _around(linear, _center(arguments, length))


@register
class Rotation(_Transform):
    schema = _schema(
        "rotation", "A rotation by an angle in degrees, about `center`; in three dimensions if `axis` is given.",
        Arg("angle", "float", REQUIRED, "The angle, counterclockwise where the second axis points up.", tensor=True),
        Arg("axis", "float_list", None, "Direction of the axis, three numbers of any length.", tensor=True), _CENTER,
    )  # fmt: skip

    def _make(self, arguments: Arguments, ndim: int | None) -> np.ndarray:
        angle = np.deg2rad(arguments.scalars("angle", np.float64))
        cos, sin = np.cos(angle), np.sin(angle)
        if not arguments.given("axis"):
            linear = np.stack([np.stack([cos, -sin], 1), np.stack([sin, cos], 1)], 1)
            return _around(linear.astype(np.float32), _center(arguments, 2))
        axis = _numbers(arguments, "axis", 3).astype(np.float64)
        length = np.sqrt((axis * axis).sum(axis=1))
        refuse_where((length == 0) & (angle != 0), lambda _: "`axis` has no direction, got zeros")
        length = np.where(length == 0, 1, length)
        x, y, z = (axis / length[:, None]).T
        cross = np.zeros((len(axis), 3, 3))
        cross[:, 0, 1], cross[:, 0, 2], cross[:, 1, 0] = -z, y, z
        cross[:, 1, 2], cross[:, 2, 0], cross[:, 2, 1] = -x, -y, x
        linear = np.eye(3) + sin[:, None, None] * cross + (1 - cos)[:, None, None] * (cross @ cross)
        return _around(linear.astype(np.float32), _center(arguments, 3))


@register
class Shear(_Transform):
    schema = _schema(
        "shear", "A shear, about `center`: of two numbers in two dimensions (xy, yx), of six in three (xy, xz, yx, yz, zx, zy).",
        Arg("angles", "float_list", None, "Angles in degrees, -90 to 90, whose tangents are the factors.", tensor=True), _CENTER,
        Arg("shear", "float_list", None, "The factors.", tensor=True),
    )  # fmt: skip
    _SIZES: ClassVar[dict[int, int]] = {2: 2, 6: 3}

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("angles") == spec.given("shear"):
            raise ValueError("exactly one of `shear` and `angles` must be given")

    def _make(self, arguments: Arguments, ndim: int | None) -> np.ndarray:
        name = "shear" if arguments.given("shear") else "angles"
        factors = _numbers(arguments, name)
        if name == "angles":
            wrong = ~(np.abs(factors) <= 90).all(axis=1)
            refuse_where(wrong, lambda i: f"`angles` must be from -90 to 90 degrees, got {factors[i].tolist()}")
            factors = np.tan(np.deg2rad(factors.astype(np.float64))).astype(np.float32)
        length = self._SIZES.get(factors.shape[1], 2 if not len(factors) else 0)
        if not length:
            raise ValueError(f"`{name}` must have 2 numbers (two dimensions) or 6 (three), got {factors.shape[1]}")
        linear = np.tile(np.eye(length, dtype=np.float32), (len(factors), 1, 1))
        if len(factors):
            linear[:, ~np.eye(length, dtype=bool)] = factors
        return _around(linear, _center(arguments, length))


@register
class CropTransform(_Transform):
    schema = _schema(
        "crop", "The scaling and translation that maps one box to another.",
        Arg("absolute", "bool", False, "Whether starts and ends are exchanged if the start is larger."),
        Arg("from_end", "float_list", [1.0], "End of the box that is mapped.", tensor=True),
        Arg("from_start", "float_list", [0.0], "Its start.", tensor=True),
        Arg("to_end", "float_list", [1.0], "End of the target box.", tensor=True),
        Arg("to_start", "float_list", [0.0], "Its start.", tensor=True),
    )  # fmt: skip

    def _make(self, arguments: Arguments, ndim: int | None) -> np.ndarray:
        names = ("from_start", "from_end", "to_start", "to_end")
        length = max(_numbers(arguments, name).shape[1] for name in names)
        from_start, from_end, to_start, to_end = (_numbers(arguments, name, length) for name in names)
        if arguments.constant("absolute"):
            from_start, from_end = np.minimum(from_start, from_end), np.maximum(from_start, from_end)
            to_start, to_end = np.minimum(to_start, to_end), np.maximum(to_start, to_end)
        scale = (to_end - to_start) / (from_end - from_start)
        linear = np.zeros((len(scale), length, length), np.float32)
        linear[:, range(length), range(length)] = scale
        return _affine(linear, to_start - scale * from_start)


@register
class Combine(Operator):
    schema = Schema(
        name="transforms.combine",
        doc="The product of transforms: the first input is applied first.",
        accepts=_INPUTS,
        gives=_OUTPUT,
        inputs=(2, 99),
        args=(Arg("reverse_order", "bool", False, "Whether the last input is applied first."),),
    )
    eager = True
    reads = tuple(range(99))

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._multiply = _multiply()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        frames = agreed(_named(inputs), (), True)
        if frames is not None:
            inputs = [unfolded(batch, frames) for batch in inputs]
        matrices = [_matrices(batch, k) for k, batch in enumerate(inputs)]
        for k, matrix in enumerate(matrices):
            if matrix.shape != matrices[0].shape:
                raise ValueError(
                    f"all transforms must have the same shape; input 0 has {matrices[0].shape[1:]}, input {k} {matrix.shape[1:]}"
                )
        reverse, result = arguments.constant("reverse_order"), matrices[0]
        for matrix in matrices[1:]:  # DALI's order in both cases, because the order of products decides how they are rounded
            result = _product(self._multiply, *((result, matrix) if reverse else (matrix, result)))
        return _delivered(result, frames)
