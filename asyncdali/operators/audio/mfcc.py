"""mfcc: cosine transforms along the frequency axis."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, at_least
from ..base import Arg, Environment, Schema, Spec, register
from .mel_filter_bank import _AxisMatrix


@lru_cache(64)
def cosine_matrix(kind: int, count: int, length: int, normalize: bool, lifter: float) -> np.ndarray:
    """The first `count` rows of the discrete cosine transform `kind` (1 to 4), liftered: float64[count, length], shared and read-only."""
    limits.check_size(4 * 8 * count * length, f"a cosine transform of {length:,} numbers to {count:,}")
    k, n = np.arange(count)[:, None], np.arange(length)[None]
    if kind == 1:
        matrix = np.cos(np.pi * k * n / max(length - 1, 1))
        matrix[:, 0] = 0.5
        matrix[:, -1] = 0.5 * np.where(np.arange(count) % 2, -1.0, 1.0)
    elif kind == 2:
        matrix = np.cos(np.pi / length * (n + 0.5) * k)
    elif kind == 3:
        matrix = np.cos(np.pi / length * n * (k + 0.5))
        matrix[:, 0] = 0.5
    else:
        matrix = np.cos(np.pi / length * (n + 0.5) * (k + 0.5))
    if normalize:
        matrix = matrix * np.sqrt(2.0 / length)
        if kind == 2:
            matrix[0] /= np.sqrt(2.0)
        elif kind == 3:
            matrix[:, 0] *= np.sqrt(2.0)
    if lifter:
        matrix = matrix * (1.0 + lifter / 2 * np.sin(np.pi / lifter * (np.arange(count) + 1)))[:, None]
    matrix = np.ascontiguousarray(matrix)
    matrix.flags.writeable = False
    return matrix


@register
class Mfcc(_AxisMatrix):
    kernel_module = "mfcc_kernels"
    schema = Schema(
        name="mfcc",
        doc="""Mel frequency cepstral coefficients: a cosine transform of a mel spectrogram (in decibels).

        Input and output: FLOAT.""",
        accepts=(Input((DALIDataType.FLOAT,), name="spectrograms", ranks=at_least(1)),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("axis", "int", 0, "The axis that is transformed."),
            Arg("dct_type", "int", 2, "Type of the cosine transform, 1 to 4."),
            Arg(
                "lifter", "float", 0.0, "Coefficient k is multiplied by 1 + lifter / 2 * sin(pi * (k + 1) / lifter); 0: no multiplication.",
            ),
            Arg("n_mfcc", "int", 20, "Number of coefficients; no more than the axis has elements."),
            Arg("normalize", "bool", False, "An orthonormal transform; not for type 1."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("dct_type") not in (1, 2, 3, 4):
            raise ValueError(f"Unsupported DCT type: {spec.constant('dct_type')}. Supported types are: 1, 2, 3, 4.")
        if spec.constant("dct_type") == 1 and spec.constant("normalize"):
            raise ValueError("Ortho-normalization is not supported for DCT type I.")
        if spec.constant("n_mfcc") <= 0:
            raise ValueError(f"`n_mfcc` must be positive, got {spec.constant('n_mfcc')}")

    def axis(self, source: Batch) -> int:
        axis: int = self.spec.constant("axis")
        if not 0 <= axis < source.ndim:
            raise ValueError(f"Axis {axis} is out of bounds [0,{source.ndim})")
        return axis

    def rows_of_nothing(self) -> int:
        return 0

    def matrix(self, length: int) -> np.ndarray:
        spec = self.spec
        kind, normalize = spec.constant("dct_type"), bool(spec.constant("normalize"))
        if kind == 1 and length < 2:
            raise ValueError("DCT type I requires an axis of at least 2 elements")
        return cosine_matrix(kind, min(spec.constant("n_mfcc"), length), length, normalize, spec.constant("lifter"))
