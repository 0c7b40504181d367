"""experimental.warp_perspective: apply a perspective transform to images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...device.launch import Launch
from ...types import DALIDataType, DALIInterpType
from ..accepts import CHOSEN, LIKE, Input, Output, listed
from ..base import (
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    no_explanation,
    refuse_where,
    register,
)  # fmt: skip
from ..kernel_operator import KernelOperator, Kernels, Names
from ..sequences.per_frame_arguments import Frames, agreed, is_sequence, named_arguments, unfolded
from .warp_perspective_launches import Sampling, inverses, perspective_launches, perspective_table
from .warp_perspective_tables import PERSPECTIVE_RECORD

_LAYOUTS = ("HW", "HWC", "FHWC", "CHW", "FCHW")
_TYPES = (DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.FLOAT)
_INTERPOLATIONS = {
    DALIInterpType.INTERP_NN: "INTER_NEAREST", DALIInterpType.INTERP_LINEAR: "INTER_LINEAR", DALIInterpType.INTERP_CUBIC: "INTER_CUBIC",
}  # fmt: skip
_BORDERS = ("constant", "replicate", "reflect", "reflect_101", "wrap")
_ORIGINS = ("corner", "center")
_MOST_CHANNELS = 4


@dataclass
class _Request:
    """Decisions before any pixel is computed: the images with a layout, their frames (None: no sequences), whether frames come from
    arguments only (`expanded`), the output, and the fill values of each sample."""

    source: Batch
    frames: Frames | None
    expanded: bool
    output: Batch
    fill: list[tuple[float, ...]]

    @property
    def planar(self) -> bool:
        return self.output.layout.endswith("CHW")

    @property
    def channels(self) -> np.ndarray:
        """int64[samples]: elements of a pixel."""
        interleaved = "C" in self.source.layout and not self.planar
        return self.source.shapes[:, -1] if interleaved else np.ones(len(self.source), np.int64)

    @property
    def first(self) -> np.ndarray:
        """int64[samples]: index of each sample's first frame among all frames."""
        return np.arange(len(self.source)) if self.frames is None else self.frames.first


