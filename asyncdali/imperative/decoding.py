"""Files and encoded data: paths as inputs, `imread`, and functions that decode a list of ``bytes``.

The functions for lists need no reader and no pipeline: they fit ``collate_fn`` of a torch DataLoader and similar places of other loaders.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..operators.base import REGISTRY
from .calls import OperatorFunction, call
from .conversion import make_batch
from .devices import Device
from .functions import make_function
from .functions import signature as signature_of
from .rng import RNG
from .values import Batch, DynamicValue, Tensor
from .work import without_frames

Encoded = bytes | bytearray | memoryview | np.ndarray
"""One encoded picture, sound or film."""


@functools.cache
def _function(name: str) -> OperatorFunction:
    return OperatorFunction(REGISTRY[name].schema)


def path_input(given: object) -> DynamicValue | np.ndarray:
    """Paths as input of `io.file.read`: a str, bytes or Path is a Tensor, a list or tuple of them a Batch; encoded paths stay as they are.

    TypeError for anything else.
    """
    if isinstance(given, (str, bytes, os.PathLike)):
        return np.frombuffer(os.fsencode(given), np.uint8)
    if isinstance(given, (list, tuple)):
        if not given:
            return _nothing()
        if all(isinstance(item, (str, bytes, os.PathLike)) for item in given):
            return make_batch([np.frombuffer(os.fsencode(item), np.uint8) for item in given], None, None, None)
        if all(_is_encoded(item) for item in given):
            return make_batch(given, None, None, None)
    elif _is_encoded(given) or isinstance(given, Batch):
        return given  # type: ignore[return-value]
    shown = type(given).__name__
    raise TypeError(f"a path is a str, a Path, bytes, a list of these, or a Tensor or Batch of encoded paths, got {shown}: {given!r:.80}")


def _nothing() -> Batch:
    """A batch of no encoded data."""
    return make_batch(np.empty((0, 0), np.uint8), None, None, None)


def _is_encoded(item: object) -> bool:
    return isinstance(item, (Tensor, np.ndarray)) or hasattr(item, "__dlpack__")


@without_frames
def file_read(filepaths: object, /, *, batch_size: int | None = None, device: object = None, **arguments: object) -> Any:
    """The contents of files: uint8 data. See ``fn.io.file.read``.

    Args:
        filepaths: a str or Path; a list or tuple of them (the result is a Batch); a Tensor or Batch of encoded paths.
        batch_size: number of samples; the result is a Batch even if no input is one.
        device: "cpu".
        arguments: those of the operator.

    Raises:
        TypeError: an object that is no path.
        FileNotFoundError, OSError: a file that cannot be read. The text has its path.
    """
    return call(_function("io.file.read"), [path_input(filepaths)], batch_size, device, arguments)


@without_frames
def imread(filepaths: object, /, *, device: str | Device = "cpu", **arguments: object) -> Any:
    """Read and decode a picture (a Tensor HWC, RGB, uint8), or a list of pictures (a Batch).

    Args:
        filepaths: a str or Path; a list or tuple of them; a Tensor or Batch of encoded paths.
        device: "cpu" or "gpu".
        arguments: those of `decoders.image`, for example ``output_type=types.GRAY``.

    Raises:
        TypeError: an object that is no path, or an argument that does not exist.
        FileNotFoundError, OSError: a file that cannot be read. The text has its path.
        RuntimeError: a file that is no picture.
    """
    return call(_function("decoders.image"), [file_read(filepaths)], None, device, dict(arguments))


# ------------------------------------------------------------------------------------------------------------ lists of bytes


def _encoded_batch(encoded: Iterable[Encoded], what: str) -> Batch:
    """A list of encoded data as a Batch. TypeError for anything else."""
    if isinstance(encoded, Batch):
        return encoded
    if isinstance(encoded, (str, bytes, bytearray, dict, np.ndarray, Tensor)):
        raise TypeError(f"{what} takes a list of bytes, one for each sample, got {type(encoded).__name__}")
    items = []
    for k, item in enumerate(encoded):
        if isinstance(item, (bytes, bytearray, memoryview)):
            items.append(np.frombuffer(item, np.uint8))
        elif isinstance(item, str) or not (isinstance(item, (np.ndarray, Tensor)) or hasattr(item, "__array__")):
            raise TypeError(f"{what}: sample {k} is a {type(item).__name__}; expected bytes, or an array of uint8")
        else:
            items.append(np.asarray(item))
        if items[-1].dtype != np.uint8 or items[-1].ndim != 1:
            raise TypeError(f"{what}: sample {k} has {items[-1].dtype} data of shape {items[-1].shape}; expected bytes, or uint8 [n]")
    return make_batch(items, None, None, None) if items else _nothing()


@without_frames
def decode_batch(
    encoded: Iterable[Encoded], *, device: str | Device = "cpu", crop: int | tuple[int, int] | None = None, **arguments: object
) -> Batch:
    """Decode a list of pictures (JPEG, PNG, ... as ``bytes``) to a Batch of layout HWC.

    A function by itself: it needs no reader and no pipeline, so any loader can call it, for example in ``collate_fn``::

        pictures = ndd.decode_batch([row["jpg"] for row in rows], crop=(224, 224)).torch()

    Args:
        encoded: one object with the buffer protocol for each picture.
        device: "cpu" or "gpu".
        crop: height and width (one number: both) of a window; the rest of a picture is not decoded where the format allows it.
        arguments: those of `decoders.image` (`output_type`, `dtype`, ...), or of `decoders.image_crop` with `crop` (`crop_pos_x`, ...).

    Raises:
        TypeError: something else than a list of bytes, or an argument that does not exist.
        RuntimeError: data that is no picture. The text has the number of the sample.
    """
    given = _encoded_batch(encoded, "decode_batch")
    if crop is None:
        found: Batch = call(_function("decoders.image"), [given], None, device, arguments)
    else:
        window = [crop, crop] if isinstance(crop, int) else list(crop)
        found = call(_function("decoders.image_crop"), [given], None, device, {**arguments, "crop": window})
    return found


@without_frames
def decode_random_crop_batch(
    encoded: Iterable[Encoded], *, size: int | tuple[int, int] | None = None, device: str | Device = "cpu", rng: RNG | None = None,
    **arguments: object,
) -> Batch:  # fmt: skip
    """Decode a random window of each picture, and scale the windows to `size` if it is given. Only the windows are decoded.

    Args:
        encoded: as :func:`decode_batch`.
        size: height and width (one number: both) that each window is scaled to.
        device: "cpu" or "gpu".
        rng: the generator; by default that of the thread.
        arguments: those of `decoders.image_random_crop` (`random_area`, `random_aspect_ratio`, `output_type`, ...).
    """
    given = _encoded_batch(encoded, "decode_random_crop_batch")
    found: Batch = call(_function("decoders.image_random_crop"), [given], None, device, arguments, rng)
    if size is not None:
        found = call(_function("resize"), [found], None, None, {"size": [size, size] if isinstance(size, int) else list(size)})
    return found


@without_frames
def decode_audio_batch(encoded: Iterable[Encoded], *, device: str | Device = "cpu", **arguments: object) -> tuple[Batch, Batch]:
    """Decode a list of sounds (WAV, FLAC, OGG, ... as ``bytes``): samples (float32), and their rates.

    `arguments`: those of `decoders.audio` (`sample_rate`, `downmix`, `dtype`, ...).
    """
    given = _encoded_batch(encoded, "decode_audio_batch")
    found: tuple[Batch, Batch] = call(_function("decoders.audio"), [given], None, device, arguments)
    return found


@without_frames
def decode_video_batch(encoded: Iterable[Encoded], *, device: str | Device = "cpu", **arguments: object) -> Batch:
    """Decode a list of films (MP4, ... as ``bytes``) to a Batch of layout FHWC.

    `arguments`: those of `decoders.video` (`sequence_length`, `start_frame`, `stride`, ...).
    """
    found: Batch = call(_function("decoders.video"), [_encoded_batch(encoded, "decode_video_batch")], None, device, arguments)
    return found


@without_frames
def decode_numpy_batch(encoded: Iterable[Encoded], **arguments: object) -> Batch:
    """The arrays of a list of ``.npy`` files as ``bytes``. `arguments`: those of `decoders.numpy`."""
    found: Batch = call(_function("decoders.numpy"), [_encoded_batch(encoded, "decode_numpy_batch")], None, None, arguments)
    return found


@without_frames
def peek_batch(encoded: Iterable[Encoded], **arguments: object) -> Batch:
    """The shapes of a list of pictures as ``bytes``, without decoding. `arguments`: those of `peek_image_shape`."""
    found: Batch = call(_function("peek_image_shape"), [_encoded_batch(encoded, "peek_batch")], None, None, arguments)
    return found


# ------------------------------------------------------------------------------------------------------------ modules

TWINS = {
    **{f"experimental.decoders.{name}": f"decoders.{name}" for name in ("image", "image_crop", "image_random_crop", "image_slice")},
    "experimental.peek_image_shape": "peek_image_shape",
}
"""Second names of operators, each a function of its own."""


def decoding_makers() -> dict[str, Callable[[str], object]]:
    """Functions that make `imread`, `io.file.read`, the functions for lists and the second names of decoders, given the module."""
    lists = (decode_batch, decode_random_crop_batch, decode_audio_batch, decode_video_batch, decode_numpy_batch, peek_batch)
    return {
        **{twin: functools.partial(_twin, twin) for twin in TWINS},
        **{function.__name__: functools.partial(_placed, function) for function in lists},
        "imread": _imread,
        "io.file.read": _file_read,
    }


def _twin(twin: str, module: str) -> Callable[..., object]:
    made = make_function(REGISTRY[TWINS[twin]].schema, module)
    if twin.endswith(".image_slice"):
        made.__signature__ = _renamed(made.__signature__, ("input_0", "input_1", "input_2"))  # type: ignore[attr-defined]
    return made


def _placed(function: Callable[..., object], module: str) -> Callable[..., object]:
    """A function of this file as one of `module`."""
    function.__module__ = module
    return function


def _file_read(module: str) -> Callable[..., object]:
    function = _function("io.file.read")
    file_read.__signature__, file_read.schema = signature_of(function), function.schema  # type: ignore[attr-defined]
    file_read.__name__ = file_read.__qualname__ = "read"
    return _placed(file_read, module)


def _imread(module: str) -> Callable[..., object]:
    kinds = inspect.Parameter
    own = [kinds("filepaths", kinds.POSITIONAL_ONLY), kinds("device", kinds.KEYWORD_ONLY, default="cpu")]
    decoder = signature_of(_function("decoders.image"))
    others = [item for name, item in decoder.parameters.items() if name not in ("input", "batch_size", "device")]
    imread.__signature__ = inspect.Signature([*own, *others])  # type: ignore[attr-defined]
    return _placed(imread, module)


def _renamed(signature: inspect.Signature, names: Sequence[str]) -> inspect.Signature:
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=[*(item.replace(name=name) for item, name in zip(parameters, names, strict=False)),
                                         *parameters[len(names) :]])  # fmt: skip
