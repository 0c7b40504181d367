"""decoders.image, image_crop, image_random_crop, image_slice.

JPEGs with 8-bit output take the compiled path: one call scans the headers of the whole batch, the windows are decided, and only the
window is decoded into the output. Everything else (other formats, CMYK, other element types) is decoded whole in `prepare`, PNG files in
compiled code and the others from Python, and the compiled step copies the window.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch, Extents, storage_dtype
from ...codecs import image_decoding
from ...codecs.image_decoding import MAX_SCANS
from ...codecs.image_headers import FORMATS, FREE_PIXELS
from ...codecs.jpeg.jpeg_tables import DECODE_COUNTS, DECODE_JPEGS, JPEG_HEADER, JPEG_WINDOW, MOST_SIDE, PLAIN, STORED_IMAGE
from ...compiled.addresses import address_of
from ...sampling import random_streams
from ...types import DALIDataType, DALIImageType
from ..accepts import ANY_RANK, Input, Output, argument, at_least
from ..base import (  # fmt: skip
    Arg,
    Arguments,
    Environment,
    HeadScan,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    Step,
    Trait,
    register,
)
from ..crop import slice_rules
from ..random.random import StreamOperator
from ..row_feeds import RowFeed
from .image_cache import CACHE_ARGS, CacheOptions, Lookup, PictureCache, look_up, shared_cache
from .image_decoder_lanes import DECODERS, Encoded, LaneChooser, tell_of_host, without_lanes
from .image_decoder_windows import CROP_ARGS, check_crop, check_windows, crop_windows
from .png_samples import decoded_pngs

if TYPE_CHECKING:
    from ...codecs.jpeg.jpeg_kernels import Windows
    from ...compiled.step import Compiled

head, stored = JPEG_HEADER.word, STORED_IMAGE.word
_JUDGED = (head.found, head.width, head.height, head.components, head.marker, head.scans)

DECODER_ARGS = (
    Arg("adjust_orientation", "bool", True, "Turn the image according to its EXIF orientation."),
    Arg("affine", "bool", True, "No effect: threads are pinned by the pipeline's `set_affinity`.", inert=True),
    Arg(
        "decoder",
        "str",
        "",
        'The decoder of JPEGs on a GPU: "cpu", "hardware" (its engines, if they can), "hybrid" (its multiprocessors, if they can), '
        '"shared" (engines and CPU, by a split that checkpoints keep, see `hw_decoder_load`), "all" (the multiprocessors as well, which '
        'takes from a training step), "dynamic" (engines and CPU, by load: no two runs are alike), or "" ("cpu", but "shared" with fewer '
        "than 28 `num_threads`, 12 if only windows are decoded, and if `hw_decoder_load` is given).",
        only_here=True,
    ),
    Arg("device_memory_padding", "int", 16777216, "Bytes of GPU memory that its decoders (engines, multiprocessors) keep in advance."),
    Arg("device_memory_padding_jpeg2k", "int", 0, "No effect: JPEG2000 is decoded by the CPU.", inert=True),
    Arg("dtype", "dtype", DALIDataType.UINT8, "Element type; the stored range is mapped to the full range of the type ([0, 1] for FLOAT)."),
    Arg("host_memory_padding", "int", 8388608, "Bytes of pinned memory that the GPU's decoders keep in advance."),
    Arg("host_memory_padding_jpeg2k", "int", 0, "No effect: JPEG2000 is decoded by the CPU.", inert=True),
    Arg("hw_decoder_load", "float", 0.65, "Part of a batch for a GPU's JPEG engines; default: see `decoder`."),
    Arg("hybrid_huffman_threshold", "int", 1000000, "No effect: the multiprocessors get the smallest files of a batch.", inert=True),
    Arg("jpeg_fancy_upsampling", "bool", False, "Smooth chroma upsampling by a GPU's decoders, too (slower); the CPU always does it."),
    Arg("output_type", "image_type", DALIImageType.RGB, "Colour space of the output; ANY_DATA keeps the stored channels."),
    Arg("preallocate_height_hint", "int", 0, "Expected largest height: with the width, a GPU's engines get their buffers in `build()`."),
    Arg("preallocate_width_hint", "int", 0, "Expected largest width: see `preallocate_height_hint`."),
    Arg("use_fast_idct", "bool", False, "Faster, less exact inverse DCT for JPEGs that the CPU decodes; a GPU's decoders have one only."),
    Arg("memory_stats", "bool", False, "Deprecated, no effect."),
    Arg("split_stages", "bool", False, "Deprecated, no effect."),
    Arg("use_chunk_allocator", "bool", False, "Deprecated, no effect."),
)
_DEPRECATED: dict[str, str | None] = {"memory_stats": None, "split_stages": None, "use_chunk_allocator": None}

_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.BGR: 3, DALIImageType.GRAY: 1, DALIImageType.YCbCr: 3}
# libjpeg's out_color_space for three channels: JCS_RGB, JCS_EXT_BGR.
_COLOR_SPACE = {DALIImageType.RGB: 2, DALIImageType.BGR: 8, DALIImageType.GRAY: 1, DALIImageType.ANY_DATA: 2}


@dataclass
class _Scanned:
    """The result of preparing a batch.

    headers, sizes  of the encoded images
    plain           whether compiled code decodes all of them
    marks           int64[samples] of the reader's scan; None if the reader has not scanned the files
    ready           sample -> image decoded from Python
    lookup          the result of the cache look-up for the batch; None without a cache
    """

    headers: np.ndarray
    sizes: np.ndarray
    plain: bool
    marks: np.ndarray | None = None
    ready: dict[int, np.ndarray] = field(default_factory=dict)
    lookup: Lookup | None = None


class ImageDecoder(Operator):
    """Base of the image decoders. Sub-classes decide the windows."""

    repeatable = True
    on_cuda = True
    traits = Trait.FEEDS | Trait.RUNS_AHEAD
    offers_windows: ClassVar[bool] = False
    """Whether an operator that crops the output may choose the window to decode."""
    reads: ClassVar[tuple[int, ...]] = (0,)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ...codecs.jpeg import jpeg_kernels
        from ...codecs.jpeg.jpeg_library import compile_own_decoder, function_table, positions
        from ...compiled.step import compile_all

        compile_all(jpeg_kernels)
        compile_own_decoder()
        self._kernels = jpeg_kernels
        self._table = function_table()
        self._own_found: int | None = None
        self._index = positions()
        self._scans = 0
        self._counts = DECODE_COUNTS.zeros(1)[0]
        self._table_at = 0 if self._table is None else self._table.ctypes.data
        self._output_type: DALIImageType = spec.constant("output_type")
        self._channels = np.array([_CHANNELS[self._output_type]]) if self._output_type in _CHANNELS else None
        self._dtype: DALIDataType = spec.constant("dtype")
        if self._dtype not in image_decoding.SUPPORTED_DTYPES:
            names = ", ".join(kind.name for kind in image_decoding.SUPPORTED_DTYPES)
            raise ValueError(f"argument 'dtype' is {self._dtype.name}; supported are {names}")
        self._fast_dct = bool(spec.constant("use_fast_idct"))
        self._adjusts = bool(spec.constant("adjust_orientation"))
        self._whole_from_python = self._table is None or self._dtype != DALIDataType.UINT8 or self._output_type not in _COLOR_SPACE
        if spec.constant("decoder") not in DECODERS:
            raise ValueError(f"`decoder` is {spec.constant('decoder')!r}; supported are {', '.join(map(repr, DECODERS))}")
        self._cache: PictureCache | None = None
        self._hits = 0
        self._open_cache()
        self._lanes: LaneChooser | None = None
        self._scan = jpeg_kernels.scan_file
        if spec.device == "mixed" and environment.gpu is not None:
            self._lanes = LaneChooser(spec, environment, windows=not self.offers_windows)  # only whole pictures are offered
            if self._lanes.any:
                self._scan = self._scan_for_gpu()

    def _scan_for_gpu(self) -> Compiled:
        """The scan that also finds the files for a GPU's decoders."""
        from ...compiled.step import compile_all
        from . import image_decoder_kernels

        compile_all(image_decoder_kernels)
        return image_decoder_kernels.scan_file_for_gpu

    def wanted_scan(self) -> HeadScan | None:
        return HeadScan(self._scan.address, JPEG_HEADER.words) if self._cache is None else None

    @classmethod
    def keeps_results(cls, spec: Spec) -> bool:
        return "cache_size" in spec.schema.by_name and spec.constant("cache_size") > 0

    def _open_cache(self) -> None:
        """Set up the cache, if the user asked for one."""
        options = CacheOptions.of(self.spec) if "cache_size" in self.schema.by_name else None
        if options is not None:
            from . import image_cache_kernels

            image_cache_kernels.digest_step.compile()
            image_cache_kernels.keep_step.compile()
            settings: tuple[object, ...] = (self._output_type, self._dtype, self._adjusts, self._fast_dct)
            device = self.environment.gpu if self.spec.device == "mixed" else None
            if device is not None:  # A GPU's decoders compute slightly different pixels.
                settings += (self.spec.constant("decoder"), self.spec.constant("jpeg_fancy_upsampling"))
            self._cache = shared_cache(options, settings, device)
        self.environment.pictures.append(self._cache)

    # --- lanes of a GPU

    def settings(self) -> object:
        return None if self._lanes is None else self._lanes.save()

    def use_settings(self, data: object) -> None:
        if self.spec.device != "mixed":
            return
        if self._lanes is None:
            tell_of_host(data)
            return
        scanned = self._lanes.any
        self._lanes.load(data)
        if self._lanes.any and not scanned:  # The reader's scan was chosen before, so its marks do not name files for the GPU.
            self._scan = self._scan_for_gpu()

    # --- windows, in the image as seen

    @property
    def chooses_windows(self) -> bool:
        return not self.offers_windows

    def windows(
        self, extents: np.ndarray, inputs: list[Batch], arguments: Arguments, position: object
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """(anchors, window extents), integers[samples, 2] each as (y, x), for images of `extents`; None: whole images.

        `position`: the position of an operator that draws its windows.

        SampleError for a window that is empty or leaves its image.
        """
        return None

    # --- one iteration

    @property
    def may_wait(self) -> bool:
        return False

    @property
    def in_order(self) -> bool:
        return self._cache is not None

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source = inputs[0]
        shapes = source.shapes
        # A row [1, N] of bytes is accepted like N bytes.
        sizes = np.ascontiguousarray(shapes[:, 0]) if shapes.shape[1] == 1 else source.sizes()
        lookup = None if self._cache is None else (yield from look_up(self._cache, source, sizes))
        heads, marks = source.heads, None
        if heads is not None and heads.scan == self._scan.address and lookup is None:
            headers, marks, plain = heads.records, heads.marks, heads.common & PLAIN != 0
        else:
            headers, plain = self._kernels.read_headers(source.addresses, sizes, source.read_only)
        hits = [] if lookup is None else list(lookup.hits)
        scanned = _Scanned(headers, sizes, plain and not self._whole_from_python and not hits, marks, lookup=lookup)
        if scanned.plain:  # the usual case: only pictures for the compiled decoder
            return scanned
        _refuse_impossible(headers, sizes)
        _check_coefficients(headers)
        compiled = self._compiled_samples(headers)
        compiled[hits] = True
        headers[hits, head.found] = self._kernels.NOT_JPEG  # These pictures are in the cache, so no decoder gets them.
        others = np.flatnonzero(~compiled)
        if len(others):
            found = yield from decoded_pngs(source, sizes, others, self._output_type, self.environment.allocate)
            pixels = found.images()
            scanned.ready.update((i, image) for i, image in pixels.items() if self._is_final(image))
            left = [i for i in others.tolist() if i not in scanned.ready]
            if left:
                yield PythonJob(left, lambda i: self._decode_now(source, headers[i], i, scanned.ready, pixels.get(i)))
        return scanned

    def _is_final(self, image: np.ndarray) -> bool:
        """Whether decoded pixels are the output, without a conversion."""
        kinds = {DALIImageType.RGB: 3, DALIImageType.GRAY: 1, DALIImageType.ANY_DATA: image.shape[2]}
        return self._dtype == DALIDataType.UINT8 and kinds.get(self._output_type) == image.shape[2]

    def _compiled_samples(self, headers: np.ndarray) -> np.ndarray:
        """bool[samples]: the samples that compiled code decodes."""
        if self._whole_from_python:
            return np.zeros(len(headers), bool)
        components = headers[:, head.components]
        found: np.ndarray = (headers[:, head.found] == self._kernels.IS_JPEG) & ((components == 1) | (components == 3))
        return found

    def _decode_now(
        self, source: Batch, header: np.ndarray, i: int, ready: dict[int, np.ndarray], pixels: np.ndarray | None
    ) -> None:
        """Decode sample `i` whole into `ready`: in final channels and type, in display orientation. `pixels`: as stored, if known."""
        data = source.sample(i).reshape(-1)
        try:
            if pixels is not None:
                image, orientation = pixels, 1
            elif header[head.found] == self._kernels.NOT_JPEG:
                image, orientation = image_decoding.decode_other(data, self._output_type)
            else:
                image, orientation = self._whole_jpeg(data, header), int(header[head.orientation])
            if self._adjusts:
                image = image_decoding.orient(image, orientation)
            ready[i] = np.ascontiguousarray(image_decoding.convert(image, self._output_type, self._dtype))
        except ValueError as error:
            raise SampleError(i, str(error)) from None
        except MemoryError:
            raise SampleError(i, "not enough memory to decode the image") from None

    @property
    def _own(self) -> int:
        """Address of our own decoder, or 0. The decoder is tested at first use, when all kernels are compiled."""
        if self._own_found is None:
            from ...codecs.jpeg.jpeg_library import own_decoder

            self._own_found = own_decoder(self._table)
        return self._own_found

    def _own_scans(self, headers: np.ndarray) -> int:
        """Address of the decoder of progressive scans. 0 before the first progressive file: most data sets have none."""
        if self._own and not self._scans and (headers[:, head.marker] == 0xC2).any():
            from ...codecs.jpeg import progressive

            self._scans = progressive.decode_scans.address
        return self._scans

    def _whole_jpeg(self, data: np.ndarray, header: np.ndarray) -> np.ndarray:
        """Decode a JPEG as grey or RGB: uint8[height, width, 1 or 3]."""
        width, height, components = (int(value) for value in header[JPEG_HEADER.span("width", "components")])
        if components == 4 and self._output_type == DALIImageType.ANY_DATA:
            raise ValueError("output_type ANY_DATA is not supported for CMYK JPEGs")
        if self._table is None:
            return image_decoding.jpeg_by_opencv(data, width, height, grey=components == 1 or self._output_type == DALIImageType.GRAY)
        channels = 1 if self._output_type == DALIImageType.GRAY and components == 3 else components
        image, code, message = self._kernels.decode_whole(
            self._table, data, (height, width, channels), components, self._fast_dct,
            self._kernels.OwnDecoder(self._own, self._own_scans(header[None]), counts=address_of(self._counts)),
        )  # fmt: skip
        if code:
            raise ValueError(self._explain(code, message, 0))
        return image_decoding.cmyk_to_rgb(image, bool(header[head.adobe])) if components == 4 else image

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, scanned = inputs[0], iteration.prepared
        headers, sizes, ready, lookup = scanned.headers, scanned.sizes, scanned.ready, scanned.lookup
        addresses, images = source.addresses, None
        seen = headers[:, head.height : head.found : -1]  # height and width
        if not scanned.plain:
            images, seen = self._kernels.stored_images(headers, self._adjusts)
            addresses, seen = self._shown(scanned, addresses, images, seen)
        given = self.windows(seen, inputs[1:], arguments, iteration.position)
        if given is not None:
            iteration.note_windows(*given)
        channels = self._channels
        if channels is None:
            channels = np.ascontiguousarray(headers[:, head.components] if images is None else images[:, stored.components])
        own = self._own
        windows = self._kernels.windows_of(headers, images, given, channels, storage_dtype(self._dtype).itemsize, sizes if own else None)
        output = Batch(windows.shapes, self._dtype, "HWC", source_info=source.source_info)
        hardware, targets = None, output.addresses
        files = Encoded(source.addresses, sizes, headers, scanned.marks, source.read_only)
        if self._lanes is not None and not self._whole_from_python:
            hardware = self._lanes.choose(files, windows, targets)
        if lookup is not None and lookup.cache.device is not None:
            kept = lookup.on_device(output, self.spec.constant("cache_batch_copy"))
            if kept.sources.any() or kept.slots.any():
                hardware = hardware or without_lanes(files, windows, targets)
                hardware.use_kept(kept)
        lanes_at = 0
        if hardware is not None:
            targets, lanes_at = hardware.targets, address_of(hardware.lane_of)
        scratch, turned_at = self._kernels.scratch_bytes(windows.widest, windows.turned, windows.own_room)
        arrays = self._kernels.JpegArrays(
            address_of(addresses), address_of(sizes), address_of(windows.records), address_of(targets), lanes_at
        )
        scans = 0 if scanned.plain else self._own_scans(headers)
        decoder = self._kernels.OwnDecoder(own, scans, windows.own_room, address_of(self._counts), self._index)
        context = self._kernels.context_of(
            self._table_at, arrays, color=_COLOR_SPACE.get(self._output_type, 2), fast_dct=self._fast_dct, turned=turned_at, own=decoder
        )
        keep = (addresses, sizes, windows, targets, source, ready, self._counts)
        field = DECODE_JPEGS.word.scratch
        step = Step(self._kernels.decode_step.address, context, self._explain, scratch, field, keep, hardware=hardware)
        steps = [step]
        on_gpu = self.environment.gpu is not None and self.spec.device == "mixed"
        if self.neighbours.feeds and hardware is None and lookup is None and not on_gpu:
            narrow = partial(self._narrow, step, headers, images, channels) if self.offers_windows else None
            output.feed = RowFeed(step, DECODE_JPEGS.word.feed, partial(self._rows_in_order, windows), narrow)
        elif windows.largest < limits.CHECKED:
            output.extents = Extents(windows.sizes, windows.offsets, windows.largest, windows.total)
        if lookup is not None and lookup.cache.device is None:
            steps += lookup.keeping(output, targets)
        return Planned([output], steps)

    def _shown(
        self, scanned: _Scanned, addresses: np.ndarray, images: np.ndarray, seen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Enter pictures of Python's decoders and of the cache into `images` (STORED_IMAGE). Returns the addresses of all files and
        pictures, and the extents as seen."""
        if not scanned.ready and scanned.lookup is None:
            return addresses, seen
        addresses = addresses.copy()
        for i, image in scanned.ready.items():
            images[i] = (image.shape[1], image.shape[0], image.shape[2], 0)
            addresses[i] = image.ctypes.data
        if scanned.lookup is not None:
            scanned.lookup.show(images, addresses)
            self._hits += len(scanned.lookup.hits)
        upright, turned = images[:, [stored.height, stored.width]], images[:, [stored.width, stored.height]]
        return addresses, np.where(images[:, [stored.orientation]] >= 5, turned, upright)

    def _rows_in_order(self, windows: Windows) -> np.ndarray:
        """bool[samples]: whether the rows of a window are decoded from the first to the last."""
        records, word = windows.records, JPEG_WINDOW.word
        in_order: np.ndarray = (records[:, word.kind] == self._kernels.JPEG) & (records[:, word.orientation] == 1)
        return in_order

    def _narrow(
        self, step: Step, headers: np.ndarray, images: np.ndarray | None, channels: np.ndarray, output: Batch, anchors: np.ndarray,
        extents: np.ndarray,
    ) -> Callable[[], np.ndarray]:  # fmt: skip
        """Let `step` decode windows into `output`, in place of whole images; see :class:`RowFeed`."""
        windows = self._kernels.windows_of(headers, images, (anchors, extents), channels, storage_dtype(self._dtype).itemsize)
        word, context = DECODE_JPEGS.word, step.context
        step.scratch_bytes = int(context[word.turned]) + windows.turned
        context[word.windows], context[word.targets], context[word.cut] = address_of(windows.records), address_of(output.addresses), 1
        step.keep = (*step.keep, windows, output.addresses)
        return partial(self._rows_in_order, windows)

    def counted(self) -> tuple[tuple[str, int], ...]:
        counts = tuple(zip(self._kernels.COUNT_NAMES, self._counts.tolist(), strict=True))
        if self._lanes is not None:
            counts += self._lanes.counted()
        cache = self._cache
        if cache is None:
            return counts
        return *counts, ("pictures from the cache", self._hits), ("pictures in the cache", len(cache)), ("bytes of the cache", cache.used)

    def close(self) -> None:
        cache, self._cache = self._cache, None
        self.environment.pictures.clear()
        if cache is not None and self.spec.constant("cache_debug"):
            of = f"{len(cache)} pictures, {cache.used:,} of {cache.options.size:,} bytes"
            print(f"{self.spec.name}: the cache of decoded pictures holds {of}; {self._hits} came from it", file=sys.stderr)

    def _explain(self, code: int, text: str, sample: int) -> str:
        if code == self._kernels.TRUNCATED:
            return "Premature end of JPEG data: the file is truncated"
        if code == self._kernels.WRONG_SIZE:
            return "broken JPEG: the decoder found another image than the header says"
        return f"broken JPEG: {text}"


def _refuse_impossible(headers: np.ndarray, sizes: np.ndarray) -> None:
    """Raise SampleError for the first JPEG whose header is implausible: no frame, an unsupported kind, a decompression bomb."""
    found, width, height, components, marker, scans = headers[:, _JUDGED].T
    pixels = width * height
    # Huffman coding (SOF0 to SOF7) takes at least one bit for each block of 8x8. `check_size` judges images that are merely large.
    bomb = (marker < 0xC9) & (pixels > 512 * sizes + 4096)
    large = (pixels <= 0) | (pixels > FREE_PIXELS) | (np.maximum(width, height) > MOST_SIDE)
    other = (found != 1) | (components == 2) | (components > 4) | (components == 0)
    wrong = (found != 0) & (bomb | large | (scans > MAX_SCANS) | other)
    for i in np.flatnonzero(wrong):
        try:
            image_decoding.check_jpeg(headers[i], int(sizes[i]))
        except ValueError as error:
            raise SampleError(int(i), str(error)) from None


def _check_coefficients(headers: np.ndarray) -> None:
    """Raise TooLarge if a progressive JPEG's coefficients do not fit into memory. Decoders keep two bytes per coefficient of the whole
    picture, whatever part of it is wanted."""
    width, height, components, marker = headers[:, (head.width, head.height, head.components, head.marker)].T
    sizes = np.where((marker == 0xC2) | (marker == 0xCA), 2 * width * height * components, 0)
    if not len(sizes):
        return
    largest = int(np.argmax(sizes))
    try:
        limits.check_size(int(sizes[largest]), f"the coefficients of a progressive JPEG of {width[largest]}x{height[largest]} pixels")
    except limits.TooLarge as error:
        raise limits.TooLarge(str(error), largest) from None


_NOTES = """

        Input: encoded bytes (UINT8, any shape), one image per sample. Output: HWC. `dtype` determines the output range ([0, 1] for
        FLOAT, up to the largest value for integers). YCbCr is ITU-R BT.601 with head-room. JPEGs are decoded with smooth chroma
        upsampling and, unless `use_fast_idct`, the accurate inverse DCT. A window of a JPEG is equal, bit for bit, to that part of
        the whole image.

        Broken, truncated, unsupported and impossibly large images are errors that name the sample."""


_ENCODED = (Input((DALIDataType.UINT8,), name="encoded images", ranks=at_least(1)),)


@register
class DecodeImage(ImageDecoder):
    offers_windows = True
    schema = Schema(
        name="decoders.image",
        library="cv2",
        doc=f"Decodes images: {FORMATS}.{_NOTES}",
        accepts=_ENCODED,
        gives=(Output(argument("dtype"), 3, "HWC"),),
        devices=("cpu", "mixed"),
        aliases=("image_decoder", "experimental.decoders.image"),
        deprecated=_DEPRECATED,
        args=(
            *DECODER_ARGS,
            *CACHE_ARGS,
        ),
    )


@register
class DecodeImageCrop(ImageDecoder):
    schema = Schema(
        name="decoders.image_crop",
        library="cv2",
        doc=f"""Decodes a window of fixed or given size of each image: {FORMATS}.

        The window starts at ``crop_pos * (image - window)``. A window that leaves the image is an error.{_NOTES}""",
        accepts=_ENCODED,
        gives=(Output(argument("dtype"), 3, "HWC"),),
        devices=("cpu", "mixed"),
        aliases=("image_decoder_crop", "experimental.decoders.image_crop"),
        deprecated=_DEPRECATED,
        args=(*DECODER_ARGS, *CROP_ARGS),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        check_crop(spec)

    def windows(
        self, extents: np.ndarray, inputs: list[Batch], arguments: Arguments, position: object
    ) -> tuple[np.ndarray, np.ndarray]:
        return check_windows(*crop_windows(self.spec, arguments, extents), extents)


@register
class DecodeImageSlice(ImageDecoder):
    schema = Schema(
        name="decoders.image_slice",
        library="cv2",
        doc=f"""Decodes a given part of each image: {FORMATS}.

        The part is given by named arguments or by two more inputs, anchor and shape (1-D FLOAT or integers, one value per axis of `axes`;
        floats are fractions of the image unless `normalized_anchor` or `normalized_shape` is False). Coordinates are rounded half
        away from zero. A window that leaves the image is an error.{_NOTES}""",
        accepts=(
            *_ENCODED, Input(slice_rules.COORDINATES, name="anchor", ranks=ANY_RANK),
            Input(slice_rules.COORDINATES, name="shape", ranks=ANY_RANK),
        ),
        gives=(Output(argument("dtype"), 3, "HWC"),),
        inputs=(1, 3),
        input_names=("data", "anchor", "shape_input"),
        devices=("cpu", "mixed"),
        aliases=("image_decoder_slice", "experimental.decoders.image_slice"),
        deprecated=_DEPRECATED,
        cpu_inputs=(1, 2),
        args=(*DECODER_ARGS, *slice_rules.SLICE_ARGS),
    )
    reads = (0, 1, 2)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        slice_rules.check_slice(spec)

    def windows(
        self, extents: np.ndarray, inputs: list[Batch], arguments: Arguments, position: object
    ) -> tuple[np.ndarray, np.ndarray]:
        return check_windows(*slice_rules.slice_windows(self.spec, inputs, arguments, extents, "HW"), extents)


@register
class DecodeImageRandomCrop(StreamOperator, ImageDecoder):
    schema = Schema(
        name="decoders.image_random_crop",
        library="cv2",
        doc=f"""Decodes a random window of each image: {FORMATS}.

        The window's area (as a fraction of the image) and aspect ratio (width / height) are drawn from the given ranges. Windows are
        DALI's for the same seed.{_NOTES}""",
        accepts=_ENCODED,
        gives=(Output(argument("dtype"), 3, "HWC"),),
        devices=("cpu", "mixed"),
        aliases=("image_decoder_random_crop", "experimental.decoders.image_random_crop"),
        deprecated=_DEPRECATED,
        seeded=True,
        args=(
            *DECODER_ARGS,
            Arg("num_attempts", "int", 10, "Number of attempts to find a window within the ranges.", stream=True),
            Arg("random_area", "float_list", [0.08, 1.0], "Range of the window's area as a fraction of the image.", stream=True),
            Arg("random_aspect_ratio", "float_list", [3 / 4, 4 / 3], "Range of width / height.", stream=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        random_streams.load_kernels()
        random_streams.draw_windows(self.start, [16], [16], *self._ranges())  # Refuse impossible ranges now.

    def _ranges(self) -> tuple[list[float], list[float], int]:
        constant = self.spec.constant
        return constant("random_aspect_ratio"), constant("random_area"), constant("num_attempts")

    def windows(
        self, extents: np.ndarray, inputs: list[Batch], arguments: Arguments, position: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        anchors, sizes = random_streams.draw_windows(position, extents[:, 0], extents[:, 1], *self._ranges())
        return anchors, sizes
