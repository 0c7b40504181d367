"""dump_image: write images to files, for debugging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output
from ..base import (
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    Trait,
    refuse_where,
    register,
)  # fmt: skip


@register
class DumpImage(Operator):
    """Writes images. A GPU's images are copied to the host and written when the copies are complete."""

    reads = (0,)
    on_cuda = True
    passes_on = True
    traits = Trait.ACTS_OUTSIDE
    schema = Schema(
        name="dump_image",
        doc="""Writes images into the current folder and passes them on.

        In every iteration sample `i` is written to the file ``{i}-{suffix}-0.ppm``, as text (PPM of the kind P3; one channel: P2).
        Input: UINT8, HWC, one or three channels. For debugging: the files of an iteration replace those of the one before.""",
        accepts=(Input((DALIDataType.UINT8,), name="images", ranks=(3,)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("input_layout", "layout", "HWC", "Layout of the images. Only HWC is supported."),
            Arg("suffix", "str", "", "A part of the files' names."),
        ),
    )

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        return () if on_cuda else cls.reads

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("input_layout") != "HWC":
            raise ValueError(f'`input_layout` must be "HWC", got "{spec.constant("input_layout")}"')
        self._path(0)
        self._on_gpu = spec.device == "gpu" and environment.gpu is not None
        if self._on_gpu:
            from . import dump_image_kernels

            self._copies = dump_image_kernels

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        return "files are named after the places of samples in the batch"

    def _path(self, sample: int) -> str:
        """The file name for a sample; RuntimeError if the pipeline may not write the file."""
        path = f"{sample}-{self.spec.constant('suffix')}-0.ppm"
        self.environment.access.check_write(path, "`dump_image`")
        return path

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source = inputs[0]
        wrong = ~np.isin(source.shapes[:, 2], (1, 3))
        refuse_where(wrong, lambda i: f"the image must have 1 or 3 channels, but its shape is {tuple(source.shapes[i].tolist())}")
        return () if self._on_gpu else self._writing(source)

    def _writing(self, images: Batch) -> Preparation:
        yield PythonJob(range(len(images)), lambda i: self._write(images, i))

    def _write(self, images: Batch, sample: int) -> None:
        with open(self._path(sample), "wb") as file:
            file.write(pnm_text(images.sample(sample)))

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = Batch.alias(source, source.shapes, source.dtype, source.layout)
        return Planned([output], [self._copied(source)] if self._on_gpu else [])

    def _copied(self, source: Batch) -> Step:
        """Copy the images to host memory. The files are written when the copies are complete, in the order of iterations."""
        images, sizes = Batch(source.shapes, source.dtype, source.layout), source.sizes()
        images.place(self.environment.mapped(int(sizes.sum())))

        def afterwards() -> None:
            for i in range(len(images)):
                try:
                    self._write(images, i)
                except OSError as error:
                    raise SampleError(i, f"cannot write the image: {error}") from error

        return replace(self._copies.make_copy_step(source.addresses, images.addresses, sizes), afterwards=afterwards)


def pnm_text(image: np.ndarray) -> bytes:
    """The contents of a PPM or PGM file of an image uint8[height, width, 3 or 1]."""
    height, width, channels = image.shape
    rows = "".join(" ".join(map(str, row)) + " \n" if row else "\n" for row in image.reshape(height, width * channels).tolist())
    return f"P{3 if channels == 3 else 2}\n{width} {height}\n255\n{rows}".encode()