@register
class WarpPerspective(KernelOperator):
    kernel_module = "warp_perspective_kernels"
    # On the host the work is done in `prepare`, so the inputs' contents must be known, and the output's contents are known.
    repeatable = True
    reads = (0, 1)
    eager = True
    on_cuda = True
    schema = Schema(
        name="experimental.warp_perspective",
        doc="""Warps images by a perspective transform, as OpenCV's warpPerspective.

        The transform, three rows of three numbers (x, y, 1), is `matrix` or the second input, FLOAT [3, 3], which may be per frame. It maps
        positions in the output to positions in the input, or with ``inverse_map=False`` the other way round.
        Layouts: HW, HWC, FHWC, CHW, FCHW, up to 4 channels; types: UINT8, UINT16, INT16, FLOAT.""",
        accepts=(Input(_TYPES, listed(*_LAYOUTS), "images"), Input((DALIDataType.FLOAT,), name="transforms", ranks=(2, 3))),
        per_frame=("matrix", "size"),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        inputs=(1, 2),
        input_names=("input", "matrix_input"),
        devices=("cpu", "gpu"),
        args=(
            Arg("border_mode", "str", "constant", f"Pixels outside the input: {', '.join(_BORDERS)}.", choices=_BORDERS),
            Arg("fill_value", "float_list", [], "Value outside the input for `constant`: one (by default 0), or one per channel of HWC."),
            Arg("interp_type", "interp", DALIInterpType.INTERP_LINEAR, "INTERP_NN, INTERP_LINEAR or INTERP_CUBIC."),
            Arg("inverse_map", "bool", True, "Whether the transform maps from the output to the input."),
            Arg("matrix", "float_list", [], "The transform, row by row.", tensor=True),
            Arg("pixel_origin", "str", "corner", 'Position of (0, 0) in the first pixel: its "corner" or its "center" (as in OpenCV).',
                choices=_ORIGINS),
            Arg("size", "float_list", [], "Output extents (H, W), rounded; by default the input's.", tensor=True),
        ),
    )

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> Sequence[int]:
        return () if on_cuda else cls.reads

    @classmethod
    def is_eager(cls, on_cuda: bool) -> bool:
        return not on_cuda

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._on_gpu = spec.device == "gpu" and environment.gpu is not None
        for name, allowed in (("border_mode", _BORDERS), ("pixel_origin", _ORIGINS)):
            if spec.constant(name) not in allowed:
                raise ValueError(f"`{name}` is {spec.constant(name)!r}; supported are {', '.join(allowed)}")
        if spec.constant("interp_type") not in _INTERPOLATIONS:
            raise ValueError(f"Only nearest, linear and cubic interpolation is supported, got {spec.constant('interp_type').name}")
        if (spec.input_count == 2) == spec.given("matrix"):
            raise ValueError("exactly one of `matrix` and a second input must be given")
        if "matrix" in spec.constants and len(spec.constant("matrix")) != 9:
            raise ValueError(f"`matrix` must be 9 numbers, three rows of three, got {len(spec.constant('matrix'))}")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        wanted = inputs[0] == "uint8" and self._linear
        return [self.kernels.perspective_step(channels) for channels in self.kernels.CHANNELS] if wanted else []

    @property
    def _linear(self) -> bool:
        interpolation: DALIInterpType = self.spec.constant("interp_type")
        return interpolation == DALIInterpType.INTERP_LINEAR

    @property
    def may_wait(self) -> bool:
        return False

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        return () if self._on_gpu else self._by_host(inputs, arguments)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        if not self._on_gpu:
            return Planned([iteration.prepared])
        output, launches = self._launched(inputs, arguments)
        return Planned([output], [Step(0, np.empty(0, np.int64), no_explanation, keep=[inputs], launches=launches)])

    def _by_host(self, inputs: list[Batch], arguments: Arguments) -> Preparation:
        """Images of bytes, linear, are computed here; other ones by OpenCV."""
        request = self._request(inputs, arguments)
        channels = set(request.channels.tolist())
        bytes_given = request.source.dtype == DALIDataType.UINT8
        if not bytes_given or not self._linear or len(channels) != 1 or not channels <= {*self.kernels.CHANNELS}:
            return (yield from self._by_opencv(request, inputs, arguments))
        maps = self._maps(inputs, arguments, request.frames)
        maps = maps if self.spec.constant("inverse_map") else inverses(maps)
        fills = _stored(request.fill, storage_dtype(request.source.dtype))
        request.output.reserve(self.environment.allocate)
        entries, keep = perspective_table(
            request.source, request.output, maps, _records(request), fills, self.spec.constant("border_mode")
        )  # fmt: skip
        step = Step(self.kernels.perspective_step(channels.pop()).address, entries, no_explanation, keep=keep)
        yield CompiledJob(len(request.output), [step])
        return request.output

    def _by_opencv(self, request: _Request, inputs: list[Batch], arguments: Arguments) -> Preparation:
        """One call of OpenCV per image. The call releases the interpreter lock."""
        import cv2

        source, frames, output, first = request.source, request.frames, request.output, request.first
        maps = self._maps(inputs, arguments, frames)
        flags, border = self._flags()

        def warp(i: int) -> None:
            sample, target = source.sample(i), output.sample(i)
            for k, out in enumerate(target if frames is not None else target[None]):
                image = sample if frames is None or request.expanded else sample[k]
                try:
                    _warp(image, out, maps[first[i] + k], flags, border, request.fill[i], output.layout)
                except cv2.error as error:
                    text = f"OpenCV cannot warp an image of shape {image.shape} to {out.shape}: {str(error).strip()}"
                    raise SampleError(i, text) from None

        output.reserve(self.environment.allocate)
        yield PythonJob(range(len(output)), warp)
        return output

    def _launched(self, inputs: list[Batch], arguments: Arguments) -> tuple[Batch, Callable[[], list[Launch]]]:
        request = self._request(inputs, arguments)
        source, output = request.source, request.output
        records = _records(request)
        corner, inverted = self.spec.constant("pixel_origin") == "corner", not self.spec.constant("inverse_map")
        fills = _stored(request.fill, storage_dtype(source.dtype))
        maps: np.ndarray | Batch
        if len(inputs) == 2:  # the matrices are in device memory
            maps = self._checked(inputs[1], len(source))
            if is_sequence(maps):
                records[:, PERSPECTIVE_RECORD.word.transform_step] = maps.shapes[:, 0] != 1
        else:
            maps = self._maps(inputs, arguments, request.frames)
            maps = inverses(maps) if inverted else maps
        border, interpolation = self.spec.constant("border_mode"), list(_INTERPOLATIONS).index(self.spec.constant("interp_type"))
        sampling = Sampling(border, interpolation, corner, inverted)
        return output, lambda: perspective_launches(source, output, maps, records, fills, sampling)

    def _request(self, inputs: list[Batch], arguments: Arguments) -> _Request:
        source = inputs[0]
        layout = self.layout_of(source)
        if source.layout != layout:
            source = Batch.alias(source, source.shapes, source.dtype, layout)
        named = [(f"input {k}", batch) for k, batch in enumerate([source, *inputs[1:]])]
        frames = agreed(named, named_arguments(arguments), True)
        shapes = source.shapes.copy()
        at = layout.index("H")
        if arguments.given("size"):
            shapes[:, at : at + 2] = self._size(arguments)
        channels = shapes[:, layout.index("C")] if "C" in layout else np.ones(len(shapes), np.int64)
        fill = self._fill(channels, layout.endswith("CHW"))
        wrong = (source.shapes[:, at : at + 2] == 0).any(axis=1) & (shapes != 0).all(axis=1)
        given, wanted = source.shapes, shapes
        refuse_where(
            wrong, lambda i: f"an image without pixels, of shape {given[i].tolist()}, cannot become one of shape {wanted[i].tolist()}"
        )
        expanded = frames is not None and not is_sequence(source)
        if expanded:
            assert frames is not None
            shapes, layout = np.concatenate([frames.counts[:, None], shapes], axis=1), "F" + layout
        output = Batch(shapes, source.dtype, layout, device=source.device, source_info=source.source_info)
        return _Request(source, frames, expanded, output, fill)

    @staticmethod
    def _checked(batch: Batch, count: int) -> Batch:
        """The transforms of all samples, in sequences or not. SampleError for other shapes."""
        if batch.dtype != DALIDataType.FLOAT:
            raise ValueError(f"the transforms must be FLOAT, got {batch.dtype.name}")
        shapes = batch.shapes[:, int(is_sequence(batch)) :]
        wrong = np.ones(count, bool) if shapes.shape[1] != 2 else (shapes != 3).any(axis=1)
        refuse_where(wrong, lambda i: f"the transform must have shape (3, 3), got {tuple(shapes[i].tolist())}")
        return batch

    def _maps(self, inputs: list[Batch], arguments: Arguments, frames: Frames | None) -> np.ndarray:
        """float64[all frames, 3, 3] for pixels with integer centres, as in OpenCV."""
        count = arguments.count if frames is None else frames.total
        if len(inputs) == 2 or arguments.is_input("matrix"):
            batch = self._checked(inputs[1] if len(inputs) == 2 else arguments.batch("matrix"), arguments.count)
            rows = batch if frames is None else unfolded(batch, frames)
            matrices = np.stack([rows.sample(k) for k in range(count)]) if count else np.zeros((0, 3, 3), np.float32)
        else:
            matrices = np.broadcast_to(np.array(arguments.constant("matrix"), np.float32).reshape(3, 3), (count, 3, 3))
        if self.spec.constant("pixel_origin") == "corner":  # In FLOAT, as DALI does.
            half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]], np.float32)
            back = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]], np.float32)
            matrices = back @ (matrices @ half)
        return matrices.astype(np.float64)

    @staticmethod
    def _size(arguments: Arguments) -> np.ndarray:
        size = np.floor(arguments.vectors("size", 2).astype(np.float64) + 0.5)
        refuse_where(~((size >= 1) & (size < 2**31)).all(axis=1), lambda i: f"Output size must be positive, got {size[i].tolist()}")
        return size.astype(np.int64)

    def _fill(self, channels: np.ndarray, planar: bool) -> list[tuple[float, ...]]:
        """The fill values of each sample: four values, of which OpenCV uses one per channel."""
        values = self.spec.constant("fill_value") or [0.0]
        if not planar:
            wrong = (channels < 1) | (channels > _MOST_CHANNELS)
            refuse_where(wrong, lambda i: f"images must have 1 to {_MOST_CHANNELS} channels, got {int(channels[i])}")
        if len(values) == 1:
            return [(values[0],) * _MOST_CHANNELS] * len(channels)
        wrong = channels != len(values)
        if planar or wrong.any():
            i = int(np.argmax(wrong))
            what = "planes that follow each other take one" if planar else f"there are {int(channels[i])} channels"
            raise SampleError(i, f"`fill_value` has {len(values)} values; {what}")
        return [tuple([*values, 0.0, 0.0, 0.0][:_MOST_CHANNELS])] * len(channels)

    def _flags(self) -> tuple[int, int]:
        import cv2

        flags = getattr(cv2, _INTERPOLATIONS[self.spec.constant("interp_type")])
        border = getattr(cv2, "BORDER_" + self.spec.constant("border_mode").upper())
        return flags | (cv2.WARP_INVERSE_MAP if self.spec.constant("inverse_map") else 0), border


