"""The cases of ``benchmarks.operators``: the inputs and the call for every CPU operator. The call is the same in both libraries."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from .operator_inputs import photo_paths, video_file

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
SHORT = 8  # number of copies of operators that take less than about 20 us per sample


@dataclass(frozen=True)
class Case:
    """One row. ``graph(lib, *fed)`` makes the outputs. `inputs` are kinds of ``operator_inputs``; `operators` the registry's names."""

    name: str
    family: str
    graph: Callable[..., Any]
    inputs: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    copies: int = 1
    batch: int = 64


def _function(lib: Any, name: str) -> Any:
    found = lib.fn
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _resolved(lib: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments. A text such as "@FLOAT" stands for a member of the library's ``types``."""
    return {key: getattr(lib.types, value[1:]) if str(value)[:1] == "@" else value for key, value in arguments.items()}


def _call(operator: str, named: dict[str, Any], lib: Any, *fed: Any) -> Any:
    return _function(lib, operator)(*fed, **_resolved(lib, named))


def case(family: str, operator: str, *inputs: str, label: str = "", copies: int = 1, batch: int = 64, **named: Any) -> Case:
    """A case that is one call of one operator with constant arguments."""
    name = f"{operator} {label}".strip()
    return Case(name, family, partial(_call, operator, named), inputs, (operator,), copies, batch)


def _graph(family: str, name: str, graph: Callable[..., Any], *inputs: str, operators: tuple[str, ...], copies: int = 1) -> Case:
    return Case(name, family, graph, inputs, operators, copies)


def _spectrogram(lib: Any, sound: Any) -> Any:
    return lib.fn.spectrogram(sound, nfft=512, window_length=400, window_step=160)


def _mel(lib: Any, sound: Any) -> Any:
    return lib.fn.mel_filter_bank(_spectrogram(lib, sound), nfilter=80, sample_rate=16000)


def _mfcc(lib: Any, sound: Any) -> Any:
    return lib.fn.mfcc(lib.fn.to_decibels(_mel(lib, sound)), n_mfcc=13)


_AUDIO = [
    _graph("audio", "spectrogram 512", _spectrogram, "sound", operators=("spectrogram",)),
    _graph("audio", "spectrogram, mel 80", _mel, "sound", operators=("mel_filter_bank",)),
    _graph("audio", "spectrogram, mel 80, decibels, mfcc 13", _mfcc, "sound", operators=("mfcc",)),
    case("audio", "spectrogram", "sound", label="400", window_length=400, window_step=160),
    case("audio", "spectrogram", "sound", label="2048 tf", nfft=2048, window_length=1200, window_step=300, layout="tf"),
    case("audio", "power_spectrum", "mel", label="axis 1", axis=1, nfft=401),
    case("audio", "mel_filter_bank", "spectrum", label="80", nfilter=80, sample_rate=16000.0),
    case("audio", "to_decibels", "mel"),
    case("audio", "mfcc", "mel", label="13", n_mfcc=13),
    case("audio", "preemphasis_filter", "sound"),
    case("audio", "nonsilent_region", "sound"),
    case("audio", "nonsilent_region", "pcm", label="INT16"),
    case("audio", "audio_resample", "sound", label="0.9", scale=0.9),
    case("audio", "audio_resample", "pcm", label="INT16 to 8 kHz", in_rate=16000.0, out_rate=8000.0),
]

_COLOR = [
    case("color", "brightness", "photo", brightness=1.2),
    case("color", "contrast", "photo", contrast=1.2),
    case("color", "brightness_contrast", "photo", brightness=1.2, contrast=0.9),
    case("color", "brightness_contrast", "photo", label="to FLOAT", brightness=1.2, contrast=0.9, dtype="@FLOAT"),
    case("color", "hue", "photo", hue=20.0),
    case("color", "saturation", "photo", saturation=1.3),
    case("color", "hsv", "photo", hue=20.0, saturation=1.3, value=0.9),
    case("color", "color_twist", "photo", hue=20.0, saturation=1.3, brightness=1.1, contrast=0.9),
    case("color", "color_space_conversion", "photo", label="RGB GRAY", image_type="@RGB", output_type="@GRAY"),
    case("color", "color_space_conversion", "photo", label="RGB YCbCr", image_type="@RGB", output_type="@YCbCr"),
    case("color", "color_space_conversion", "photo", label="YCbCr RGB", image_type="@YCbCr", output_type="@RGB"),
    case("color", "color_space_conversion", "photo", label="RGB BGR", image_type="@RGB", output_type="@BGR"),
    case("color", "color_space_conversion", "gray", label="GRAY RGB", image_type="@GRAY", output_type="@RGB"),
    case("color", "equalize", "photo"),
    case("color", "clahe", "photo", tiles_x=8, tiles_y=8, clip_limit=2.0),
    case("color", "clahe", "gray", label="gray", tiles_x=8, tiles_y=8, clip_limit=2.0),
    case("color", "jpeg_compression_distortion", "photo", quality=50),
]

_GEOMETRY = [
    case("geometry", "crop", "photo", crop=[224, 224], copies=SHORT),
    case("geometry", "crop", "photo", label="to FLOAT", crop=[224, 224], dtype="@FLOAT"),
    case("geometry", "crop_mirror_normalize", "photo", label="CHW", crop=[224, 224], mean=MEAN, std=STD, mirror=1, dtype="@FLOAT",
         output_layout="CHW"),
    case("geometry", "crop_mirror_normalize", "photo", label="HWC", crop=[224, 224], mean=MEAN, std=STD, dtype="@FLOAT",
         output_layout="HWC"),
    case("geometry", "flip", "photo", horizontal=1),
    case("geometry", "flip", "photo", label="vertical", vertical=1, horizontal=0),
    case("geometry", "slice", "photo", label="half", start=[50, 60], shape=[200, 250], axes=[0, 1], copies=SHORT),
    case("geometry", "resize", "photo", label="224", size=[224, 224]),
    case("geometry", "resize", "photo", label="800x600", size=[600, 800]),
    case("geometry", "resize", "photo", label="224 cubic", size=[224, 224], interp_type="@INTERP_CUBIC"),
    case("geometry", "resize", "photo", label="224 nearest", size=[224, 224], interp_type="@INTERP_NN"),
    case("geometry", "resize", "floats", label="224 FLOAT", size=[224, 224]),
    case("geometry", "tensor_resize", "photo", label="224", sizes=[224, 224], axes=[0, 1]),
    case("geometry", "random_resized_crop", "photo", size=[224, 224], seed=3),
    case("geometry", "resize_crop_mirror", "photo", resize_shorter=256, crop=[224, 224], mirror=1),
    case("geometry", "rotate", "photo", label="20", angle=20.0),
    case("geometry", "rotate", "photo", label="20 nearest", angle=20.0, interp_type="@INTERP_NN"),
    case("geometry", "warp_affine", "photo", matrix=[0.97, -0.26, 30.0, 0.26, 0.97, -20.0], fill_value=0.0),
    _graph("geometry", "warp_affine matrix input", lambda lib, x, m: lib.fn.warp_affine(x, m, size=[300, 400]), "photo", "warp",
           operators=("warp_affine",)),
    _graph("geometry", "experimental.warp_perspective", lambda lib, x, m: lib.fn.experimental.warp_perspective(x, m), "photo", "homography",
           operators=("experimental.warp_perspective",)),
    case("geometry", "sphere", "photo"),
    case("geometry", "water", "photo"),
    case("geometry", "coord_transform", "points", M=[0.5, 0.1, 0.2, 0.9], T=[3.0, 4.0], copies=SHORT),
    case("geometry", "coord_flip", "points", copies=SHORT),
]  # fmt: skip

_MATRICES = [
    _graph("transforms", "transforms.combine", lambda lib, a, b: lib.fn.transforms.combine(a, b), "matrix", "matrix",
           operators=("transforms.combine",), copies=SHORT),
    case("transforms", "transforms.crop", "matrix", from_start=[0.1, 0.2], from_end=[0.9, 1.0], copies=SHORT),
    case("transforms", "transforms.rotation", "matrix", angle=30.0, copies=SHORT),
    case("transforms", "transforms.scale", "matrix", scale=[2.0, 3.0], copies=SHORT),
    case("transforms", "transforms.shear", "matrix", shear=[0.2, 0.1], copies=SHORT),
    case("transforms", "transforms.translation", "matrix", offset=[3.0, 4.0], copies=SHORT),
]  # fmt: skip

def _corners(which: int) -> Any:
    return np.int32([[[0, 0]] * 4, [[0, 0], [0, 250], [187, 0], [187, 250]], [[187, 250]] * 4][which])


_FILTERS = [
    case("filters", "gaussian_blur", "photo", sigma=1.5),
    case("filters", "gaussian_blur", "photo", label="window 11", window_size=11),
    case("filters", "laplacian", "photo"),
    _graph("filters", "filter 5x5", lambda lib, x, w: lib.fn.filter(x, w), "photo", "window", operators=("filter",)),
    case("filters", "erase", "photo", anchor=[20, 30], shape=[60, 80], axes=[0, 1], fill_value=0.0),
    case("filters", "grid_mask", "photo", tile=50, ratio=0.4),
    case("filters", "paste", "photo", ratio=1.5, fill_value=[0, 0, 0]),
    _graph("filters", "multi_paste 4", lambda lib, x: lib.fn.multi_paste(
        x, in_ids=[0, 1, 2, 3], output_size=[375, 500], in_anchors=_corners(0), out_anchors=_corners(1), shapes=_corners(2)), "photo",
        operators=("multi_paste",)),
]  # fmt: skip


_ARRAYS = [
    case("arrays", "cast", "photo", label="UINT8 FLOAT", dtype="@FLOAT"),
    case("arrays", "cast", "floats", label="FLOAT UINT8", dtype="@UINT8"),
    case("arrays", "cast", "photo", label="UINT8 INT16", dtype="@INT16"),
    case("arrays", "cast", "shorts", label="INT16 UINT8", dtype="@UINT8"),
    case("arrays", "cast", "floats", label="FLOAT INT32", dtype="@INT32"),
    case("arrays", "cast", "floats", label="FLOAT FLOAT16", dtype="@FLOAT16"),
    _graph("arrays", "cast_like", lambda lib, x, y: lib.fn.cast_like(x, y), "photo", "floats", operators=("cast_like",)),
    case("arrays", "copy", "photo"),
    _graph("arrays", "cat 2 axis 0", lambda lib, x, y: lib.fn.cat(x, y), "photo", "other", operators=("cat",)),
    _graph("arrays", "cat 2 axis 2", lambda lib, x, y: lib.fn.cat(x, y, axis=2), "photo", "other", operators=("cat",)),
    _graph("arrays", "stack 2", lambda lib, x, y: lib.fn.stack(x, y), "photo", "other", operators=("stack",)),
    case("arrays", "transpose", "photo", label="HWC CHW", perm=[2, 0, 1]),
    case("arrays", "transpose", "planes", label="CHW HWC", perm=[1, 2, 0]),
    case("arrays", "transpose", "floats", label="HWC CHW FLOAT", perm=[2, 0, 1]),
    case("arrays", "lookup_table", "photo", label="to FLOAT", keys=list(range(256)), values=[k / 3 for k in range(256)], dtype="@FLOAT"),
    case("arrays", "lookup_table", "photo", label="to UINT8", keys=list(range(256)), values=[255.0 - k for k in range(256)],
         dtype="@UINT8"),
    case("arrays", "pad", "photo", label="400x520", fill_value=0, axes=[0, 1], shape=[400, 520]),
    case("arrays", "one_hot", "scalar", num_classes=100, copies=SHORT),
    case("arrays", "reshape", "photo", rel_shape=[2.0, 0.5, 1.0], copies=SHORT),
    case("arrays", "reinterpret", "photo", layout="HW", rel_shape=[1.0, 3.0], copies=SHORT),
    case("arrays", "squeeze", "gray", axes=[2], copies=SHORT),
    case("arrays", "expand_dims", "photo", axes=[0], copies=SHORT),
    case("arrays", "shapes", "photo", copies=SHORT),
    case("arrays", "get_property", "photo", key="layout", copies=SHORT),
    _graph("arrays", "permute_batch", lambda lib, x: lib.fn.permute_batch(x, indices=lib.fn.batch_permutation(seed=5)), "photo",
           operators=("permute_batch",)),
    case("arrays", "batch_permutation", seed=5, copies=1),
    case("arrays", "constant", fdata=[1.0, 2.0], copies=1),
    _graph("arrays", "full", lambda lib, x: lib.fn.full(x, shape=[100]), "probability", operators=("full",), copies=SHORT),
    _graph("arrays", "full_like", lambda lib, x, y: lib.fn.full_like(x, y), "photo", "scalar8", operators=("full_like",)),
    case("arrays", "ones", shape=[100, 100]),
    case("arrays", "zeros", shape=[100, 100]),
    case("arrays", "ones_like", "photo"),
    case("arrays", "zeros_like", "photo"),
    _graph("arrays", "subscript [20:220, 30:280]", lambda lib, x: x[20:220, 30:280], "photo", operators=("_tensor_subscript",),
           copies=SHORT),
    _graph("arrays", "subscript [:, :, 1]", lambda lib, x: x[:, :, 1], "photo", operators=("_tensor_subscript",)),
    _graph("arrays", "x.shape()", lambda lib, x: x.shape(), "photo", operators=("_shape",), copies=SHORT),
]  # fmt: skip

_SEQUENCES = [
    case("sequences", "resize", "sequence", label="frames 64x64", size=[64, 64]),
    case("sequences", "rotate", "sequence", label="frames", angle=10.0),
    case("sequences", "gaussian_blur", "sequence", label="frames", sigma=1.0),
    case("sequences", "crop_mirror_normalize", "sequence", label="frames", crop=[100, 100], dtype="@FLOAT", mean=MEAN, std=STD,
         output_layout="FCHW"),
    case("sequences", "sequence_rearrange", "sequence", new_order=[5, 4, 3, 2, 1, 0]),
    case("sequences", "element_extract", "sequence", element_map=[0, 3], copies=SHORT),
    case("sequences", "per_frame", "sequence", copies=SHORT),
    case("volumes", "resize", "volume", label="volume 32", size=[32, 64, 64]),
    case("volumes", "rotate", "volume", label="volume", angle=20.0, axis=[0.0, 0.5, 1.0]),
    case("volumes", "gaussian_blur", "volume", label="volume", sigma=1.0),
    case("volumes", "flip", "volume", label="volume", horizontal=1, depthwise=1),
    case("volumes", "crop", "volume", label="volume", crop=[24, 64, 64]),
    case("volumes", "warp_affine", "volume", label="volume", matrix=[1.0, 0.1, 0.0, 3.0, 0.0, 1.0, 0.1, -2.0, 0.1, 0.0, 1.0, 1.0]),
]

def _deviation(name: str, lib: Any, x: Any) -> Any:
    return _function(lib, f"reductions.{name}")(x, lib.fn.reductions.mean(x))


_STATISTICS = [
    *(case("statistics", f"reductions.{name}", "photo") for name in ("sum", "mean", "mean_square", "rms", "min", "max")),
    *(case("statistics", f"reductions.{name}", "photo", label="axes 0 1", axes=[0, 1]) for name in ("sum", "mean", "min")),
    case("statistics", "reductions.sum", "floats", label="FLOAT"),
    case("statistics", "reductions.mean", "floats", label="FLOAT axes 0 1", axes=[0, 1]),
    case("statistics", "reductions.sum", "photo", label="axis 2", axes=[2]),
    *(_graph("statistics", f"reductions.{name}", partial(_deviation, name), "photo",
             operators=(f"reductions.{name}",)) for name in ("std_dev", "variance")),
    case("statistics", "normalize", "photo"),
    case("statistics", "normalize", "photo", label="axes 0 1", axes=[0, 1]),
    case("statistics", "normalize", "floats", label="FLOAT axes 0 1", axes=[0, 1]),
    case("statistics", "normalize", "photo", label="given", mean=128.0, stddev=50.0),
    case("statistics", "normalize", "mel", label="mel axis 1", axes=[1]),
]  # fmt: skip


def _math(name: str, lib: Any, x: Any) -> Any:
    return getattr(lib.math, name)(x)


_MATH = [
    *(_graph("math", f"math.{name}", partial(_math, name), "positive", operators=("_arithmetic_generic_op",))
      for name in ("sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "fabs", "floor", "ceil", "sin", "cos", "tan", "asin", "acos",
                   "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")),
    _graph("math", "math.pow", lambda lib, x, y: lib.math.pow(x, y), "positive", "positive", operators=("_arithmetic_generic_op",)),
    _graph("math", "math.atan2", lambda lib, x, y: lib.math.atan2(x, y), "positive", "positive", operators=("_arithmetic_generic_op",)),
    _graph("math", "math.clamp", lambda lib, x: lib.math.clamp(x, 20, 200), "photo", operators=("_arithmetic_generic_op",)),
    _graph("math", "x + y UINT8", lambda lib, x, y: x + y, "photo", "other", operators=("_arithmetic_generic_op",)),
    _graph("math", "x * 0.5 + 3 UINT8", lambda lib, x: x * 0.5 + 3, "photo", operators=("_arithmetic_generic_op",)),
    _graph("math", "x * y FLOAT", lambda lib, x, y: x * y, "floats", "positive", operators=("_arithmetic_generic_op",)),
    _graph("math", "x / 7 UINT8", lambda lib, x: x / 7, "photo", operators=("_arithmetic_generic_op",)),
    _graph("math", "x // 7 UINT8", lambda lib, x: x // 7, "photo", operators=("_arithmetic_generic_op",)),
    _graph("math", "x % 7 UINT8", lambda lib, x: x % 7, "photo", operators=("_arithmetic_generic_op",)),
    _graph("math", "(x > 100) & (x < 200)", lambda lib, x: (x > 100) & (x < 200), "photo", operators=("_arithmetic_generic_op",)),
]  # fmt: skip

_NOISE = [
    case("noise", "noise.gaussian", "photo", stddev=20.0, seed=4),
    case("noise", "noise.shot", "photo", factor=20.0, seed=4),
    case("noise", "noise.salt_and_pepper", "photo", prob=0.05, seed=4),
]

_RANDOM = [
    case("random", "random.uniform", seed=4, copies=1),
    case("random", "random.uniform", label="100x100", seed=4, shape=[100, 100]),
    case("random", "random.normal", seed=4),
    case("random", "random.normal", label="100x100", seed=4, shape=[100, 100]),
    case("random", "random.coin_flip", seed=4),
    case("random", "random.coin_flip", label="100x100", seed=4, shape=[100, 100]),
    case("random", "random.beta", seed=4, label="100", shape=[100]),
    _graph("random", "random.choice", lambda lib, x: lib.fn.random.choice(x, shape=[100], seed=4), "choices", operators=("random.choice",)),
    case("random", "random_crop_generator", "shape", seed=4, copies=SHORT),
    case("random", "roi_random_crop", crop_shape=[10, 10], roi_start=[5, 5], roi_end=[50, 50], seed=4),
]

_BOXES = [
    case("boxes", "bb_flip", "boxes", ltrb=True, copies=SHORT),
    case("boxes", "bbox_paste", "boxes", paste_x=0.1, paste_y=0.1, ratio=2.0, copies=SHORT),
    case("boxes", "bbox_rotate", "boxes", angle=20.0, input_shape=[375, 500], copies=SHORT),
    _graph("boxes", "box_encoder", lambda lib, b, n: lib.fn.box_encoder(b, n, anchors=_default_boxes()), "boxes", "labels",
           operators=("box_encoder",)),
    _graph("boxes", "random_bbox_crop", lambda lib, b, n: lib.fn.random_bbox_crop(
        b, n, aspect_ratio=[0.5, 2.0], scaling=[0.3, 1.0], thresholds=[0.1, 0.3, 0.5], bbox_layout="xyXY", seed=4), "boxes", "labels",
        operators=("random_bbox_crop",)),
    _graph("boxes", "ssd_random_crop", lambda lib, x, b, n: lib.fn.ssd_random_crop(x, b, n, seed=4), "photo", "image_boxes", "image_labels",
           operators=("ssd_random_crop",)),
    case("boxes", "segmentation.random_mask_pixel", "spots", foreground=1, seed=4),
    case("boxes", "segmentation.random_object_bbox", "spots", foreground_prob=1.0, seed=4, background=0),
    _graph("boxes", "segmentation.select_masks", lambda lib, i, p, v: lib.fn.segmentation.select_masks(i, p, v), "mask_ids", "polygons",
           "vertices", operators=("segmentation.select_masks",)),
]  # fmt: skip


@cache
def _default_boxes() -> list[float]:
    """8,732 anchors, the number of SSD300."""
    random = np.random.default_rng(2)
    corners = np.sort(random.uniform(0, 1, (8732, 2, 2)), axis=1)
    return [float(value) for value in np.float32(corners).reshape(-1)]


_DECODING = [
    case("decoding", "decoders.image", "jpeg", label="JPEG"),
    case("decoding", "decoders.image", "png", label="PNG"),
    case("decoding", "decoders.image_crop", "jpeg", crop=[224, 224]),
    case("decoding", "decoders.image_random_crop", "jpeg", seed=4),
    case("decoding", "decoders.image_slice", "jpeg", start=[50, 60], shape=[200, 200], axes=[0, 1]),
    case("decoding", "peek_image_shape", "jpeg", copies=SHORT),
    case("decoding", "decoders.audio", "wav", label="WAV"),
    case("decoding", "decoders.audio", "flac", label="FLAC"),
    case("decoding", "decoders.audio", "ogg", label="Vorbis"),
    case("decoding", "decoders.numpy", "npy"),
    case("decoding", "decoders.video", "video", label="VP9 whole"),
    case("decoding", "io.file.read", "names"),
]


def _container(name: str, lib: Any) -> Any:
    from .readers import MAKERS

    return _prepared(name, MAKERS)(lib)


@cache
def _prepared_in(name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"asyncdali-bench-{name}-"))


_made: dict[str, Callable[[Any], Any]] = {}


def _prepared(name: str, makers: Any) -> Callable[[Any], Any]:
    if name not in _made:
        _made[name] = makers[name](_prepared_in(name), [Path(path).read_bytes() for path in photo_paths()])
    return _made[name]


def _small(name: str, lib: Any) -> Any:
    """A reader over the small files of the tests."""
    from helpers.readers import KINDS

    kind = KINDS[name]
    if name not in _files:
        _files[name] = kind.write(_prepared_in(name))
    return kind.outputs(lib, _files[name])


_files: dict[str, dict[str, Any]] = {}

_READERS = [
    *(Case(f"readers.{name}", "readers", partial(_container, name), (), (f"readers.{name}",))
      for name in ("file", "tfrecord", "caffe", "caffe2", "webdataset", "mxnet", "numpy")),
    *(Case(f"readers.{name} small", "readers", partial(_small, name), (), (f"readers.{name}",), batch=8)
      for name in ("coco", "nemo_asr", "sequence")),
    Case("experimental.readers.video", "readers",
         lambda lib: lib.fn.experimental.readers.video(filenames=[video_file()], sequence_length=16), (),
         ("experimental.readers.video", "readers.video"), batch=2),
]  # fmt: skip


def _doubled(x: Any) -> Any:
    return x * 2


def _run(out: Any, x: Any) -> None:
    out[:] = x[:] * 2


def _run_on_gpu() -> Any:
    """The kernel for numba.cuda that does the same."""
    from numba import cuda

    def run(out: Any, x: Any) -> None:
        for k in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            out[k] = x[k] * 2

    return run


def _numba(lib: Any, x: Any) -> Any:
    import importlib

    function = importlib.import_module(f"{lib.__name__}.plugin.numba.fn.experimental").numba_function
    kind = {"in_types": [lib.types.FLOAT], "ins_ndim": [1], "out_types": [lib.types.FLOAT], "outs_ndim": [1]}
    if x.device == "gpu":
        return function(x, run_fn=_run_on_gpu(), device="gpu", blocks=[64, 1, 1], threads_per_block=[256, 1, 1], **kind)
    return function(x, run_fn=_run, **kind)


_PYTHON = [
    _graph("python", "python_function", lambda lib, x: lib.fn.python_function(x, function=_doubled, num_outputs=1), "sound",
           operators=("python_function",)),
    _graph("python", "numba_function", _numba, "sound", operators=("experimental.numba_function",)),
]  # fmt: skip

CASES: list[Case] = [
    *_AUDIO, *_COLOR, *_GEOMETRY, *_MATRICES, *_FILTERS, *_ARRAYS, *_SEQUENCES, *_STATISTICS, *_MATH, *_NOISE, *_RANDOM, *_BOXES,
    *_DECODING, *_READERS, *_PYTHON,
]  # fmt: skip

NOT_HERE = {
    "external_source": "it feeds every case; see benchmarks.sources",
    "dl_tensor_python_function": "the time is the user's function; see python_function",
    "experimental.readers.fits": "DALI reads FITS only where its wheel was built with cfitsio",
    "_conditional.merge": "see benchmarks.language",
    "_conditional.not_": "see benchmarks.language",
    "_conditional.split": "see benchmarks.language",
    "_conditional.validate_logical": "see benchmarks.language",
    "_constant": "part of every graph with constants",
    "_transfer": "a copy to a device",
}
"""CPU operators without a case, and the reason."""
