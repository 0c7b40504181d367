"""multi_paste: regions of several images on one canvas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import Input, Output, argument, listed
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, Trait, refuse_where, register
from ..kernel_operator import Kernels, Names
from ..moves.moving import MovingOperator
from ..moves.pieces import Pieces, dense_strides
from ..sequences.per_frame_arguments import Frames, is_sequence

_TYPES = (DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.FLOAT)
_PLACES = ("in_anchors", "shapes", "out_anchors")
_PER_FRAME = (*_PLACES, *(f"{name}_rel" for name in _PLACES))


@register
class MultiPaste(MovingOperator):
    kernel_module = "multi_paste_kernels"
    repeatable = True
    traits = Trait.TAKES_ADDRESSES
    schema = Schema(
        name="multi_paste",
        doc="""Pastes regions of several images on one canvas, which is 0 elsewhere; later regions cover earlier ones.

        With `in_ids` the regions of a sample come from the named samples of the batch, in that order; otherwise from the same
        sample of each input. Layout HWC or FHWC. In sequences `in_ids` numbers the frames of all samples consecutively, and every
        frame of the result shows these frames; regions may be per frame. Types: UINT8, INT16, INT32, FLOAT. The canvas is as large
        as the inputs, if these are of one size and `output_size` is not given. Regions are tables of as many rows (y, x) as there
        are pastes, and must lie within their image and the canvas. The origin of a sample is the list of the origins of its
        regions, joined by ";".""",
        accepts=(Input(_TYPES, listed("HWC", "FHWC"), "images", like=("type", "rank")),),
        gives=(Output(type=argument("dtype")),),
        per_frame=_PER_FRAME,
        inputs=(1, 64),
        devices=("cpu", "gpu"),
        args=(
            Arg("dtype", "dtype", None, "Element type of the output; by default the inputs'. Values are rounded and saturated."),
            Arg("in_anchors", "int_list", None, "Where the regions begin in their images, INT32 [n, 2]; by default 0.", tensor=True),
            Arg(
                "in_anchors_rel", "float_list", None,
                "Starts of the regions as fractions of the images' extents, rounded down.", tensor=True,
            ),
            Arg("in_ids", "int_list", None, "The samples (frames) of the only input that are pasted; any number of them.", tensor=True),
            Arg("out_anchors", "int_list", None, "Where the regions begin on the canvas, INT32 [n, 2]; by default 0.", tensor=True),
            Arg("out_anchors_rel", "float_list", None, "Places on the canvas as fractions of its extents, rounded down.", tensor=True),
            Arg("output_size", "int_list", None, "Extents (H, W) of the canvas; further numbers are ignored.", tensor=True),
            Arg("shapes", "int_list", None, "Extents of the regions, INT32 [n, 2]; by default all from their anchor on.", tensor=True),
            Arg("shapes_rel", "float_list", None, "Extents of the regions as fractions of the images' extents, rounded up.", tensor=True),
        ),
    )

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        return "regions come from other samples of the batch (`in_ids`)" if spec.given("in_ids") else ""

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

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        # `in_ids` may name any sample, so all samples must be complete. On a GPU, earlier launches have completed them.
        return (0,) if spec.given("in_ids") and not on_cuda else ()

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.copy_step if inputs[0] == outputs[0] else self.kernels.converting_step(inputs[0], outputs[0], False)]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        first, layout = inputs[0], self.layout_of(inputs[0])
        sequences = layout[0] == "F"
        frames = first.shapes[:, 0] if sequences else np.ones(len(first), np.int64)
        pasted, counts, numbers = self._pasted(inputs, frames, arguments)
        canvas = self._canvas(inputs, arguments)
        regions = self._regions(pasted, counts, canvas, frames, arguments)
        used = np.arange(len(pasted)) < counts[:, None]
        shapes = first.shapes.copy()
        shapes[:, -3:-1] = canvas
        shapes[:, -1] = self._agreed(pasted, used, -1, "channels", first)
        if sequences and numbers is None:
            self._agreed(pasted, used, 0, "frames", first)
        output = self.output(first, shapes, layout)
        output.source_info = _origins(pasted, counts)
        pieces = Pieces(output)
        begins, extents, targets = regions
        self._clear(pieces, used, extents, targets, canvas)
        for k, batch in enumerate(pasted):
            strides = dense_strides(batch.shapes, batch.itemsize)
            start = numbers[:, k] * strides[:, 0] if sequences and numbers is not None else np.zeros(len(first), np.int64)
            if sequences and numbers is not None:
                strides[:, 0] = 0  # All frames of the output show the same frame.
            for frame in range(begins.shape[1]):  # One iteration, unless regions are per frame.
                alone = begins.shape[1] > 1
                sizes = shapes.copy()
                there = used[:, k] & (frame < frames)
                sizes[:, -3:-1] = np.where(there[:, None], extents[:, frame, k], 0)
                offset = start + (begins[:, frame, k] * strides[:, -3:-1]).sum(axis=1)
                target = (targets[:, frame, k] * pieces.targets[:, -3:-1]).sum(axis=1)
                if alone:
                    sizes[:, 0] = there
                    offset, target = offset + frame * strides[:, 0], target + frame * pieces.targets[:, 0]
                pieces.add(batch, sizes, strides, offset, target_offset=target)
        return Planned([output], [pieces.step(self.kernel(first, output))])

    @staticmethod
    def _clear(pieces: Pieces, used: np.ndarray, extents: np.ndarray, targets: np.ndarray, canvas: np.ndarray) -> None:
        """Fill what no region covers with 0, or the whole canvas where this takes many rectangles. See :meth:`_regions` for the arrays."""
        zero = np.zeros(1, storage_dtype(pieces.output.dtype))
        extents = np.where(used[:, None, :, None], extents, 0)
        whole = (extents == canvas[:, None, None]).all(axis=3).any(axis=2)
        whole |= _covered(extents, targets, canvas)
        # On a GPU each rectangle would be a launch.
        if extents.shape[1] > 1 or not extents.shape[2] or pieces.output.device == "gpu":
            pieces.fill(zero, where=~whole.all(axis=1))
            return
        for offsets, sizes in _margins(extents[:, 0], targets[:, 0], canvas, whole[:, 0]):
            if not sizes.all(axis=1).any():
                continue
            shapes = pieces.output.shapes.copy()
            shapes[:, -3:-1] = sizes
            target = (offsets * pieces.targets[:, -3:-1]).sum(axis=1)
            pieces.add(zero, shapes, np.zeros_like(shapes), target_offset=target)

    def _pasted(
        self, inputs: list[Batch], frames: np.ndarray, arguments: Arguments
    ) -> tuple[list[Batch], np.ndarray, np.ndarray | None]:
        """A list whose k-th batch has the k-th image that each sample pastes, and the number of images per sample.

        If a sample pastes fewer images, its places in the other batches have an arbitrary image. The third result, int64[samples, pastes],
        is for sequences from which `in_ids` picks single frames: the number of the frame within its sequence.
        """
        first, count = inputs[0], arguments.count
        if not arguments.given("in_ids"):
            return list(inputs), np.full(count, len(inputs), np.int64), None
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
        all_frames = Frames(frames)
        range_ = f"0 to {all_frames.total - 1}, the {'samples' if first.ndim == 3 else 'frames of all samples'} of the batch"
        wrong = (indices < 0) | (indices >= all_frames.total)
        refuse_where(wrong, lambda i: f"`in_ids` must be in {range_}, got {rows[i].tolist()}")
        samples = all_frames.sample[indices]
        pasted = [_picked(first, row) for row in samples.T]
        return pasted, counts, all_frames.number[indices] if first.ndim == 4 else None

    def _canvas(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """Extents of the canvas, int64[samples, 2]."""
        if arguments.given("output_size"):
            size = arguments.vectors("output_size", None, np.int64)
            if arguments.count and size.shape[1] < 2:
                raise ValueError(f"`output_size` must be two numbers, H and W, got {size.shape[1]}")
            refuse_where(size[:, :2] < 0, lambda i: f"`output_size` must not be negative, got {size[i].tolist()}")
            return np.ascontiguousarray(size[:, :2]).reshape(arguments.count, 2)
        all_sizes = np.concatenate([batch.shapes[:, -3:-1] for batch in inputs])
        wrong = (all_sizes != all_sizes[:1]).any(axis=1)
        if wrong.any():
            k = int(np.argmax(wrong))
            sizes = " and ".join("x".join(map(str, all_sizes[at].tolist())) for at in (0, k))
            raise SampleError(k % arguments.count, f"inputs of different sizes ({sizes}) need `output_size`")
        return inputs[0].shapes[:, -3:-1]

    def _regions(
        self, pasted: list[Batch], counts: np.ndarray, canvas: np.ndarray, frames: np.ndarray, arguments: Arguments
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start in the image, extents, start on the canvas: all int64[samples, frames or 1, pastes, 2]."""
        shape = (len(canvas), 1, len(pasted), 2)
        images = np.stack([batch.shapes[:, -3:-1] for batch in pasted], axis=1)[:, None] if pasted else np.zeros(shape, np.int64)
        canvases = np.broadcast_to(canvas[:, None, None], shape)
        begins = self._places("in_anchors", counts, images, frames, arguments)
        begins = np.zeros(shape, np.int64) if begins is None else begins
        extents = self._places("shapes", counts, images, frames, arguments)
        extents = images - begins if extents is None else extents
        targets = self._places("out_anchors", counts, canvases, frames, arguments)
        targets = np.zeros(shape, np.int64) if targets is None else targets
        begins, extents, targets, images, canvases = np.broadcast_arrays(begins, extents, targets, images, canvases)
        used = (np.arange(len(pasted)) < counts[:, None])[:, None]
        if begins.shape[1] > 1:
            used = used & (np.arange(begins.shape[1]) < frames[:, None])[:, :, None]
        for begin, limit, where in ((begins, images, "its image"), (targets, canvases, "the canvas")):
            wrong = used & ((begin < 0) | (extents < 0) | (begin + extents > limit)).any(axis=3)
            if wrong.any():
                i, f, k = (int(at) for at in np.argwhere(wrong)[0])
                raise SampleError(
                    i, f"region {k} must lie within {where} of {limit[i, f, k].tolist()}; it begins at {begin[i, f, k].tolist()} and has "
                    f"the extents {extents[i, f, k].tolist()}"
                )  # fmt: skip
        return begins, extents, targets

    def _places(
        self, name: str, counts: np.ndarray, whole: np.ndarray, frames: np.ndarray, arguments: Arguments
    ) -> np.ndarray | None:
        """An argument in pixels, int64[samples, frames or 1, pastes, 2].

        It is given in pixels or as fractions of `whole`; None: not given.
        """
        relative = arguments.given(name + "_rel")
        name = name + "_rel" if relative else name
        if not arguments.given(name):
            return None
        if not arguments.is_input(name):
            raise ValueError(f"`{name}` must be an array of [pastes, 2] numbers, or a node, got {arguments.constant(name)}")
        batch = arguments.batch(name)
        per_frame = is_sequence(batch)
        own = batch.shapes[:, 0] if per_frame else np.ones(len(batch), np.int64)
        wrong = np.ones(len(batch), bool)
        if batch.ndim == 2 + per_frame:
            wrong = (batch.shapes[:, -2:] != np.stack([counts, np.full_like(counts, 2)], 1)).any(1)
        rule = "a row for each paste"
        refuse_where(
            wrong, lambda i: f"`{name}` must have shape ({int(counts[i])}, 2), {rule}, got {tuple(batch.shapes[i].tolist())}"
        )
        wrong = (own != 1) & (own != frames)
        refuse_where(wrong, lambda i: f"`{name}` has values for {int(own[i])} frames, the sample has {int(frames[i])}")
        several = int(frames.max(initial=1)) if (own > 1).any() else 1
        kind = np.float32 if relative else np.int64
        if batch.values is not None and not per_frame and len(batch):  # all samples have the same number of pastes
            values: np.ndarray = batch.values.reshape(len(batch), 1, -1, 2).astype(kind)
        else:
            values = np.zeros((len(batch), several, *whole.shape[2:]), kind)
            for i, count in enumerate(counts.tolist()):
                values[i, : own[i] if own[i] > 1 else None, :count] = batch.sample(i).reshape(int(own[i]), count, 2)
        if not relative:
            return values
        refuse_where(~np.isfinite(values), lambda _: f"`{name}` must be finite")
        scaled = values * whole.astype(np.float32)
        pixels: np.ndarray = np.ceil(scaled) if name == "shapes_rel" else np.floor(scaled)
        return pixels.astype(np.int64)

    @staticmethod
    def _agreed(pasted: list[Batch], used: np.ndarray, axis: int, what: str, first: Batch) -> np.ndarray:
        """Extents along `axis`. All images of a sample must have the same extent. A sample without pastes gives its own extent."""
        if not pasted:
            return first.shapes[:, axis]
        extents = np.stack([batch.shapes[:, axis] for batch in pasted], axis=1)
        wrong = (used & (extents != extents[:, :1])).any(axis=1)
        refuse_where(wrong, lambda i: f"regions pasted in one sample must have equal {what}, got {extents[i][used[i]].tolist()}")
        return np.where(used[:, 0], extents[:, 0], first.shapes[:, axis])