def _records(request: _Request) -> np.ndarray:
    """PERSPECTIVE_RECORDs, with one transform for each frame."""
    source, output, word = request.source, request.output, PERSPECTIVE_RECORD.word
    records = PERSPECTIVE_RECORD.ones(len(source))
    at, to = source.layout.index("H"), output.layout.index("H")
    if request.frames is not None:
        records[:, word.frames] = request.frames.counts
    records[:, word.step] = not request.expanded
    records[:, PERSPECTIVE_RECORD.span("height", "width")] = source.shapes[:, at : at + 2]
    records[:, PERSPECTIVE_RECORD.span("rows", "columns")] = output.shapes[:, to : to + 2]
    records[:, word.first] = request.first
    records[:, word.transform_step] = 0
    if "C" in source.layout:
        records[:, word.planes if request.planar else word.channels] = source.shapes[:, source.layout.index("C")]
    return records


def _stored(fill: list[tuple[float, ...]], dtype: np.dtype) -> np.ndarray:
    """float32[samples, 4]: the fill values as elements of a type."""
    values = np.array(fill, np.float64).reshape(-1, _MOST_CHANNELS)
    if dtype.kind in "iu":
        values = np.rint(values).clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    return values.astype(np.float32)


def _warp(image: np.ndarray, out: np.ndarray, matrix: Any, flags: int, border: int, fill: tuple[float, ...], layout: str) -> None:
    """Warp one image, or one plane after another, into `out`."""
    import cv2

    if not out.size:
        return
    if layout.endswith("CHW"):
        planes = list(zip(image, out, strict=True))
    else:  # OpenCV drops the axis of a single channel.
        planes = [(image[..., 0], out[..., 0])] if out.ndim == 3 and out.shape[-1] == 1 else [(image, out)]
    for source, target in planes:
        size = (target.shape[1], target.shape[0])
        if border == cv2.BORDER_REFLECT_101:  # OpenCV's cubic interpolation never returns if an extent is 1; two equal rows are the same.
            source = source.repeat(1 + (source.shape[0] == 1), axis=0).repeat(1 + (source.shape[1] == 1), axis=1)
        target[...] = cv2.warpPerspective(source, matrix, size, flags=flags, borderMode=border, borderValue=fill)
