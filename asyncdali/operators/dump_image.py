"""dump_image: images as files, to be looked at."""

from __future__ import annotations

import numpy as np

from ..batch import Batch
from ..types import DALIDataType
from .accepts import Input, Output
from .base import Arg, Arguments, Environment, Iteration, Operator, Planned, Preparation, PythonJob, SampleError, Schema, Spec, register


@register
class DumpImage(Operator):
    reads = (0,)
    passes_on = True
    only_compiles = False
    schema = Schema(
        name="dump_image",
        doc="""Writes images into the current folder and hands them on.

        In every iteration sample `i` is written to the file ``{i}-{suffix}-0.ppm``, as text (PPM of the kind P3; one channel: P2).
        Input: UINT8, HWC, one or three channels. For debugging: the files of an iteration replace those of the one before.""",
        accepts=(Input((DALIDataType.UINT8,), name="images", ranks=(3,)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        uploads=True,
        args=(
            Arg("input_layout", "layout", "HWC", "Layout of the images; HWC is what there is."),
            Arg("suffix", "str", "", "A part of the files' names."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("input_layout") != "HWC":
            raise ValueError(f'`input_layout` must be "HWC", got "{spec.constant("input_layout")}"')
        self._path(0)

    def _path(self, sample: int) -> str:
        """The file of a sample; RuntimeError if the pipeline may not write it."""
        path = f"{sample}-{self.spec.constant('suffix')}-0.ppm"
        self.environment.access.check_write(path, "`dump_image`")
        return path

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return dtypes

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source = inputs[0]
        wrong = ~np.isin(source.shapes[:, 2], (1, 3))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"the image must have 1 or 3 channels, got the shape {tuple(source.shapes[i].tolist())}")

        def write(i: int) -> None:
            with open(self._path(i), "wb") as file:
                file.write(pnm_text(source.sample(i)))

        yield PythonJob(range(len(source)), write)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        return Planned([Batch.alias(source, source.shapes, source.dtype, source.layout)])


def pnm_text(image: np.ndarray) -> bytes:
    """The text of a PPM or PGM file of an image uint8[height, width, 3 or 1]."""
    height, width, channels = image.shape
    rows = "".join(" ".join(map(str, row)) + " \n" if row else "\n" for row in image.reshape(height, width * channels).tolist())
    return f"P{3 if channels == 3 else 2}\n{width} {height}\n255\n{rows}".encode()