_MOST_COMPARED = 16


def _covered(extents: np.ndarray, targets: np.ndarray, canvas: np.ndarray) -> np.ndarray:
    """Whether regions that do not overlap cover the canvas, bool[samples, frames or 1]: then nothing has to be filled.

    Arrays as those of :meth:`MultiPaste._regions`. Many regions are not compared with each other.
    """
    covered: np.ndarray = extents.prod(axis=3).sum(axis=2) == canvas.prod(axis=1)[:, None]
    count = extents.shape[2]
    if count > _MOST_COMPARED or not covered.any():
        return np.zeros_like(covered)
    ends = targets + extents
    for a in range(count):
        for b in range(a):
            overlap = np.minimum(ends[:, :, a], ends[:, :, b]) > np.maximum(targets[:, :, a], targets[:, :, b])
            covered &= ~overlap.all(axis=2)
    return covered


def _margins(
    extents: np.ndarray, targets: np.ndarray, canvas: np.ndarray, whole: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Offsets and sizes, int64[samples, 2], of four rectangles that contain all pixels without a region.

    They are the margins around the regions if these cover their bounding box without overlapping. Otherwise the first one is the canvas.

    extents, targets   of the regions, int64[samples, regions, 2]; empty regions have an extent of 0
    canvas             int64[samples, 2]
    whole              bool[samples]: samples whose regions cover the canvas
    """
    empty = (extents == 0).any(axis=2)[:, :, None]
    first = np.where(empty, canvas[:, None], targets).min(axis=1)
    last = np.maximum(np.where(empty, 0, targets + extents).max(axis=1), first)
    box, inside = last - first, targets - first[:, None]
    dense = whole | _covered(extents[:, None], inside[:, None], box)[:, 0]
    first = np.where(whole[:, None], 0, np.where(dense[:, None], first, canvas))
    last = np.where(whole[:, None], canvas, np.where(dense[:, None], last, canvas))
    (top, left), (bottom, right), (height, width) = first.T, last.T, canvas.T
    zero = np.zeros_like(top)
    rectangles = [
        (zero, zero, top, width), (bottom, zero, height - bottom, width), (top, zero, bottom - top, left),
        (top, right, bottom - top, width - right),
    ]  # fmt: skip
    return [(np.stack([y, x], 1), np.stack([h, w], 1)) for y, x, h, w in rectangles]


def _picked(source: Batch, samples: np.ndarray) -> Batch:
    """A batch that refers to samples of another batch, any number of times, in place."""
    origins = None if source.source_info is None else [source.source_info[i] for i in samples.tolist()]
    return Batch(
        source.shapes[samples], source.dtype, source.layout, source.addresses[samples], device=source.device, source_info=origins
    )


def _origins(pasted: list[Batch], counts: np.ndarray) -> list[str] | None:
    """The origins of the images that each sample pastes, joined by ";"; None if no image has an origin."""
    if all(batch.source_info is None for batch in pasted):
        return None
    named = [batch.source_info if batch.source_info is not None else [""] * len(batch) for batch in pasted]
    return [";".join(origins[i] for origins in named[:count]) for i, count in enumerate(counts.tolist())]
