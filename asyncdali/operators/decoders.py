"""decoders.image, image_crop, image_random_crop, image_slice.

JPEGs with 8-bit output go the compiled way: headers of the whole batch are scanned in one call, the windows are decided, and the
window alone is decoded into the output. Everything else (other formats, CMYK, other output types) is decoded whole from Python while preparing,
and the compiled step copies the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..batch import Batch, storage_dtype
from ..types import DALIDataType, DALIImageType
from . import image_formats, random_streams
from .base import (
    Arg, Arguments, CompiledJob, Environment, Iteration, Operator, Planned, PythonJob, SampleError, Schema, Spec, Step, context_table,
    register,
)  # fmt: skip
from .random_streams import StreamPosition

DECODER_ARGS = (
    Arg("adjust_orientation", "bool", True, "Turn the image as its EXIF orientation says."),
    Arg("affine", "bool", True, "Pin decoding threads to CPUs (GPU decoders)."),
    Arg("device_memory_padding", "int", 16777216, "GPU buffer presizing (GPU decoders)."),
    Arg("device_memory_padding_jpeg2k", "int", 0, "GPU buffer presizing (GPU decoders)."),
    Arg("dtype", "dtype", DALIDataType.UINT8, "Element type; the stored range is mapped on its full range ([0, 1] for FLOAT)."),
    Arg("host_memory_padding", "int", 8388608, "Pinned buffer presizing (GPU decoders)."),
    Arg("host_memory_padding_jpeg2k", "int", 0, "Pinned buffer presizing (GPU decoders)."),
    Arg("hw_decoder_load", "float", 0.65, "Part of the batch given to the hardware decoder (GPU decoders)."),
    Arg("hybrid_huffman_threshold", "int", 1000000, "Image size from which Huffman decoding moves to the GPU (GPU decoders)."),
    Arg("jpeg_fancy_upsampling", "bool", False, "Smooth chroma upsampling (GPU decoders; the CPU decoder always does it)."),
    Arg("output_type", "image_type", DALIImageType.RGB, "Colour space of the output; ANY_DATA keeps the stored channels."),
    Arg("preallocate_height_hint", "int", 0, "Expected largest height (GPU decoders)."),
    Arg("preallocate_width_hint", "int", 0, "Expected largest width (GPU decoders)."),
    Arg("use_fast_idct", "bool", False, "Faster, less exact inverse DCT for JPEGs."),
    Arg("memory_stats", "bool", False, "Deprecated, no effect."),
    Arg("split_stages", "bool", False, "Deprecated, no effect."),
    Arg("use_chunk_allocator", "bool", False, "Deprecated, no effect."),
)
_DEPRECATED: dict[str, str | None] = {"memory_stats": None, "split_stages": None, "use_chunk_allocator": None}
_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.BGR: 3, DALIImageType.GRAY: 1, DALIImageType.YCbCr: 3}
# libjpeg's out_color_space: JCS_RGB, JCS_EXT_BGR, JCS_GRAYSCALE.
_COLOR_SPACE = {DALIImageType.RGB: 2, DALIImageType.BGR: 8, DALIImageType.GRAY: 1}


class ImageDecoder(Operator):
    """Base of the image decoders; sub-classes decide the windows."""

    reads = (0,)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import jpeg_kernels
        from .jpeg_library import function_table

        self._kernels = jpeg_kernels
        self._table = function_table()
        self._output_type: DALIImageType = spec.constant("output_type")
        self._dtype: DALIDataType = spec.constant("dtype")
        if self._dtype not in image_formats.SUPPORTED_DTYPES:
            names = ", ".join(kind.name for kind in image_formats.SUPPORTED_DTYPES)
            raise ValueError(f"argument 'dtype' is {self._dtype.name}; supported are {names}")
        self._whole_from_python = self._table is None or self._dtype != DALIDataType.UINT8 or self._output_type not in _COLOR_SPACE
        self._ready: dict[int, np.ndarray] = {}

    # --- windows, in the image as seen

    def windows(self, heights: np.ndarray, widths: np.ndarray, arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        """(anchors, extents), int64[samples, 2] each, as (y, x) and (h, w); the whole image here."""
        extents = np.stack([heights, widths], axis=1)
        return np.zeros_like(extents), extents

    # --- one iteration

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Iterable[PythonJob | CompiledJob]:
        source = inputs[0]
        if source.ndim != 1 or source.dtype != DALIDataType.UINT8:
            raise ValueError(f"expected encoded images as 1-D UINT8 samples, got {source.ndim}-D {source.dtype.name}")
        count = len(source)
        sizes = np.ascontiguousarray(source.shapes[:, 0])
        headers = np.zeros((count, self._kernels.HEADER_FIELDS), np.int64)
        self._kernels.scan_headers(source.addresses.ctypes.data, sizes.ctypes.data, count, headers.ctypes.data)
        self._headers, self._sizes = headers, sizes
        compiled = self._compiled_samples(headers)
        self._refuse_impossible(headers, sizes, compiled)
        self._ready = {}
        others = np.flatnonzero(~compiled)
        if len(others):
            yield PythonJob([int(i) for i in others], lambda i: self._decode_now(source, headers, i))

    def _compiled_samples(self, headers: np.ndarray) -> np.ndarray:
        if self._whole_from_python:
            return np.zeros(len(headers), bool)
        return (headers[:, 0] == self._kernels.IS_JPEG) & (headers[:, 3] != 4) & (headers[:, 3] != 2)

    def _refuse_impossible(self, headers: np.ndarray, sizes: np.ndarray, compiled: np.ndarray) -> None:
        """Refuse headers that claim more pixels than the data can hold: every 8x8 block takes at least one bit (Huffman coding)."""
        jpeg = headers[:, 0] != self._kernels.NOT_JPEG
        pixels = headers[:, 1] * headers[:, 2]
        huffman = headers[:, 6] < 0xC9
        wrong = jpeg & ((pixels <= 0) | (pixels > image_formats.MAX_PIXELS) | (huffman & (pixels > 512 * sizes + 4096)))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            width, height = int(headers[i, 1]), int(headers[i, 2])
            raise SampleError(i, f"the header gives an image of {width}x{height} pixels, which {int(sizes[i])} bytes of data cannot hold")

    def _decode_now(self, source: Batch, headers: np.ndarray, i: int) -> None:
        """Decode sample `i` whole, in final channels and type, as seen."""
        data = source.sample(i)
        try:
            image, orientation = self._stored_image(data, headers[i])
        except ValueError as error:
            raise SampleError(i, str(error)) from None
        if self.spec.constant("adjust_orientation"):
            image = image_formats.orient(image, orientation)
        image = image_formats.convert_dtype(image_formats.convert_colour(image, self._output_type), self._dtype)
        self._ready[i] = np.ascontiguousarray(image)

    def _stored_image(self, data: np.ndarray, header: np.ndarray) -> tuple[np.ndarray, int]:
        found, width, height, components, orientation = (int(value) for value in header[:5])
        if self._table is None or found != self._kernels.IS_JPEG or components == 2:
            return image_formats.decode_other(data), max(1, orientation)
        channels = 3 if components == 3 else components
        fast = bool(self.spec.constant("use_fast_idct"))
        image, code, message = self._kernels.decode_whole(self._table, data, width, height, channels, None, fast)
        if code:
            raise ValueError(self._explain(code, message, 0))
        return (_cmyk_to_rgb(image) if components == 4 else image), orientation

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, headers, sizes, ready = inputs[0], self._headers, self._sizes, self._ready
        count = len(source)
        stored_w, stored_h = headers[:, 1].copy(), headers[:, 2].copy()
        orientation = headers[:, 4].copy() if self.spec.constant("adjust_orientation") else np.ones(count, np.int64)
        for i, image in ready.items():
            stored_h[i], stored_w[i] = image.shape[:2]
            orientation[i] = 1
        turned = orientation >= 5
        seen_h, seen_w = np.where(turned, stored_w, stored_h), np.where(turned, stored_h, stored_w)
        anchors, extents = self.windows(seen_h, seen_w, arguments)
        channels = self._channel_count(headers, ready)
        shapes = np.empty((count, 3), np.int64)
        shapes[:, :2], shapes[:, 2] = extents, channels
        output = Batch(shapes, self._dtype, "HWC", source_info=source.source_info)
        geometry = np.empty((count, self._kernels.GEOMETRY_FIELDS), np.int64)
        geometry[:, 0] = self._kernels.JPEG
        geometry[:, 1:5] = stored_windows(anchors, extents, stored_h, stored_w, orientation)
        geometry[:, 5], geometry[:, 6], geometry[:, 7] = stored_w, stored_h, orientation
        geometry[:, 8], geometry[:, 9] = headers[:, 5], channels * storage_dtype(self._dtype).itemsize
        addresses = source.addresses
        if ready:
            addresses = addresses.copy()
            for i, image in ready.items():
                addresses[i] = image.ctypes.data
                geometry[i, 0] = self._kernels.READY
        step = self._step(source, addresses, sizes, geometry, output, orientation)
        step.keep = [*step.keep, ready]
        return Planned([output], [step])

    def _channel_count(self, headers: np.ndarray, ready: dict[int, np.ndarray]) -> Any:
        if self._output_type in _CHANNELS:
            return _CHANNELS[self._output_type]
        channels = headers[:, 3].copy()
        for i, image in ready.items():
            channels[i] = image.shape[2]
        return channels

    def _step(
        self, source: Batch, addresses: np.ndarray, sizes: np.ndarray, geometry: np.ndarray, output: Batch, orientation: np.ndarray
    ) -> Step:
        channels = _CHANNELS.get(self._output_type, 4)
        compiled = geometry[:, 0] == self._kernels.JPEG
        widest = int(geometry[compiled, 5].max()) if compiled.any() else 0
        turned = compiled & (orientation != 1)
        turned_bytes = int((geometry[turned, 3] * geometry[turned, 4]).max()) * channels if turned.any() else 0
        scratch, orient_offset = self._kernels.scratch_bytes(widest, channels, turned_bytes)
        table = self._table if self._table is not None else np.zeros(1, np.int64)
        context, keep = context_table(
            [
                table, addresses, sizes, geometry, output.addresses, _COLOR_SPACE.get(self._output_type, 2),
                int(self.spec.constant("use_fast_idct")), channels, 0, orient_offset,
            ]
        )  # fmt: skip
        return Step(self._kernels.decode_step.address, context, self._explain, scratch, 8, [*keep, source])

    def _explain(self, code: int, text: str, sample: int) -> str:
        if code == self._kernels.TRUNCATED:
            return "Premature end of JPEG data: the file is truncated"
        if code == self._kernels.WRONG_SIZE:
            return "broken JPEG: the decoder found another image size than the header"
        return f"broken JPEG: {text}"


def _cmyk_to_rgb(image: np.ndarray) -> np.ndarray:
    """CMYK as JPEGs store it (inverted: 255 = no ink) to RGB."""
    colour, black = image[:, :, :3].astype(np.uint16), image[:, :, 3:].astype(np.uint16)
    return ((colour * black + 127) // 255).astype(np.uint8)


def stored_windows(
    anchors: np.ndarray, extents: np.ndarray, stored_h: np.ndarray, stored_w: np.ndarray, orientation: np.ndarray
) -> np.ndarray:
    """Windows of the image as seen, in stored coordinates: int64[samples, 4] of x, y, w, h (EXIF 2.3, tag 0x0112)."""
    y, x, h, w = anchors[:, 0], anchors[:, 1], extents[:, 0], extents[:, 1]
    turned = orientation >= 5
    sx, sy = np.where(turned, y, x), np.where(turned, x, y)
    sw, sh = np.where(turned, h, w), np.where(turned, w, h)
    mirror_x = np.isin(orientation, (2, 3, 7, 8))
    mirror_y = np.isin(orientation, (3, 4, 6, 7))
    sx = np.where(mirror_x, stored_w - sx - sw, sx)
    sy = np.where(mirror_y, stored_h - sy - sh, sy)
    return np.stack([sx, sy, sw, sh], axis=1)


_FORMATS = "JPEG, PNG, BMP, TIFF, WebP, PNM and JPEG2000"


@register
class DecodeImage(ImageDecoder):
    """See the schema."""

    schema = Schema(
        name="decoders.image",
        doc=f"""Decodes images: {_FORMATS}.

        Input: encoded bytes (1-D UINT8). Output: HWC. JPEGs are decoded with the accurate inverse DCT and smooth chroma upsampling.""",
        devices=("cpu", "mixed"),
        aliases=("image_decoder",),
        deprecated=_DEPRECATED,
        args=(
            *DECODER_ARGS,
            Arg("cache_batch_copy", "bool", True, "Decoder cache (GPU decoders)."),
            Arg("cache_debug", "bool", False, "Decoder cache (GPU decoders)."),
            Arg("cache_size", "int", 0, "Decoder cache (GPU decoders)."),
            Arg("cache_threshold", "int", 0, "Decoder cache (GPU decoders)."),
            Arg("cache_type", "str", "", "Decoder cache (GPU decoders)."),
        ),
    )


@register
class DecodeImageRandomCrop(ImageDecoder):
    """See the schema."""

    schema = Schema(
        name="decoders.image_random_crop",
        doc=f"""Decodes a random window of each image: {_FORMATS}.

        The window's area (as a fraction of the image) and aspect ratio (width / height) are drawn from the given ranges; only the window
        is decoded, and equals the same part of the whole image. Windows are DALI's for the same seed.""",
        devices=("cpu", "mixed"),
        aliases=("image_decoder_random_crop",),
        deprecated=_DEPRECATED,
        seeded=True,
        args=(
            *DECODER_ARGS,
            Arg("num_attempts", "int", 10, "Tries to find a window within the ranges.", stream=True),
            Arg("random_area", "float_list", [0.08, 1.0], "Range of the window's area as a fraction of the image.", stream=True),
            Arg("random_aspect_ratio", "float_list", [0.75, 1.333333], "Range of width / height.", stream=True),
        ),
    )
    stateful = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        random_streams.load_kernels()
        self.position = StreamPosition.fresh(spec.seed or 0)
        random_streams.crop_windows(self.position, [16], [16], *self._ranges())  # refuse impossible ranges now

    def _ranges(self) -> tuple[list[float], list[float], int]:
        constant = self.spec.constant
        return constant("random_aspect_ratio"), constant("random_area"), constant("num_attempts")

    def windows(self, heights: np.ndarray, widths: np.ndarray, arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        anchors, extents = random_streams.crop_windows(self.position, heights, widths, *self._ranges())
        return anchors.astype(np.int64), extents.astype(np.int64)

    def advanced(self, samples: int) -> StreamPosition:
        return self.position.advanced(samples)

    def save(self, position: StreamPosition) -> str:
        return str(position)

    def load(self, data: Any) -> StreamPosition:
        return StreamPosition.parse(data)
