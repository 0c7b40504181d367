"""The PNG files of a batch that compiled code decodes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ...batch import Batch
from ...codecs.png.png_tables import DECODE_PNGS, PNG_HEADER
from ...compiled.addresses import address_of
from ...types import DALIDataType, DALIImageType
from ..base import CompiledJob, Step, no_explanation

word = PNG_HEADER.word
_SHAPE = (word.height, word.width, word.channels)


@cache
def _kernels() -> ModuleType:
    """The kernels, which are compiled for the first PNG file: most data sets have none."""
    from ...codecs.png import png_kernels

    return png_kernels


class DecodedPngs(NamedTuple):
    """Decoded files of a batch.

    pixels   UINT8, HWC as stored; samples that are not decoded have no pixels
    samples  the numbers of the decoded samples, int64[decoded]
    """

    pixels: Batch
    samples: np.ndarray

    def images(self) -> dict[int, np.ndarray]:
        """The images by sample, uint8[height, width, channels] each."""
        return {i: self.pixels.sample(i) for i in self.samples.tolist()}


_NOTHING = DecodedPngs(Batch(np.zeros((0, 3), np.int64), DALIDataType.UINT8), np.zeros(0, np.int64))


def decoded_pngs(
    source: Batch, sizes: np.ndarray, samples: np.ndarray, output_type: DALIImageType, allocate: Callable[[int], np.ndarray]
) -> Generator[CompiledJob, None, DecodedPngs]:
    """The job that decodes the PNG files among `samples`.

    The result lacks damaged files and files that compiled code cannot decode. It also lacks colour images that become grey, because OpenCV
    rounds them in another way. `sizes`: bytes of all files, int64.
    """
    kernels = _kernels()
    headers, sizes = PNG_HEADER.zeros(len(sizes)), np.ascontiguousarray(sizes, np.int64)
    found = kernels.read_headers(address_of(source.addresses), address_of(sizes), address_of(headers), len(sizes))
    if not found:
        return _NOTHING
    shapes, wanted = np.empty((len(sizes), 3), np.int64), samples
    for axis, column in enumerate(_SHAPE):
        shapes[:, axis] = headers[:, column]
    if found < len(sizes) or len(samples) < len(sizes) or output_type == DALIImageType.GRAY:
        wanted = _chosen(headers, samples, output_type)
        if not len(wanted):
            return _NOTHING
        left_out = np.ones(len(sizes), bool)
        left_out[wanted] = False
        shapes[left_out] = 0
    pixels = Batch(shapes, DALIDataType.UINT8)
    pixels.reserve(allocate)
    statuses = np.empty(len(sizes), np.int64)
    statuses.fill(1)
    context, keep = DECODE_PNGS.make(
        addresses=source.addresses, sizes=sizes, headers=headers, samples=np.ascontiguousarray(wanted, np.int64), targets=pixels.addresses,
        statuses=statuses, scratch=0,
    )  # fmt: skip
    scratch = kernels.scratch_bytes(headers if wanted is samples else headers[wanted])
    step = Step(kernels.decode_png.address, context, no_explanation, scratch, DECODE_PNGS.word.scratch, [*keep, source, pixels])
    yield CompiledJob(len(wanted), [step])
    return DecodedPngs(pixels, wanted[statuses[wanted] == 0] if np.count_nonzero(statuses) else wanted)


def _chosen(headers: np.ndarray, samples: np.ndarray, output_type: DALIImageType) -> np.ndarray:
    """Those of `samples` that compiled code decodes."""
    wanted: np.ndarray = samples[headers[samples, word.found] == 1]
    return wanted[headers[wanted, word.channels] == 1] if output_type == DALIImageType.GRAY else wanted
