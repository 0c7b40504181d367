"""Transforms of your own from asyncdali's operators, by DALI's names: `Operator` with graph code, `adjust_input` for functions.

A subclass of `Operator` has `_kernel(data)`, which gets and returns a DataNode, as in a pipeline. Its pipeline is built at the first input
of a layout, and again in a forked process. A function under `adjust_input` gets and returns a Tensor or a Batch of dynamic mode.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from .. import dynamic as ndd
from .. import fn, types
from ..pipeline import Pipeline
from . import draws
from .kinds import PIXELS, InputKind, Leaf, described, kind_of, picture_like, raw, wrapped
from .transform import Params, Transform


class ArgumentValidateRule:
    """A check of arguments of a constructor."""

    @classmethod
    def verify(cls, **values: object) -> None:
        """Raise an error if the arguments are wrong; those that are not checked are ignored."""
        raise NotImplementedError


class DataValidateRule:
    """A check of data, or of what `preprocess_data` made of it."""

    @classmethod
    def verify(cls, data: object) -> None:
        """Raise an error if the data is wrong."""
        raise NotImplementedError


class Operator(Transform):
    """The base of transforms with graph code.

    Args:
        device: the device of the graph's input: "cpu" or "gpu".
        arguments: what `arg_rules` check.
    """

    random = True
    arg_rules: ClassVar[Sequence[type[ArgumentValidateRule]]] = ()
    input_rules: ClassVar[Sequence[type[DataValidateRule]]] = ()
    preprocess_data: ClassVar[Callable[[Any], Any] | None] = None
    """Graph code whose result `_kernel` gets, for example `get_HWC_from_layout_pipeline`."""

    @classmethod
    def verify_args(cls, **arguments: object) -> None:
        """Apply all rules of arguments."""
        for rule in cls.arg_rules:
            rule.verify(**arguments)

    @classmethod
    def verify_data(cls, data: object) -> None:
        """Apply all rules of data."""
        for rule in cls.input_rules:
            rule.verify(data)

    def __init__(self, device: str = "cpu", **arguments: object):
        super().__init__(device)
        self.verify_args(**arguments)
        self._pipelines: dict[object, Pipeline] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pipelines": {}}

    def _kernel(self, data_input: object) -> object:
        """The graph code."""
        raise NotImplementedError(f"{type(self).__name__} has no _kernel(data_input)")

    def _invoke(self, data_input: object) -> object:
        """The graph code behind preprocessing and checks."""
        preprocess = type(self).preprocess_data
        data = data_input if preprocess is None else preprocess(data_input)
        self.verify_data(data)
        return self._kernel(data)

    def _run(self, sample: np.ndarray, layout: str) -> tuple[np.ndarray, str]:
        key = (layout, sample.dtype, os.getpid())
        pipe = self._pipelines.get(key)
        if pipe is None:
            on_gpu = self.device != "cpu"
            seed = draws.integer(0, 2**31 - 1)
            pipe = Pipeline(batch_size=1, num_threads=1, device_id=0 if on_gpu else None, prefetch_queue_depth=1, seed=seed)
            with pipe:
                data = fn.external_source(name="data", layout=layout)
                pipe.set_outputs(self._invoke(data.gpu() if on_gpu else data))
            pipe.build()
            self._pipelines = {known: item for known, item in self._pipelines.items() if known[2] == key[2]}  # type: ignore[index]
            self._pipelines[key] = pipe
        pipe.feed_input("data", [sample])
        (made,) = pipe.run()
        host = made.as_cpu()
        return np.array(host.at(0)), host.layout()

    def transform(self, inpt: Leaf, params: Params) -> object:
        kind = kind_of(inpt)
        if kind is InputKind.PICTURE:
            pixels = np.array(inpt)
            made, layout = self._run(pixels if pixels.ndim == 3 else pixels[..., None], "HWC")
            return picture_like(_channels_first(torch.from_numpy(made), layout), inpt)
        if kind not in PIXELS:
            return inpt
        values = raw(inpt).contiguous()
        samples = values.reshape(-1, *values.shape[-3:]).cpu().numpy()
        results = []
        for sample in samples:
            made, layout = self._run(sample, "CHW")
            results.append(_channels_first(torch.from_numpy(made), layout))
        whole = torch.stack(results)
        return wrapped(whole.reshape(*values.shape[:-3], *whole.shape[1:]).to(values.device), inpt)


def _channels_first(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    return tensor.movedim(-1, -3).contiguous() if layout.endswith("HWC") else tensor


def get_HWC_from_layout_pipeline(data_input: Any) -> tuple[Any, Any, Any, Any]:
    """Height, width, channels and the data of a DataNode with the layout HWC or CHW."""
    shape = data_input.shape()
    last = fn.cast(fn.get_property(data_input, key="layout")[-1] == ord("C"), dtype=_INT64)
    first = 1 - last
    height = shape[-3] * last + shape[-2] * first
    width = shape[-2] * last + shape[-1] * first
    channels = shape[-1] * last + shape[-3] * first
    return height, width, channels, data_input


_INT64 = types.DALIDataType.INT64


def get_input_shape_dynamic(inpt: Any) -> tuple[int, ...]:
    """The shape of a Tensor, or of the samples of a Batch of equal shapes."""
    if isinstance(inpt, ndd.Tensor):
        return tuple(inpt.shape)
    shapes = {tuple(shape) for shape in inpt.shape}
    if len(shapes) != 1:
        raise ValueError(f"the samples have different shapes: {', '.join(map(str, sorted(shapes)))}")
    return shapes.pop()


def get_HWC_from_layout_dynamic(inpt: Any) -> tuple[int, int, int, Any]:
    """Height, width, channels and the data of a Tensor or Batch with the layout HWC or CHW."""
    shape = get_input_shape_dynamic(inpt)
    if len(shape) < 3:
        raise ValueError(f"expected height, width and channels, got shape {shape}")
    if (inpt.layout or "HWC").endswith("C"):
        return shape[-3], shape[-2], shape[-1], inpt
    return shape[-2], shape[-1], shape[-3], inpt


def adjust_input(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Tensors and Batches for PIL pictures and torch tensors. Its argument `device` says where it gets the data.

    A PIL picture becomes a Tensor HWC, a tensor [channels, height, width] a Tensor CHW, and a tensor of more dimensions a Batch CHW.
    """

    @functools.wraps(func)
    def call(inpt: Any, *given: object, device: str = "cpu", **arguments: Any) -> Any:
        kind = kind_of(inpt)
        if kind is InputKind.PICTURE:
            pixels = np.array(inpt)
            data = ndd.as_tensor(pixels if pixels.ndim == 3 else pixels[..., None], layout="HWC", device=device)
            made = func(data, *given, **arguments)
            return picture_like(_channels_first(torch.from_numpy(np.array(made.cpu())), made.layout or ""), inpt)
        if kind not in PIXELS or inpt.ndim < 3:
            raise TypeError(f"{func.__name__} takes PIL pictures and tensors of three or more dimensions, got {described(inpt)}")
        values = raw(inpt).cpu().contiguous()
        if values.ndim == 3:
            made = func(ndd.as_tensor(values.numpy(), layout="CHW", device=device), *given, **arguments)
            return wrapped(_channels_first(torch.from_numpy(np.array(made.cpu())), made.layout or "").to(inpt.device), inpt)
        samples = ndd.as_batch(values.reshape(-1, *values.shape[-3:]).numpy(), layout="CHW", device=device)
        made = func(samples, *given, **arguments)
        whole = torch.stack([_channels_first(torch.from_numpy(np.array(item.cpu())), made.layout or "") for item in made])
        return wrapped(whole.reshape(*values.shape[:-3], *whole.shape[1:]).to(inpt.device), inpt)

    return call
