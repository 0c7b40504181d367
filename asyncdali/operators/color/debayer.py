"""debayer: colour images from the mosaic of a sensor."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import CHOSEN, LIKE, Input, Output, listed
from ..base import REQUIRED, Arg, Arguments, Environment, Planned, Schema, Spec, refuse_where, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, types_of
from ..moves.pieces import like
from ..sequences.per_frame_arguments import Frames

DEBAYER_RECORD = Table(
    "DEBAYER_RECORD",
    Field("frames", "int64", "planes one after another"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("blue", "int64", "the blue pixel of the 2 x 2 pixels at row 1, column 1", "yx"),
)
DEBAYER = Table(
    "DEBAYER",
    INPUTS,
    OUTPUTS,
    Field("records", "DEBAYER_RECORD[samples]", "extents and positions"),
    Field("algorithm", "int64", "index in debayer.ALGORITHMS"),
    SAMPLES,
)

LAYOUTS = ("HWC", "HW", "FHWC", "FHW")
_TYPES = (DALIDataType.UINT8, DALIDataType.UINT16)
ALGORITHMS = ("bilinear_ocv", "edgeaware_ocv", "vng_ocv", "gray_ocv")
_OF_GPU = ("default", "default_npp")


@register
class Debayer(KernelOperator):
    kernel_module = "debayer_kernels"
    schema = Schema(
        name="debayer",
        aliases=("experimental.debayer",),
        doc="""Converts images of a sensor with a Bayer mosaic, whose pixels have one colour each, to RGB.

        Layouts HW, HWC with one channel, FHW, FHWC; height and width even; UINT8 or UINT16. The output has the layout HWC or FHWC, and the
        input's type. Algorithms: "bilinear_ocv" averages neighbours; "edgeaware_ocv" takes green along edges; "vng_ocv" (UINT8) averages
        along the directions of small gradients; "gray_ocv" gives one channel. "default_npp", for the device "gpu", is "bilinear_ocv".""",
        accepts=(Input(_TYPES, listed(*LAYOUTS), "mosaics"),),
        per_frame=("blue_position",),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("algorithm", "str", None, 'Name of the algorithm, in any case; by default "bilinear_ocv", on a GPU "default_npp".'),
            Arg(
                "blue_position", "int_list", REQUIRED,
                "Row and column (0 or 1) of the blue pixel in the 2 x 2 pixels that begin at row 1, column 1.", tensor=True,
            ),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        allowed = ALGORITHMS + (_OF_GPU if spec.device == "gpu" else ())
        name = str(spec.constant("algorithm") or allowed[0]).lower()
        if name not in allowed:
            raise ValueError(f'Unknown `algorithm` "{name}" on the device "{spec.device}"; supported are {", ".join(allowed)}')
        self._algorithm = 0 if name in _OF_GPU else ALGORITHMS.index(name)

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.debayer_step(inputs[0])]

    def plan_samples(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        if source.dtype != DALIDataType.UINT8 and ALGORITHMS[self._algorithm] == "vng_ocv":
            raise ValueError(f'`algorithm` "vng_ocv" works on UINT8 only; the input is {source.dtype.name}')
        first = layout.index("H")
        extents = source.shapes[:, first : first + 2]
        self._refuse((source.shapes[:, first + 2 :] != 1).any(axis=1), "the input must have one channel, got the shape", source.shapes)
        self._refuse((extents % 2 != 0).any(axis=1), "height and width must be even, got", extents)
        blue = arguments.vectors("blue_position", 2, np.int64)
        self._refuse(((blue != 0) & (blue != 1)).any(axis=1), "`blue_position` must be two of 0 and 1, got", blue)
        records = DEBAYER_RECORD.zeros(len(source))
        records[:, DEBAYER_RECORD.columns("frames")] = source.shapes[:, :first].prod(axis=1)
        records[:, DEBAYER_RECORD.span("height", "width")] = extents
        records[:, DEBAYER_RECORD.columns("blue")] = blue
        channels = np.full((len(source), 1), 1 if ALGORITHMS[self._algorithm] == "gray_ocv" else 3)
        output = like(source, np.concatenate([source.shapes[:, : first + 2], channels], axis=1), layout[: first + 2] + "C")
        entries = DEBAYER.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, algorithm=self._algorithm, samples=len(records)
        )
        return self.made(source, output, entries, lambda: Cuda("debayer", source.counts(), types=types_of(source, output)))

    @staticmethod
    def _refuse(wrong: np.ndarray, message: str, values: np.ndarray) -> None:
        refuse_where(wrong, lambda i: f"{message} {values[i].tolist()}")
