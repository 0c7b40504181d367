"""optical_flow: how far the parts of a picture move from one frame to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batch import Batch
from ..types import DALIDataType, DALIImageType
from .accepts import Input, Output, listed
from .base import Arg, Arguments, Environment, SampleError, Schema, Spec, register
from .opencv_images import OpenCVOperator, Work

_GRIDS, _HINT_GRIDS = (1, 2, 4), (1, 2, 4, 8)
_IMAGES = (DALIImageType.RGB, DALIImageType.BGR, DALIImageType.GRAY)
_MEDIUM, _FAST = 0.375, 0.75  # the least `preset` of each
_SMALLEST = 16  # OpenCV's search needs that many rows and columns; smaller frames are filled up by repeating their border


@register
class OpticalFlow(OpenCVOperator):
    schema = Schema(
        name="optical_flow",
        doc="""Estimates how far the parts of a picture move from one frame to the next.

        Input: sequences FHWC of at least two frames, UINT8, one, three or four channels. With `enable_external_hints` also hints, FLOAT
        (frames - 1, height / hint_grid, width / hint_grid, 2). Output: FLOAT (frames - 1, height / output_grid, width / output_grid, 2),
        the mean movement (x, y) in pixels of each cell of the grid. Extents are rounded up. Found by OpenCV's dense inverse search on the
        CPU; for the device "gpu" the result is uploaded.""",
        accepts=(Input((DALIDataType.UINT8,), listed("FHWC"), "frames"), Input((DALIDataType.FLOAT,), name="hints", ranks=(4,))),
        gives=(Output(DALIDataType.FLOAT, 4, "FHWC"),),
        inputs=(1, 2),
        devices=("cpu", "gpu"),
        uploads=True,
        args=(
            Arg("enable_external_hints", "bool", False, "Begin the search at the movements of the second input."),
            Arg("enable_temporal_hints", "bool", False, "Begin the search at the movements found for the frames before."),
            Arg("hint_grid", "int", 4, "Pixels of a cell of the hints, along each axis: 1, 2, 4 or 8."),
            Arg("image_type", "image_type", DALIImageType.RGB, "RGB, BGR or GRAY."),
            Arg("output_format", "int", None, "Deprecated, no effect."),
            Arg("output_grid", "int", 4, "Pixels of a cell of the output, along each axis: 1, 2 or 4."),
            Arg("preset", "float", 0.0, "From 0.0 (slow, exact) by 0.5 (medium) to 1.0 (fast)."),
        ),
        deprecated={"output_format": None},
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        for name, allowed in (("output_grid", _GRIDS), ("hint_grid", _HINT_GRIDS), ("image_type", _IMAGES)):
            if spec.constant(name) not in allowed:
                raise ValueError(f"`{name}` must be one of {', '.join(map(str, allowed))}, got {spec.constant(name)}")
        if not 0 <= spec.constant("preset") <= 1:
            raise ValueError(f"`preset` must be 0.0 to 1.0, got {spec.constant('preset')}")
        if (spec.input_count == 2) != spec.constant("enable_external_hints"):
            raise ValueError("a second input, the hints, and `enable_external_hints` must be given together")

    @classmethod
    def inputs_read(cls, spec: Spec, on_cuda: bool) -> tuple[int, ...]:
        return tuple(range(spec.input_count))

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.FLOAT]

    def results(self, inputs: list[Batch], arguments: Arguments) -> tuple[Batch, Work]:
        source = inputs[0]
        gray = self.spec.constant("image_type") == DALIImageType.GRAY
        allowed = (1,) if gray else (3, 4)
        wrong = (source.shapes[:, 0] < 2) | ~np.isin(source.shapes[:, 3], allowed) | (source.shapes[:, 1:3] == 0).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            channels = " or ".join(map(str, allowed))
            raise SampleError(i, f"expected at least 2 frames of {channels} channels, got the shape {source.shapes[i].tolist()}")
        grid = self.spec.constant("output_grid")
        shapes = np.empty_like(source.shapes)
        shapes[:, 0], shapes[:, 3] = source.shapes[:, 0] - 1, 2
        shapes[:, 1:3] = -(-source.shapes[:, 1:3] // grid)
        hints = inputs[1] if len(inputs) == 2 else None
        if hints is not None:
            self._check_hints(hints, source)
        output = Batch(shapes, DALIDataType.FLOAT, "FHWC", device=source.device, source_info=source.source_info)
        return output, lambda target, i: self._flows(source.sample(i), None if hints is None else hints.sample(i), target)

    def _check_hints(self, hints: Batch, source: Batch) -> None:
        expected = source.shapes.copy()
        expected[:, 0], expected[:, 3] = source.shapes[:, 0] - 1, 2
        expected[:, 1:3] = -(-source.shapes[:, 1:3] // self.spec.constant("hint_grid"))
        wrong = (hints.shapes != expected).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"the hints have the shape {hints.shapes[i].tolist()}; expected {expected[i].tolist()}")

    def _flows(self, frames: np.ndarray, hints: np.ndarray | None, target: np.ndarray) -> None:
        """Movements between neighbouring frames of uint8[F, H, W, C] into float32[F - 1, rows, columns, 2]."""
        import cv2

        search = self._search(cv2)
        height, width = frames.shape[1:3]
        below, right = max(0, _SMALLEST - height), max(0, _SMALLEST - width)
        pictures = [cv2.copyMakeBorder(self._gray(cv2, frame), 0, below, 0, right, cv2.BORDER_REPLICATE) for frame in frames]
        grid, flow = self.spec.constant("output_grid"), None
        for k in range(len(frames) - 1):
            begin = flow if self.spec.constant("enable_temporal_hints") else None
            if hints is not None:
                cell = self.spec.constant("hint_grid")
                whole = np.repeat(np.repeat(hints[k], cell, 0), cell, 1)[:height, :width]
                begin = np.pad(whole, ((0, below), (0, right), (0, 0)), mode="edge")
            flow = search.calc(pictures[k], pictures[k + 1], None if begin is None else np.ascontiguousarray(begin))
            target[k] = _cell_means(flow[:height, :width], grid)

    def _search(self, cv2: Any) -> Any:
        preset, kind = self.spec.constant("preset"), cv2.DISOpticalFlow
        if preset >= _FAST:
            return kind.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)
        if preset >= _MEDIUM:
            return kind.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
        return kind.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)

    def _gray(self, cv2: Any, frame: np.ndarray) -> np.ndarray:
        if frame.shape[2] == 1:
            return np.ascontiguousarray(frame[..., 0])
        code = cv2.COLOR_RGB2GRAY if self.spec.constant("image_type") == DALIImageType.RGB else cv2.COLOR_BGR2GRAY
        return cv2.cvtColor(np.ascontiguousarray(frame[..., :3]), code)


def _cell_means(flow: np.ndarray, grid: int) -> np.ndarray:
    """Means over cells of `grid` x `grid` pixels; those at the end may be smaller."""
    height, width = flow.shape[:2]
    rows, columns = np.arange(0, height, grid), np.arange(0, width, grid)
    sums = np.add.reduceat(np.add.reduceat(flow, rows, axis=0), columns, axis=1)
    counts = np.minimum(grid, height - rows)[:, None] * np.minimum(grid, width - columns)[None]
    return sums / counts[..., None].astype(np.float32)
