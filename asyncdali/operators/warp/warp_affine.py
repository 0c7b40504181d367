"""warp_affine: apply an affine transform to images, sequences and volumes. Shares the kernels of rotate."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType, DALIInterpType
from ..accepts import CHOSEN, Input, Output, argument
from ..base import Arg, Arguments, Environment, Planned, Schema, Spec, refuse_where, register
from ..sequences.per_frame_arguments import Frames
from . import rotate_rules as rules
from .rotate import Rotate


@register
class WarpAffine(Rotate):
    kernel_module = "warp_affine_kernels"
    schema = Schema(
        name="warp_affine",
        doc="""Warps images or volumes by an affine transform.

        The transform, two rows of three numbers (x, y, 1; volumes three of four), is `matrix` or the second input. It maps positions in the
        output to positions in the input, or with ``inverse_map=False`` the other way round; pixel centres are at halves.
        Layouts: HWC, FHWC, DHWC, FDHWC.""",
        accepts=(*Rotate.schema.accepts, Input((DALIDataType.FLOAT,), name="transforms", ranks=(1, 2, 3))),
        per_frame=("matrix", "size"),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN),),
        inputs=(1, 2),
        input_names=("data", "mtx"),
        cpu_inputs=(1,),
        moved_inputs=(1,),
        devices=("cpu", "gpu"),
        args=(
            Arg("dtype", "dtype", None, "Element type of the output; by default the input's."),
            Arg("fill_value", "float", None, "Value outside the input; by default its border is repeated."),
            Arg("interp_type", "interp", DALIInterpType.INTERP_LINEAR, "INTERP_LINEAR or INTERP_NN."),
            Arg("inverse_map", "bool", True, "Whether the transform maps from the output to the input."),
            Arg("matrix", "float_list", [], "The transform, row by row.", tensor=True),
            Arg("output_dtype", "dtype", None, "Deprecated name of `dtype`."),
            Arg(
                "size",
                "float_list",
                [],
                "Output extents without frames and channels; by default the input's.",
                tensor=True,
            ),
        ),
        deprecated={"output_dtype": "dtype"},
    )
    reads = (1,)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if (spec.input_count == 2) == spec.given("matrix"):
            raise ValueError("exactly one of `matrix` and a second input must be given")

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        axes = 3 if "D" in layout else 2
        spatial = source.shapes[:, -1 - axes : -1]
        maps = self._maps(axes, inputs, arguments)
        extents = spatial.copy()
        if arguments.is_input("size") or self.spec.constant("size"):
            extents = self._extents(spatial, maps, arguments, frames)
        return self._warped(source, layout, extents, maps)

    def _maps(self, axes: int, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """float32[samples, 3, 4]: maps positions in the output to positions in the input."""
        length, count = axes * (axes + 1), len(inputs[0])
        if len(inputs) == 2 or arguments.is_input("matrix"):
            batch = inputs[1] if len(inputs) == 2 else arguments.batch("matrix")
            if len(batch) != count:
                raise ValueError(f"{len(batch)} transforms for {count} samples; give one transform per sample")
            if batch.dtype != DALIDataType.FLOAT:
                raise ValueError(f"the transforms must be FLOAT, got {batch.dtype.name}")
            alike = bool(count) and batch.contiguous and bool((batch.shapes == batch.shapes[0]).all())
            rows = batch.dense().reshape(count, -1) if alike else [batch.sample(i).reshape(-1) for i in range(count)]
        else:
            alike, rows = False, [np.array(arguments.constant("matrix"), np.float32)] * count
        fits = np.full(count, len(rows[0]) == length) if alike else np.array([len(row) == length for row in rows], bool)
        if len(rows) and fits.all():
            fits = np.isfinite(np.asarray(rows)).all(axis=1)
        refuse_where(~fits, lambda i: f"the transform must be {length} finite numbers, got {rows[i].tolist()}")
        matrices = np.array(rows, np.float32).reshape(count, axes, axes + 1)
        linear, offset = matrices[:, :, :axes], matrices[:, :, axes]
        if not self.spec.constant("inverse_map"):
            linear = self._inverted(linear)
            offset = -rules.applied(linear, offset)
        return rules.padded_maps(linear, offset)

    def _inverted(self, linear: np.ndarray) -> np.ndarray:
        """In the plane in float32, as DALI does, because the last bit decides ties of positions. In space in float64, then rounded."""
        if linear.shape[1] == 2:
            a, b, c, d = linear.reshape(-1, 4).T
            determinant = a * d - b * c
            self._refuse_flat(determinant)
            inverse: np.ndarray = np.stack([d, -b, -c, a], -1) / determinant[:, None]
            return inverse.reshape(-1, 2, 2)
        self._refuse_flat(np.linalg.det(linear.astype(np.float64)))
        return np.linalg.inv(linear.astype(np.float64)).astype(np.float32)

    def _refuse_flat(self, determinant: np.ndarray) -> None:
        refuse_where(determinant == 0, lambda _: "the transform cannot be inverted: its determinant is 0")
