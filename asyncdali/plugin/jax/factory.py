"""Decorators that turn graph functions into functions that return iterators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

import jax
from jax.sharding import Sharding

from ...pipeline import pipeline_def
from ...pipeline.front import core_of
from ..epochs import LastBatchPolicy
from .iterator import DALIGenericIterator, DALIGenericPeekableIterator

if TYPE_CHECKING:
    from ...pipeline.pipeline import Pipeline


@overload
def data_iterator(
    pipeline_fn: Callable[..., object],
    output_map: Sequence[str] | None = None,
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: str | bool | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Sharding | None = None,
    devices: Sequence[object] | None = None,
    pmap_compatible: bool | None = None,
) -> Callable[..., DALIGenericIterator]: ...
@overload
def data_iterator(
    pipeline_fn: None = None,
    output_map: Sequence[str] | None = None,
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: str | bool | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Sharding | None = None,
    devices: Sequence[object] | None = None,
    pmap_compatible: bool | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., DALIGenericIterator]]: ...
def data_iterator(
    pipeline_fn: Callable[..., object] | None = None,
    output_map: Sequence[str] | None = None,
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: str | bool | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Sharding | None = None,
    devices: Sequence[object] | None = None,
    pmap_compatible: bool | None = None,
) -> Any:
    """Turn a graph function into a function that returns a :class:`DALIGenericIterator` over its pipelines.

    The returned function takes the graph function's arguments, those of Pipeline, and `checkpoints`, which ``iterator.checkpoints()``
    returned. The default of `num_threads` is 4; the default of `device_id` is the number of jax's device.

    With `sharding` or `devices` there is one pipeline per (local) device, each with its part of `batch_size`. The graph function must then
    take `shard_id` and `num_shards`. Other arguments are the iterator's.

    Raises ValueError if both are given or the batch does not divide, TypeError if the graph function has no shards, RuntimeError for a
    wrong number of checkpoints.
    """
    return _made(DALIGenericIterator, pipeline_fn, sharding, devices, {
        "output_map": output_map, "size": size, "reader_name": reader_name, "auto_reset": auto_reset,
        "last_batch_padded": last_batch_padded, "last_batch_policy": last_batch_policy, "prepare_first_batch": prepare_first_batch,
        "pmap_compatible": pmap_compatible,
    })  # fmt: skip


@overload
def peekable_data_iterator(
    pipeline_fn: Callable[..., object],
    output_map: Sequence[str] | None = None,
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: str | bool | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Sharding | None = None,
    devices: Sequence[object] | None = None,
    pmap_compatible: bool | None = None,
) -> Callable[..., DALIGenericPeekableIterator]: ...
@overload
def peekable_data_iterator(
    pipeline_fn: None = None,
    output_map: Sequence[str] | None = None,
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: str | bool | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Sharding | None = None,
    devices: Sequence[object] | None = None,
    pmap_compatible: bool | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., DALIGenericPeekableIterator]]: ...
def peekable_data_iterator(
    pipeline_fn: Callable[..., object] | None = None,
    output_map: Sequence[str] | None = None,
    size: int = -1,
    reader_name: str | None = None,
    auto_reset: str | bool | None = False,
    last_batch_padded: bool = False,
    last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
    prepare_first_batch: bool = True,
    sharding: Sharding | None = None,
    devices: Sequence[object] | None = None,
    pmap_compatible: bool | None = None,
) -> Any:
    """As :func:`data_iterator`, for :class:`DALIGenericPeekableIterator`."""
    return _made(DALIGenericPeekableIterator, pipeline_fn, sharding, devices, {
        "output_map": output_map, "size": size, "reader_name": reader_name, "auto_reset": auto_reset,
        "last_batch_padded": last_batch_padded, "last_batch_policy": last_batch_policy, "prepare_first_batch": prepare_first_batch,
        "pmap_compatible": pmap_compatible,
    })  # fmt: skip


def _made(kind: Any, function: Callable[..., Any] | None, sharding: Any, devices: Any, arguments: dict[str, Any]) -> Any:
    if function is None:
        return lambda decorated: _made(kind, decorated, sharding, devices, arguments)
    if not callable(function):
        raise TypeError(f"a data iterator is made of a graph function, got {type(function).__name__}")
    if sharding is not None and devices is not None:
        raise ValueError("give `sharding` or `devices`, not both")
    graph: Callable[..., Any] = function

    @functools.wraps(graph)
    def create(*args: Any, checkpoints: Sequence[bytes] | None = None, **options: Any) -> Any:
        if sharding is None and devices is None:
            pipes = [_pipeline(graph, args, options, None)]
            places: dict[str, Any] = {}
        else:
            pipes = _pipelines(graph, args, options, sharding, devices)
            places = {"sharding": sharding} if devices is None else {"devices": devices}
        if checkpoints is not None:
            if len(checkpoints) != len(pipes):
                raise RuntimeError(
                    f"The number of checkpoints provided ({len(checkpoints)}) should match the number of devices to use ({len(pipes)})"
                )
            for pipe, data in zip(pipes, checkpoints, strict=True):
                chosen = core_of(pipe).options
                chosen.checkpoint, chosen.enable_checkpointing = data, True
        return kind(pipes, **arguments, **places)

    return create


def _pipeline(graph: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], device: Any, **more: Any) -> Pipeline:
    """A pipeline for a device (None: jax's default)."""
    device = jax.devices()[0] if device is None else device
    defaults = {"num_threads": 4, "device_id": device.local_hardware_id if device.platform in ("gpu", "cuda", "rocm") else None}
    return pipeline_def(graph)(*args, **{**defaults, **options, **more})


def _pipelines(graph: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], sharding: Any, devices: Any) -> list[Any]:
    """One pipeline per local device. Shards are numbered over all devices of all processes."""
    every = list(devices) if devices is not None else sorted(sharding.device_set, key=lambda device: device.id)
    local = [(k, device) for k, device in enumerate(every) if device.process_index == jax.process_index()]
    missing = {"shard_id", "num_shards"} - inspect.signature(graph).parameters.keys()
    if missing:
        raise TypeError(f"{graph.__name__} must take `shard_id` and `num_shards`: every device has a pipeline that reads its own shard")
    if "batch_size" not in options:
        raise TypeError("batch_size is missing: the number of samples over all devices")
    if options["batch_size"] % len(every):
        raise ValueError(f"batch_size={options['batch_size']} cannot be divided among {len(every)} devices")
    part = {**options, "batch_size": options["batch_size"] // len(every)}
    part.pop("device_id", None)
    return [_pipeline(graph, args, part, device, shard_id=k, num_shards=len(every)) for k, device in local]
