"""noise.gaussian, noise.salt_and_pepper, noise.shot."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...sampling.stream_tables import POSITION, position_words
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output
from ..base import Arg, Arguments, Iteration, Planned, Schema, refuse_where, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, types_of
from .random import StreamOperator

NOISE = Table(
    "NOISE",
    INPUTS,
    OUTPUTS,
    Field("counts", "int64[samples]", "elements"),
    Field(
        "parameters",
        "address",
        "gaussian: float32[samples, 2] mean and deviation; shot: float32[samples] factor; salt_and_pepper: float32[samples, 2], the chance "
        "that a pixel changes, and the chance that it becomes salt",
    ),
    POSITION,
    Field("flavours", "address", "salt_and_pepper: salt and pepper of each sample, in the element type; else 0"),
    Field("together", "int64[samples]", "salt_and_pepper: elements that change together; else 0"),
    Field("inner", "int64[samples]", "salt_and_pepper: elements from one of these to the next; else 0"),
    SAMPLES,
)

_TYPES = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.UINT32, DALIDataType.INT32,
    DALIDataType.UINT64, DALIDataType.INT64, DALIDataType.FLOAT,
)  # fmt: skip
_DATA = (Input(_TYPES, ranks=ANY_RANK),)


class Noise(StreamOperator, KernelOperator):
    """Base of operators that add noise to an input. The output has the input's shape, type and layout."""

    repeatable = True
    places_position = True
    kernel_module = "noise_kernels"

    cuda: ClassVar[str]
    """The CUDA kernel."""
    each: ClassVar[int] = 1
    """Elements of a thread of this kernel."""

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output, counts = self.output(source), source.counts()
        words = {"flavours": 0, "together": 0, "inner": 0, **self.words(source, arguments), **position_words(iteration.position)}
        entries = NOISE.entries(inputs=source.addresses, outputs=output.addresses, counts=counts, samples=len(counts), **words)
        return self.made(source, output, entries, lambda: Cuda(self.cuda, counts, self.each, types_of(source, output)))

    def words(self, source: Batch, arguments: Arguments) -> dict[str, np.ndarray]:
        """The words of NOISE that depend on arguments."""
        raise NotImplementedError


@register
class GaussianNoise(Noise):
    cuda = "gaussian"
    schema = Schema(
        name="noise.gaussian",
        doc="""Adds normally distributed noise.

        Streams are DALI's for the same seed, bit for bit on glibc. Integers are rounded half away from zero and saturated.""",
        accepts=_DATA,
        gives=(Output(),),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("mean", "float", 0.0, "Mean of the noise.", tensor=True),
            Arg("stddev", "float", 1.0, "Standard deviation of the noise.", tensor=True),
        ),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.gaussian_step(inputs[0])]

    def words(self, source: Batch, arguments: Arguments) -> dict[str, np.ndarray]:
        return {"parameters": np.stack([arguments.scalars("mean"), arguments.scalars("stddev")], axis=1)}


@register
class ShotNoise(Noise):
    cuda, each = "shot", 32
    schema = Schema(
        name="noise.shot",
        doc="""Shot noise: ``poisson(max(0, input / factor)) * factor``.

        It models counted events that add `factor` each. Streams are DALI's for the same seed.""",
        accepts=_DATA,
        gives=(Output(),),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(Arg("factor", "float", 12.0, "Size of one event: the larger it is, the more noise.", tensor=True),),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.shot_step(inputs[0])]

    def words(self, source: Batch, arguments: Arguments) -> dict[str, np.ndarray]:
        return {"parameters": arguments.scalars("factor")}


@register
class SaltAndPepper(Noise):
    cuda, each = "salt_and_pepper", 4
    schema = Schema(
        name="noise.salt_and_pepper",
        doc="""Replaces pixels at random by "salt" or "pepper".

        Streams are DALI's, bit for bit, for the same seed.""",
        accepts=_DATA,
        gives=(Output(),),
        devices=("cpu", "gpu"),
        seeded=True,
        args=(
            Arg("pepper_val", "float", None, "Value of pepper; by default the smallest of an integer type, -1 for floats.", tensor=True),
            Arg(
                "per_channel", "bool", False,
                "Whether channels change independently of each other; if not, channels must be the first or last axis of the layout "
                "(without a layout the last one).",
            ),
            Arg("prob", "float", 0.05, "Probability that a pixel changes.", tensor=True),
            Arg("salt_val", "float", None, "Value of salt; by default the largest of an integer type, 1 for floats.", tensor=True),
            Arg("salt_vs_pepper", "float", 0.5, "Probability that a changed pixel becomes salt.", tensor=True),
        ),
    )  # fmt: skip

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.salt_and_pepper_step(inputs[0])]

    def words(self, source: Batch, arguments: Arguments) -> dict[str, np.ndarray]:
        dtype = storage_dtype(source.dtype)
        chance, share = (_probabilities(arguments, name) for name in ("prob", "salt_vs_pepper"))
        parameters = np.stack([chance, chance * share], axis=1)
        integers = dtype.kind in "iu"
        largest, smallest = (np.iinfo(dtype).max, np.iinfo(dtype).min) if integers else (1, -1)
        values = [self._value("salt_val", largest, dtype, arguments), self._value("pepper_val", smallest, dtype, arguments)]
        flavours = np.ascontiguousarray(np.stack(values, axis=1))
        channels, inner = self._channels(source)
        return {"parameters": parameters, "flavours": flavours, "together": channels, "inner": inner}

    def _value(self, name: str, default: float, dtype: np.dtype, arguments: Arguments) -> np.ndarray:
        if not arguments.given(name):
            return np.full(arguments.count, default, dtype)
        values: np.ndarray = self.kernels.cast_values(arguments.scalars(name), dtype)
        return values

    def _channels(self, source: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Per sample, the number of elements that change together, and the distance between them in elements; int64[samples]."""
        ones = np.ones(len(source), np.int64)
        if self.spec.constant("per_channel") or source.ndim == 0:
            return ones, ones
        axis = source.layout.find("C") if source.layout else source.ndim - 1
        if axis not in (0, source.ndim - 1):
            raise ValueError(
                "'C' should be the first or the last dimension in the layout, except for empty layouts where channel-last is assumed. "
                f'Got layout: "{source.layout}"; with per_channel=True any layout will do'
            )
        inner = source.shapes[:, 1:].prod(axis=1) if axis == 0 and source.ndim > 1 else ones
        return np.ascontiguousarray(source.shapes[:, axis]), np.ascontiguousarray(inner)


def _probabilities(arguments: Arguments, name: str) -> np.ndarray:
    """float32[samples]; SampleError for a number that is no probability."""
    found = arguments.scalars(name)
    refuse_where(~((found >= 0) & (found <= 1)), lambda i: f"`{name}` must be from 0 to 1, got {found[i]:g}")
    return found
