"""multi_paste: regions of several images on one canvas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import Input, Output, argument, listed
from ..arrays.strided import Pieces, dense_strides
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..unfolding import is_sequence

_TYPES = (DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT)
_PLACES = ("in_anchors", "shapes", "out_anchors")


@register
class MultiPaste(Operator):
    """See the schema."""

    on_cuda = True
    schema = Schema(
        name="multi_paste",
        doc="""Pastes regions of several images on one canvas, which is 0 elsewhere; later regions cover earlier ones.

        With `in_ids` the regions of a sample come from the samples of the batch that it names, in that order, otherwise from the same
        sample of each input. Layout HWC, or FHWC: all frames have the same regions. Types: UINT8, INT16, INT32, FLOAT. The canvas is as
        large as the inputs, if these are of one size and `output_size` is not given. Regions are tables of as many rows (y, x) as there
        are pastes, and must lie within their image and the canvas.""",
        accepts=(Input(_TYPES, listed("HWC", "FHWC"), "images", like=("type", "rank")),),
        gives=(Output(type=argument("dtype")),),
        inputs=(1, 64),
        devices=("cpu", "gpu"),
        args=(
            Arg("dtype", "dtype", None, "Element type of the output; by default the inputs'. Values are rounded and saturated."),
            Arg("in_anchors", "int_list", None, "Where the regions begin in their images, INT32 [n, 2]; by default 0.", tensor=True),
            Arg("in_anchors_rel", "float_list", None, "The same as fractions of the images' extents, rounded down.", tensor=True),
            Arg("in_ids", "int_list", None, "The samples of the only input that are pasted; any number of them.", tensor=True),
            Arg("out_anchors", "int_list", None, "Where the regions begin on the canvas, INT32 [n, 2]; by default 0.", tensor=True),
            Arg("out_anchors_rel", "float_list", None, "The same as fractions of the canvas' extents, rounded down.", tensor=True),
            Arg("output_size", "int_list", None, "Extents (H, W) of the canvas.", tensor=True),
            Arg("shapes", "int_list", None, "Extents of the regions, INT32 [n, 2]; by default all from their anchor on.", tensor=True),
            Arg("shapes_rel", "float_list", None, "The same as fractions of the images' extents, rounded up.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("in_ids") and spec.input_count != 1:
            raise ValueError(f"`in_ids` picks samples of one input, but there are {spec.input_count}")
        for name in _PLACES:
            if spec.given(name) and spec.given(name + "_rel"):
                raise ValueError(f"`{name}` and `{name}_rel` exclude each other; give one of them")
        wanted = spec.constant("dtype")
        if wanted is not None and wanted not in _TYPES:
            allowed = ", ".join(kind.name for kind in _TYPES)
            raise ValueError(f"`dtype` is {wanted.name}; supported types are {allowed}")
        from ..arrays import strided_kernels

        self._kernels: Any = strided_kernels

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        # The samples that `in_ids` names must be there before any is pasted; a launch comes behind all of them.
        return (0,) if spec.given("in_ids") and not on_cuda else ()

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = next((dtype for dtype in dtypes if dtype is not None), None)
        likely = DALIDataType.UINT8 if source is None else source
        if likely in _TYPES:
            self._kernel(likely).compile()
        return [self._output_type(source)]

    def _output_type(self, source: Any) -> Any:
        """The element type of the output (or None) for that of the inputs (or None)."""
        wanted = self.spec.constant("dtype")
        return source if wanted is None else wanted

    def _kernel(self, source: DALIDataType) -> Any:
        wanted = self._output_type(source)
        if wanted == source:
            return self._kernels.copy_step
        return self._kernels.converting_step(storage_dtype(source).name, storage_dtype(wanted).name, False)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        first, layout = inputs[0], self.layout_of(inputs[0])
        pasted, counts = self._pasted(inputs, arguments)
        canvas = self._canvas(inputs, arguments)
        regions = self._regions(pasted, counts, canvas, arguments)
        used = np.arange(len(pasted)) < counts[:, None]
        shapes = first.shapes.copy()
        shapes[:, -3:-1] = canvas
        for axis, what in ((-1, "channels"), *(((0, "frames"),) if len(layout) == 4 else ())):
            shapes[:, axis] = self._agreed(pasted, used, axis, what, first)
        dtype = self._output_type(first.dtype)
        output = Batch(shapes, dtype, layout, device=first.device, source_info=first.source_info)
        pieces = Pieces(output)
        begins, extents, targets = regions
        whole = used & (extents == canvas[:, None]).all(axis=2)
        pieces.fill(np.zeros(1, storage_dtype(dtype)), where=~whole.any(axis=1))
        for k, batch in enumerate(pasted):
            strides, sizes = dense_strides(batch.shapes, batch.itemsize), shapes.copy()
            sizes[:, -3:-1] = np.where(used[:, k, None], extents[:, k], 0)
            offset = (begins[:, k] * strides[:, -3:-1]).sum(axis=1)
            pieces.add(batch, sizes, strides, offset, target_offset=(targets[:, k] * pieces.targets[:, -3:-1]).sum(axis=1))
        return Planned([output], [pieces.step(self._kernel(first.dtype))])

    def _pasted(self, inputs: list[Batch], arguments: Arguments) -> tuple[list[Batch], np.ndarray]:
        """The k-th image that each sample pastes, for all k (any image where it has fewer), and how many it pastes."""
        first, count = inputs[0], arguments.count
        if not arguments.given("in_ids"):
            return list(inputs), np.full(count, len(inputs), np.int64)
        if arguments.is_input("in_ids"):
            batch = arguments.batch("in_ids")
            if batch.ndim > 1 or is_sequence(batch):
                raise ValueError(f"`in_ids` must be a list of indices for each sample, got {batch.ndim}-D data {batch.layout!r}")
            rows = [batch.sample(i).reshape(-1).astype(np.int64) for i in range(count)]
        else:
            rows = [np.array(arguments.constant("in_ids"), np.int64)] * count
        counts = np.array([len(row) for row in rows], np.int64)
        indices = np.zeros((count, int(counts.max(initial=0))), np.int64)
        indices[np.arange(indices.shape[1]) < counts[:, None]] = np.concatenate(rows) if rows else 0
        wrong = ((indices < 0) | (indices >= count)).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"`in_ids` must be in 0 to {count - 1}, the samples of the batch, got {rows[i].tolist()}")
        return [
            Batch(first.shapes[row], first.dtype, first.layout, first.addresses[row], first.owner, device=first.device) for row in indices.T
        ], counts

    def _canvas(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """Extents of the canvas, int64[samples, 2]."""
        if arguments.given("output_size"):
            size = arguments.vectors("output_size", None, np.int64)
            if arguments.count and size.shape[1] != 2:
                raise ValueError(f"`output_size` must be two numbers, H and W, got {size.shape[1]}")
            return size.reshape(arguments.count, 2)
        all_sizes = np.concatenate([batch.shapes[:, -3:-1] for batch in inputs])
        wrong = (all_sizes != all_sizes[:1]).any(axis=1)
        if wrong.any():
            k = int(np.argmax(wrong))
            sizes = " and ".join("x".join(map(str, all_sizes[at].tolist())) for at in (0, k))
            raise SampleError(k % arguments.count, f"inputs of different sizes ({sizes}) need `output_size`")
        return inputs[0].shapes[:, -3:-1]

    def _regions(
        self, pasted: list[Batch], counts: np.ndarray, canvas: np.ndarray, arguments: Arguments
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Begin in the image, extents, begin on the canvas, all int64[samples, pastes, 2]."""
        shape = (len(canvas), len(pasted), 2)
        images = np.stack([batch.shapes[:, -3:-1] for batch in pasted], axis=1) if pasted else np.zeros(shape, np.int64)
        begins = self._places("in_anchors", counts, images, arguments)
        begins = np.zeros(shape, np.int64) if begins is None else begins
        extents = self._places("shapes", counts, images, arguments)
        extents = images - begins if extents is None else extents
        targets = self._places("out_anchors", counts, np.broadcast_to(canvas[:, None], shape), arguments)
        targets = np.zeros(shape, np.int64) if targets is None else targets
        used = np.arange(len(pasted)) < counts[:, None]
        for begin, limit, where in ((begins, images, "its image"), (targets, np.broadcast_to(canvas[:, None], shape), "the canvas")):
            wrong = used & ((begin < 0) | (extents < 0) | (begin + extents > limit)).any(axis=2)
            if wrong.any():
                i, k = (int(at) for at in np.argwhere(wrong)[0])
                raise SampleError(
                    i, f"region {k} must lie within {where} of {limit[i, k].tolist()}; it begins at {begin[i, k].tolist()} and has the "
                    f"extents {extents[i, k].tolist()}"
                )  # fmt: skip
        return begins, extents, targets

    def _places(self, name: str, counts: np.ndarray, whole: np.ndarray, arguments: Arguments) -> np.ndarray | None:
        """An argument in pixels, int64[samples, pastes, 2], whether it was given in pixels or in parts of `whole`; None: not given."""
        relative = arguments.given(name + "_rel")
        name = name + "_rel" if relative else name
        if not arguments.given(name):
            return None
        if not arguments.is_input(name):
            raise ValueError(f"`{name}` must be an array of [pastes, 2] numbers, or a node, got {arguments.constant(name)}")
        batch = arguments.batch(name)
        if is_sequence(batch):
            raise ValueError(f"`{name}` per frame is not supported: all frames of a sequence have the same regions")
        wrong = np.ones(len(batch), bool) if batch.ndim != 2 else (batch.shapes != np.stack([counts, np.full_like(counts, 2)], 1)).any(1)
        if wrong.any():
            i = int(np.argmax(wrong))
            got = tuple(batch.shapes[i].tolist())
            raise SampleError(i, f"`{name}` must have shape ({int(counts[i])}, 2), a row for each paste, got {got}")
        values = np.zeros(whole.shape, np.float32 if relative else np.int64)
        used = np.arange(whole.shape[1]) < counts[:, None]
        if used.any():
            values[used] = np.concatenate([batch.sample(i) for i in range(len(batch))])
        if not relative:
            return values
        if not np.isfinite(values).all():
            raise SampleError(int(np.argmax(~np.isfinite(values).all(axis=(1, 2)))), f"`{name}` must be finite")
        scaled = values * whole.astype(np.float32)
        return (np.ceil(scaled) if name == "shapes_rel" else np.floor(scaled)).astype(np.int64)

    @staticmethod
    def _agreed(pasted: list[Batch], used: np.ndarray, axis: int, what: str, first: Batch) -> np.ndarray:
        """Extents along `axis`, in which all images of a sample must agree; the sample's own where it pastes none."""
        if not pasted:
            return first.shapes[:, axis]
        extents = np.stack([batch.shapes[:, axis] for batch in pasted], axis=1)
        wrong = (used & (extents != extents[:, :1])).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"what is pasted in one sample must have equal {what}, got {extents[i][used[i]].tolist()}")
        return np.where(used[:, 0], extents[:, 0], first.shapes[:, axis])

