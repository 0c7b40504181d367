"""readers.caffe: images and labels of Caffe's Datum records in LMDB databases."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from ...batch import Batch
from ...operators.base import REQUIRED, Arg, CompiledJob, Environment, SampleError, Schema, Spec, Step, no_explanation, register
from ...types import DALIDataType
from ..base import READER_ARGS, Reading
from ..containers.containers import Fetched
from .caffe_tables import DATUM, JOIN_PLANES, PARSE_DATUM, SAID_ENCODED, SAID_RAW
from .lmdb import LmdbReader

_MOST = 1 << 31
word = DATUM.word


@register
class CaffeReader(LmdbReader):
    schema = Schema(
        name="readers.caffe",
        doc="""Reads (image, label) pairs from LMDB databases of Caffe ``Datum`` records, in the order of their keys.

        An image is the bytes of an encoded file (1-D UINT8). If the record says that it is not encoded, or says nothing and has as
        many bytes as its shape, its planes become an image of the shape (height, width, channels). The label is INT32, shape (1,), or
        (0,) for a record without a label.""",
        inputs=(0, 0),
        outputs=lambda constants: max(1, constants.get("image_available", True) + constants.get("label_available", True)),
        seeded=True,
        aliases=("caffe_reader",),
        args=(
            Arg("path", "str_list", REQUIRED, "Directories of LMDB databases; they are read one after another.", path="read"),
            Arg("image_available", "bool", True, "Whether records have an image."),
            Arg("label_available", "bool", True, "Whether records have a label."),
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        from ...compiled.step import compile_all
        from . import caffe_kernels, lmdb_kernels

        self._kernels = caffe_kernels
        compile_all(caffe_kernels)
        compile_all(lmdb_kernels)
        self._image, self._label = spec.constant("image_available"), spec.constant("label_available")
        if not (self._image or self._label):
            raise RuntimeError(
                "`image_available` and `label_available` are both False: the reader would have no outputs. Set one of them to True"
            )
        super().__init__(spec, environment)

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        image: list[DALIDataType | None] = [DALIDataType.UINT8] * self._image
        return image + [DALIDataType.INT32] * self._label

    def read(self, indices: np.ndarray) -> Reading:
        found = DATUM.zeros(len(indices))

        def parse(fetched: Fetched) -> list[Step]:
            context, keep = PARSE_DATUM.make(addresses=fetched.addresses, sizes=fetched.sizes, found=found)
            return [Step(self._kernels.parse_datum.address, context, self._explain(indices), keep=keep)]

        fetched, job = self.fetch(indices, parse)
        yield job
        images = [(yield from self._images(fetched, found))] if self._image else []
        return images + ([self._labels(indices, found)] if self._label else [])

    def _images(self, fetched: Fetched, found: np.ndarray) -> Generator[CompiledJob, None, Batch]:
        sizes, addresses = found[:, word.data_length].copy(), found[:, word.data_address].copy()
        if (found[:, word.encoding] == SAID_ENCODED).all():
            return self.view(fetched, addresses, sizes.reshape(-1, 1), DALIDataType.UINT8)
        floats = (found[:, word.floats] != 0) & (sizes == 0)
        if floats.any():
            sample = int(np.argmax(floats))
            where = self.origin(int(fetched.indices[sample]))
            raise SampleError(sample, f"{where}: the pixels are stored as floats (float_data); this reader reads bytes")
        shapes = found[:, [word.shape_height, word.shape_width, word.shape_channels]]
        fits = ((shapes >= 0) & (shapes < _MOST)).all(1)
        # The product of two factors below 2^31 fits into int64. The product with the third factor may not, so the plane is compared first.
        plane = np.where(fits, shapes[:, 0] * shapes[:, 1], 0)
        fits &= plane <= sizes
        wrong = ~fits | (np.where(fits, plane * shapes[:, 2], -1) != sizes)
        # Caffe's own tools omit the flag of an image that is not encoded, because false is its default.
        raw = (found[:, word.encoding] == SAID_RAW) | ((found[:, word.encoding] == 0) & ~wrong & (sizes > 0))
        if not raw.any():
            return self.view(fetched, addresses, sizes.reshape(-1, 1), DALIDataType.UINT8)
        if not raw.all():
            sample = int(np.argmax(raw != raw[0]))
            raise SampleError(sample, f"Samples must have the same dimensionality: {'raw' if raw[0] else 'encoded'} ones come first")
        if wrong.any():
            sample = int(np.argmax(wrong))
            raise SampleError(
                sample,
                f"{self.origin(int(fetched.indices[sample]))}: The content size of the raw image in LMDB caffe entry doesn't match its "
                f"dimensions: {sizes[sample]} bytes, {' x '.join(map(str, shapes[sample]))}",
            )
        if ((shapes[:, 2] == 1) | (plane == 1)).all():
            return self.view(fetched, addresses, shapes, DALIDataType.UINT8)
        pixels = Batch(shapes, DALIDataType.UINT8, source_info=self.names(fetched.indices))
        pixels.reserve(self.environment.allocate)
        context, keep = JOIN_PLANES.make(
            planes=addresses, areas=plane, channels=np.ascontiguousarray(shapes[:, 2]), pixels=pixels.addresses
        )
        yield CompiledJob(
            len(pixels), [Step(self._kernels.join_planes.address, context, no_explanation, keep=[*keep, fetched.owner, pixels])]
        )
        return pixels

    def _labels(self, indices: np.ndarray, found: np.ndarray) -> Batch:
        values = found[:, word.label].astype(np.int32).reshape(-1, 1)
        present = found[:, word.has_label].reshape(-1, 1) != 0
        batch = Batch.from_values(values)
        if not present.all():
            batch = Batch(present.astype(np.int64), DALIDataType.INT32, "", batch.addresses, values)
        batch.source_info = self.names(indices)
        return batch

    def _explain(self, indices: np.ndarray) -> Callable[[int, str, int], str]:
        def explain(code: int, text: str, sample: int) -> str:
            index = int(indices[sample])
            return f"Error while parsing Caffe file: {self.origin(index)} (raw data length: {self.records.sizes[index]} bytes)."

        return explain
