"""optical_flow: the motion of the parts of a picture from one frame to the next."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType, DALIImageType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names

FLOW_RECORD = Table(
    "FLOW_RECORD",
    Field("frames", "int64", "of the sequence"),
    Field("height", "int64", "rows of a frame"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "of a pixel"),
    Field("rows", "int64", "of the pictures that are searched: not less than SMALLEST"),
    Field("columns", "int64", "of the pictures that are searched: not less than SMALLEST"),
    Field("levels", "int64", "of the pyramid"),
    Field("finest", "int64", "the last level that is searched"),
    Field("pyramid", "int64", "elements of the pyramid of a picture"),
    Field("work", "int64", "elements of the work memory of a pair of frames"),
    Field("begin", "int64", "elements of the work memory of the samples before, on a GPU"),
)
FLOW = Table(
    "FLOW",
    INPUTS,
    Field("hints", "addresses", "of the samples; where `hinted` is 0 they are not read"),
    OUTPUTS,
    Field("records", "FLOW_RECORD[samples]", "extents"),
    Field("scratch", "int64", "work memory: its place in the scratch of a thread, on a GPU its address"),
    Field("hinted", "int64", "1: begin at the hints"),
    Field("temporal", "int64", "1: begin at the flow of the pair before"),
    Field("order", "int64", "0: RGB, 1: BGR"),
    Field("grid", "int64", "pixels of a cell of the output, along each axis"),
    Field("hint_grid", "int64", "pixels of a cell of the hints, along each axis"),
    Field("descents", "int64", "steps of the search of a patch"),
    Field("refinements", "int64", "rounds of the refinement"),
    SAMPLES,
    Field("first", "int64", "first pair of frames of a launch"),
    Field("pairs", "int64", "pairs of frames of a launch"),
    Field("level", "int64", "of a launch"),
    Field("colour", "int64", "pixels that a launch refines: those whose row and column have this parity"),
)

_GRIDS, _HINT_GRIDS = (1, 2, 4), (1, 2, 4, 8)
_IMAGES = (DALIImageType.RGB, DALIImageType.BGR, DALIImageType.GRAY)
_EFFORTS = ((0.75, (2, 12, 0)), (0.375, (2, 16, 2)), (0.0, (1, 16, 3)))
"""For each lower bound of `preset`: the finest level of the pyramid, steps of a patch's search, rounds of the refinement."""


@register
class OpticalFlow(KernelOperator):
    kernel_module = "optical_flow_kernels"
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="optical_flow",
        doc="""Estimates the movement of image parts from one frame to the next.

        Input: sequences FHWC of at least two frames, UINT8, one, three or four channels. With `enable_external_hints` also hints, FLOAT
        (frames - 1, height / hint_grid, width / hint_grid, 2). Output: FLOAT (frames - 1, height / output_grid, width / output_grid, 2),
        the mean movement (x, y) in pixels of each cell of the grid. Extents are rounded up. Found by a dense inverse search, with the same
        result on the CPU and on a GPU.""",
        accepts=(Input((DALIDataType.UINT8,), listed("FHWC"), "frames"), Input((DALIDataType.FLOAT,), name="hints", ranks=(4,))),
        gives=(Output(DALIDataType.FLOAT, 4, "FHWC"),),
        inputs=(1, 2),
        devices=("cpu", "gpu"),
        args=(
            Arg("enable_external_hints", "bool", False, "Begin the search at the movements of the second input."),
            Arg("enable_temporal_hints", "bool", False, "Begin the search at the movements of the previous frames."),
            Arg("hint_grid", "int", 4, "Pixels of a cell of the hints, along each axis: 1, 2, 4 or 8."),
            Arg("image_type", "image_type", DALIImageType.RGB, "RGB, BGR or GRAY."),
            Arg("output_format", "int", None, "Deprecated, no effect."),
            Arg("output_grid", "int", 4, "Pixels of a cell of the output, along each axis: 1, 2 or 4."),
            Arg("preset", "float", 0.0, "From 0.0 (slow, exact) by 0.5 (medium) to 1.0 (fast)."),
        ),
        deprecated={"output_format": None},
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        for name, allowed in (("output_grid", _GRIDS), ("hint_grid", _HINT_GRIDS), ("image_type", _IMAGES)):
            if spec.constant(name) not in allowed:
                raise ValueError(f"`{name}` must be one of {', '.join(map(str, allowed))}, got {spec.constant(name)}")
        if not 0 <= spec.constant("preset") <= 1:
            raise ValueError(f"`preset` must be 0.0 to 1.0, got {spec.constant('preset')}")
        if (spec.input_count == 2) != spec.constant("enable_external_hints"):
            raise ValueError("a second input, the hints, and `enable_external_hints` must be given together")
        self._effort = next(effort for least, effort in _EFFORTS if spec.constant("preset") >= least)

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.flow_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        gray = self.spec.constant("image_type") == DALIImageType.GRAY
        allowed = (1,) if gray else (3, 4)
        wrong = (source.shapes[:, 0] < 2) | ~np.isin(source.shapes[:, 3], allowed) | (source.shapes[:, 1:3] == 0).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            channels = " or ".join(map(str, allowed))
            raise SampleError(i, f"expected at least 2 frames of {channels} channels, got the shape {source.shapes[i].tolist()}")
        grid = self.spec.constant("output_grid")
        shapes = np.empty_like(source.shapes)
        shapes[:, 0], shapes[:, 3] = source.shapes[:, 0] - 1, 2
        shapes[:, 1:3] = -(-source.shapes[:, 1:3] // grid)
        hints = inputs[1] if len(inputs) == 2 else None
        if hints is not None:
            self._check_hints(hints, source)
        output = Batch(shapes, DALIDataType.FLOAT, "FHWC", source_info=source.source_info)
        finest, descents, refinements = self._effort
        search = self.kernels.FlowSearch(
            grid, self.spec.constant("hint_grid"), int(self.spec.constant("image_type") == DALIImageType.BGR),
            self.spec.constant("enable_temporal_hints"), descents, refinements,
        )  # fmt: skip
        step = self.kernels.make_flow_step(source, hints, output, self.kernels.records_of(source.shapes, finest), search)
        return Planned([output], [step])

    def _check_hints(self, hints: Batch, source: Batch) -> None:
        expected = source.shapes.copy()
        expected[:, 0], expected[:, 3] = source.shapes[:, 0] - 1, 2
        expected[:, 1:3] = -(-source.shapes[:, 1:3] // self.spec.constant("hint_grid"))
        wrong = (hints.shapes != expected).any(axis=1)
        refuse_where(wrong, lambda i: f"the hints have the shape {hints.shapes[i].tolist()}; expected {expected[i].tolist()}")
