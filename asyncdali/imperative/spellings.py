"""The right spelling of names that users of pipelines, NumPy, torch and torchvision try first.

Most hints follow from the names of dynamic mode: a name of another module, an operator's class, a reader, a function that is no method.
The tables have the rest.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, ParamSpec, TypeVar

from .. import types as _types
from ..messages.notices import near

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")

_PIPELINES = "dynamic mode has no pipelines: call operators in a loop over ndd.readers.File(...).next_epoch(batch_size)"
_TENSOR = "use ndd.as_tensor(data), or ndd.tensor(data) for a copy"
_FLIP = "use ndd.flip(picture, horizontal=1, vertical=0)"
_SEED = "use ndd.random.set_seed(seed), or rng=ndd.random.RNG(seed)"
_UNIFORM = "use ndd.random.uniform(range=[low, high], shape=[...], dtype=...)"
_TORCHVISION = "transforms of torchvision are in asyncdali.experimental.torchvision"

NAMES: Mapping[str, str] = {
    "external_source": "use ndd.ExternalSource(source), or pass the data to the operator",
    "python_function": "call the Python function itself: results are Tensors and Batches, numpy.asarray(tensor) is an array",
    "constant": "pass the number or list itself, or use ndd.tensor(...)",
    "shapes": "read the property `shape` of the Tensor or Batch",
    "types": "use asyncdali.types; element types are ndd.uint8, ndd.float32 and so on",
    "fn": "operators are functions of this module: ndd.resize(...), not ndd.fn.resize(...)",
    "ops": "operators are functions of this module: ndd.resize(picture, size=[224, 224])",
    **dict.fromkeys(("pipeline_def", "pipeline", "Pipeline"), _PIPELINES),
    **dict.fromkeys(("array", "asarray", "as_array", "from_numpy", "from_torch", "from_dlpack", "to_tensor", "constant_like"), _TENSOR),
    **dict.fromkeys(("arange", "linspace", "eye"), "make it with NumPy: ndd.as_tensor(numpy.arange(...))"),
    **dict.fromkeys(("concat", "concatenate", "hstack", "vstack"), "use ndd.cat(a, b, axis=...), or ndd.stack(a, b)"),
    **dict.fromkeys(("hflip", "vflip", "horizontal_flip", "vertical_flip", "mirror", "fliplr", "flipud"), _FLIP),
    **dict.fromkeys(("seed", "manual_seed", "random_seed"), _SEED),
    **dict.fromkeys(("randint", "integers", "rand", "random_sample"), _UNIFORM),
    **dict.fromkeys(("randn", "gauss"), "use ndd.random.normal(mean=..., stddev=..., shape=[...])"),
    **dict.fromkeys(("Generator", "default_rng", "RandomState", "Philox"), "use ndd.random.RNG(seed)"),
    **dict.fromkeys(
        ("permutation", "randperm", "shuffle"), "use ndd.batch_permutation(batch_size=n), or ndd.permute_batch(batch, indices=...)"
    ),
    **dict.fromkeys(("set_device", "get_device", "current_device"), "use `with ndd.Device('gpu'):` and ndd.Device.current()"),
    **dict.fromkeys(("decode_image", "decode_jpeg", "imdecode", "image_decode"), "use ndd.decoders.image(encoded), or ndd.imread(path)"),
    **dict.fromkeys(("read_file", "read_image", "load", "open"), "use ndd.io.file.read(path), or ndd.imread(path) for pictures"),
    **dict.fromkeys(("color_jitter", "ColorJitter"), "use ndd.color_twist(picture, brightness=..., contrast=..., saturation=..., hue=...)"),
    **dict.fromkeys(("compile", "jit", "compiled"), "use reader.next_epoch(batch_size, capture=True)"),
    **dict.fromkeys(("no_grad", "inference_mode"), "leave it out: there are no gradients"),
    **dict.fromkeys(("Compose", "transforms_v2", "v2"), _TORCHVISION),
    **dict.fromkeys(("DataLoader", "Reader", "reader", "loader"), "readers are classes: ndd.readers.File(...).next_epoch(batch_size)"),
    "get_stream": "use ndd.get_current_stream() or ndd.get_default_stream()",
    "where": "use arithmetic: mask * a + ~mask * b, where the mask is of ndd.bool",
    "round": "use ndd.math.floor(x + 0.5)",
    "power": "use ndd.math.pow(base, exponent), or base ** exponent",
    "maximum": "use ndd.math.max(a, b)",
    "minimum": "use ndd.math.min(a, b)",
    "clip": "use ndd.math.clamp(value, lo, hi)",
    "matmul": "use NumPy: ndd.as_tensor(numpy.asarray(a) @ numpy.asarray(b))",
    "float": "use ndd.float32", "double": "use ndd.float64", "half": "use ndd.float16", "int": "use ndd.int32", "long": "use ndd.int64",
    "float_": "use ndd.float32", "int_": "use ndd.int32", "bool_": "use ndd.bool",
    "FLOAT": "use ndd.float32", "FLOAT16": "use ndd.float16", "FLOAT64": "use ndd.float64", "BOOL": "use ndd.bool",
    "save": "use ndd.checkpoint.Checkpoint().save(pattern)",
    "restore": "use ndd.checkpoint.Checkpoint().load(pattern)",
}  # fmt: skip
"""Names of modules."""

VALUES: Mapping[str, str] = {
    "as_cpu": "use cpu()",
    **dict.fromkeys(("as_gpu", "cuda"), "use gpu()"),
    **dict.fromkeys(("numpy", "to_numpy"), "use numpy.asarray(tensor), or numpy.asarray(ndd.as_tensor(batch))"),
    "as_array": "use numpy.asarray(tensor), or numpy.asarray(ndd.as_tensor(batch))",
    "tolist": "use numpy.asarray(tensor).tolist()",
    **dict.fromkeys(("as_tensor", "stack", "as_reshaped_tensor"), "use ndd.as_tensor(batch)"),
    "at": "use batch.tensors[i] or batch.select(i)",
    **dict.fromkeys(("samples", "tensor", "items", "sample"), "use batch.tensors"),
    "to": "use to_device(device), or ndd.cast(value, dtype=...)",
    **dict.fromkeys(("to_torch", "as_torch"), "use torch()"),
    **dict.fromkeys(("astype", "type", "float", "half", "double", "int", "long", "byte"), "use ndd.cast(value, dtype=ndd.float32)"),
    "get": "leave it out: the value has its data",
    **dict.fromkeys(("reshape", "view"), "use ndd.reshape(value, shape=[...])"),
    **dict.fromkeys(("flatten", "ravel"), "use ndd.reshape(value, shape=[-1])"),
    **dict.fromkeys(("T", "permute", "swapaxes", "movedim"), "use ndd.transpose(value, perm=[...])"),
    "unsqueeze": "use ndd.expand_dims(value, axes=[...])",
    "clip": "use ndd.math.clamp(value, lo, hi)",
    **dict.fromkeys(("clone", "contiguous", "detach"), "use ndd.copy(value), or leave it out"),
    **dict.fromkeys(("is_cuda", "device_id"), "use value.device"),
    **dict.fromkeys(("size", "num_samples"), "use batch.batch_size, and batch.shape for the shapes"),
    **dict.fromkeys(("schedule_run", "run", "wait"), "use evaluate()"),
}  # fmt: skip
"""Attributes of Tensors and Batches."""

READERS: Mapping[str, str] = {
    **dict.fromkeys(
        ("run", "next", "read", "epoch", "batches", "iter"), "iterate reader.next_epoch(batch_size=n), or call reader(batch_size=n)"
    ),
    "reset": "leave it out: each next_epoch() begins the next epoch",
    **dict.fromkeys(("epoch_size", "size", "meta", "reader_meta"), "use len(reader), or get_metadata()"),
    **dict.fromkeys(("compiled", "captured", "capture"), "use next_epoch(batch_size, capture=True)"),
    "state_dict": "use get_state()", "load_state_dict": "use set_state(state)",
    "checkpoint": "use get_state(), or ndd.checkpoint.Checkpoint().register(reader, name)",
    "batch_size": "give it to next_epoch(batch_size=n)",
}  # fmt: skip
"""Attributes of readers."""

RNGS: Mapping[str, str] = {
    "seed": "it can be set but not read; read `state`",
    "state_dict": "use get_state()", "load_state_dict": "use set_state(state)", "manual_seed": "set rng.seed = number",
    **dict.fromkeys(("random", "uniform", "integers", "randint", "rand"), "use ndd.random.uniform(range=[low, high], rng=rng)"),
    **dict.fromkeys(("normal", "randn"), "use ndd.random.normal(rng=rng)"),
    **dict.fromkeys(
        ("choice", "shuffle", "permutation"), "use ndd.random.choice(..., rng=rng), or ndd.batch_permutation(batch_size=n, rng=rng)"
    ),
    **dict.fromkeys(("get", "next", "draw"), "call the generator: rng()"), "spawn": "use clone(), or RNG(rng())", "split": "use RNG(rng())",
}  # fmt: skip
"""Attributes of random generators."""

SOURCES: Mapping[str, str] = {
    **dict.fromkeys(("next", "run", "get", "next_epoch"), "call the source: source(), or source(batch_size=n)"),
    **dict.fromkeys(("compiled", "capture"), "use captured(batch_size)"),
}  # fmt: skip
"""Attributes of sources."""

CHECKPOINTS: Mapping[str, str] = {
    "state_dict": "use serialize()", "load_state_dict": "use deserialize(text)", "add": "use register(object, name)",
    "write": "use save(pattern)", "read": "use load(pattern)", "states": "use serialize(), or get_state(name)",
}  # fmt: skip
"""Attributes of checkpoints."""

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("low", "high", "min", "max", "minval", "maxval", "bounds"), ("range",)),
    "size": ("shape", "crop", "window_size"), "output_size": ("size", "crop", "shape"), "dims": ("axes", "shape"),
    **dict.fromkeys(("width", "height", "w", "h"), ("size", "crop", "shape")),
    **dict.fromkeys(("interpolation", "interp", "mode", "resample"), ("interp_type", "mode")),
    **dict.fromkeys(("p", "prob"), ("probability",)), "loc": ("mean",), "scale": ("stddev", "scales"), "sigma": ("stddev",),
    **dict.fromkeys(("axis", "dim"), ("axes", "axis", "horizontal")), "keepdims": ("keep_dims",), "keepdim": ("keep_dims",),
    **dict.fromkeys(("degrees", "rotation", "theta"), ("angle",)), "kernel_size": ("window_size",), "ksize": ("window_size",),
    **dict.fromkeys(("type", "output_dtype", "out_dtype"), ("dtype",)), "image_type": ("output_type",), "color_space": ("output_type",),
    **dict.fromkeys(("fill", "cval", "padding_value", "value"), ("fill_value", "fill_values")),
    **dict.fromkeys(("layout", "data_format", "output_layouts"), ("output_layout", "layout")), "axes_names": ("axis_names",),
    **dict.fromkeys(("root", "path", "paths", "directory", "folder", "data_dir"), ("file_root", "paths", "path", "filenames")),
    "filenames": ("files", "paths", "path"), "shuffle": ("random_shuffle",), "world_size": ("num_shards",), "rank": ("shard_id",),
    "perm": ("perm", "indices"), "permutation": ("perm", "indices"), "order": ("perm", "indices"), "n": ("num_classes", "shape"),
    "ratio": ("random_aspect_ratio", "aspect_ratio", "ratio"), "top": ("crop_pos_y", "anchor"), "left": ("crop_pos_x", "anchor"),
    "brightness_factor": ("brightness",), "contrast_factor": ("contrast",), "saturation_factor": ("saturation",), "hue_factor": ("hue",),
}  # fmt: skip
"""Arguments, and the names that operators may have for them, the likeliest first."""

_MAIN = (
    "size", "crop", "angle", "shape", "range", "probability", "dtype", "axes", "axis", "perm", "horizontal", "vertical", "mean", "stddev",
)  # fmt: skip
"""The arguments that are shown first."""

GRAPHS_ONLY = ("name", "preserve", "bytes_per_sample_hint")
"""Arguments of graphs that calls lack."""

_PLACES = (
    "", "random", "math", "reductions", "decoders", "noise", "segmentation", "transforms", "io.file", "experimental", "checkpoint",
    "readers",
)  # fmt: skip
"""Modules that are searched for a name, in this order."""

_VALUE_PLACES = ("", "reductions", "math", "noise", "segmentation", "decoders", "random", "transforms")
"""Modules with functions that users may take for methods of Tensors."""

names: Callable[[], Mapping[str, Iterable[str]]] = dict
"""The names of dynamic mode by module; ``surface`` sets it."""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _found(name: str) -> tuple[str, str] | None:
    """The module and the name that dynamic mode has for `name`, however it is written: "RandomResizedCrop", "sqrt", "RNG"."""
    reads = re.fullmatch("(.+?)_?[Rr]eader", name)
    wanted, known = _plain(reads[1] if reads else name), names()
    for path in ("readers",) if reads else _PLACES:
        for item in known.get(path, ()):
            if _plain(item) == wanted:
                return path, item
    return None


def _full(path: str, name: str) -> str:
    return f"ndd.{path}.{name}" if path else f"ndd.{name}"


def hint_for_name(name: str) -> str | None:
    """The right spelling of a name that a module of dynamic mode lacks."""
    if name in NAMES:
        return NAMES[name]
    found = _found(name)
    if found is not None:
        full = _full(*found)
        return f"readers are classes: {full}(...).next_epoch(batch_size)" if found[0] == "readers" else f"its name is {full}"
    if re.fullmatch("U?INT(8|16|32|64)", name):
        return f"use ndd.{name.lower()}"
    return f"use asyncdali.types.{name}" if name.isupper() and hasattr(_types, name) else None


def missing_name(path: str, name: str, old: Mapping[str, str]) -> str:
    """The end of the error for a name that the module `path` lacks. `old`: names of operators by their deprecated names."""
    hint = hint_for_name(name) or (f"its name is ndd.{old[name]}" if name in old else None)
    return f": {hint}" if hint else near(name, sorted(names().get(path, ())))


def missing_attribute(owner: object, name: str, table: Mapping[str, str], functions: bool = False) -> NoReturn:
    """AttributeError for an attribute that an object lacks. `functions`: what is no method may be a function of dynamic mode."""
    hint = table.get(name)
    if hint is None and functions and not name.startswith("_"):
        places = [path for path in _VALUE_PLACES if name in names().get(path, ())]
        hint = f"use {_full(places[0], name)}(value)" if places else None
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{f': {hint}' if hint else ''}", name=name, obj=owner)


def argument_hint(name: str, known: Iterable[str]) -> str:
    """The end of the error for an argument that an operator lacks."""
    known = list(known)
    if name in GRAPHS_ONLY:
        return " Leave it out: it is an argument of graphs."
    found = next((item for item in ARGUMENTS.get(name, ()) if item in known), None)
    return f" Did you mean {found!r}?" if found else near(name, known)


def named_arguments(required: Iterable[str], known: Iterable[str]) -> str:
    """The end of the error for values without a name: the names of the most important arguments."""
    names = list(dict.fromkeys([*required, *(name for name in _MAIN if name in known), *known]))
    return f". Arguments have names: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""


def spelled(missing: str = "", **hints: str) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Make a function name the right spelling where an argument is wrong (`hints`, by argument), or where one is missing."""

    def decorate(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        required = function.__code__.co_argcount - len(function.__defaults__ or ())

        @functools.wraps(function)
        def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
            for name in kwargs:
                if name in hints:
                    raise TypeError(f"{function.__qualname__}() has no argument {name!r}: {hints[name]}")
            if missing and len(args) + len(kwargs) < required:
                raise TypeError(f"{function.__qualname__}() needs more arguments: {missing}")
            return function(*args, **kwargs)

        return checked

    return decorate
