"""experimental.readers.fits: images from FITS files."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, from_numpy_dtype
from ...operators.base import Arg, Arguments, Environment, PythonJob, SampleError, Schema, Spec, register
from ...types import DALIDataType
from ...types.saturate import saturated
from ..base import READER_ARGS, SHUFFLE_AFTER_EPOCH_ARGS, Draw, Reading
from ..containers.containers import RecordNames
from .batch_files import BatchFiles
from .listed import ListedReader, listing_args


@register
class FitsReader(ListedReader):
    schema = Schema(
        name="experimental.readers.fits",
        doc="""Reads images from FITS files.

        Each of `hdu_indices` (from 1) is an output: the image of that unit, its axes in numpy's order, in its own element type (integers
        stored with a zero point as the standard has it become unsigned or signed; other scalings become FLOAT or FLOAT64) or converted to
        `dtypes`. Pixels of the value BLANK are NaN in scaled integers; integers that are not scaled keep the value. Tables and compressed
        images are not read. Files are found as by ``readers.numpy``. For the device "gpu" files are read as on the CPU, and uploaded.""",
        inputs=(0, 0),
        devices=("cpu", "gpu"),
        uploads=True,
        outputs=lambda constants: max(1, len(constants.get("hdu_indices", [2]))),
        seeded=True,
        args=(
            *listing_args("*.fits"),
            Arg("dtypes", "dtype_list", None, "Element types of the outputs."),
            Arg("hdu_indices", "int_list", [2], "Header and data units to read, from 1."),
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        self._units: list[int] = spec.constant("hdu_indices")
        self._dtypes: list[DALIDataType] | None = spec.constant("dtypes")
        if not self._units or min(self._units) < 1 or max(self._units) > 100_000:
            raise RuntimeError(f"`hdu_indices` is {self._units}; units are numbered from 1")
        if self._dtypes is not None and len(self._dtypes) != len(self._units):
            raise RuntimeError(
                f"Number of extensions does not match the number of provided types: {len(self._units)} and {len(self._dtypes)}"
            )
        super().__init__(spec, environment)

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [None] * len(self._units) if self._dtypes is None else list(self._dtypes)

    def discover(self) -> int:
        count = super().discover()
        self._files = BatchFiles(self, self.table, lambda samples: samples)
        return count

    def read(self, draw: Draw, arguments: Arguments) -> Reading:
        from .fits_files import read_units

        indices = draw.indices
        samples: list[list[np.ndarray]] = [[] for _ in indices]
        open_file = self._files.opener(draw)

        def work(sample: int) -> None:
            found = read_units(self.table.path(int(indices[sample])), self._units, open_file)
            if self._dtypes is not None:
                found = [saturated(image, dtype) for image, dtype in zip(found, self._dtypes, strict=True)]
            samples[sample] = [np.ascontiguousarray(image) for image in found]

        yield from self._files.hints(draw)
        yield PythonJob(range(len(indices)), work)
        return [self._output([sample[k] for sample in samples], indices) for k in range(len(self._units))]

    def _output(self, images: list[np.ndarray], indices: np.ndarray) -> Batch:
        for sample, image in enumerate(images):
            if image.dtype != images[0].dtype or image.ndim != images[0].ndim:
                first, other = self.table.path(int(indices[0])), self.table.path(int(indices[sample]))
                raise SampleError(
                    sample,
                    f"Inconsistent data: {first} has {images[0].ndim}-D {images[0].dtype}, {other} has {image.ndim}-D {image.dtype}",
                )
        shapes = np.array([image.shape for image in images], np.int64)
        addresses = np.array([image.ctypes.data for image in images], np.int64)
        names = RecordNames(self.table.name, indices)
        return Batch(shapes, from_numpy_dtype(images[0].dtype), "", addresses, images, source_info=names)
