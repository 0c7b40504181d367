"""Batches of pipelines as jax arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.dlpack
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from ...tensors.dlpack import CPU_DEVICE
from ...types import DALIDataType


def array_of(output: Any, name: str) -> np.ndarray | jax.Array:
    """An array [samples, ...] over the memory of a tensor list. Data on a GPU gives a jax array, on which jax's work waits; else numpy's.

    RuntimeError (with the output's name) if samples differ in shape.
    """
    if output.dtype is DALIDataType.NO_TYPE:
        return np.asarray(output.as_cpu())
    if not output.is_dense_tensor():
        shapes = sorted(set(output.shape()))
        raise RuntimeError(
            f"output {name!r}: samples of different shapes ({shapes[0]}, {shapes[1]}, ...) cannot be one array: crop or pad them"
        )
    tensor = output.as_tensor()
    if tensor.__dlpack_device__() == CPU_DEVICE:
        return np.from_dlpack(tensor)
    return jax.dlpack.from_dlpack(tensor) if gpu_of(tensor.device_id()) is not None else np.asarray(tensor.as_cpu())


def gpu_of(number: int) -> Any:
    """Jax's device for a GPU of this machine. None if jax has no such device."""
    return next((device for device in jax.local_devices() if device.platform == "gpu" and device.local_hardware_id == number), None)


def on_device(array: np.ndarray | jax.Array, device: object) -> jax.Array:
    """The array on a device (None: jax's default). On the CPU it is a view if the memory is aligned as XLA requires."""
    return jax.device_put(array, device)


def stacked(parts: Sequence[np.ndarray | jax.Array], devices: Sequence[object] | None) -> jax.Array:
    """An array [parts, samples, ...] for `jax.pmap`, each part on its device. Without devices all parts are on the default one."""
    if devices is None:
        return jnp.stack([on_device(part, None) for part in parts])
    sharding = NamedSharding(Mesh(np.array(devices), ("device",)), PartitionSpec("device"))
    shards = [on_device(part[None], device) for part, device in zip(parts, devices, strict=True)]
    return jax.make_array_from_single_device_arrays((len(parts), *parts[0].shape), sharding, shards)


def concatenated(parts: Sequence[np.ndarray | jax.Array], devices: Sequence[object]) -> jax.Array:
    """An array [parts x samples, ...], each part on its device."""
    sharding = NamedSharding(Mesh(np.array(devices), ("device",)), PartitionSpec("device"))
    shards = [on_device(part, device) for part, device in zip(parts, devices, strict=True)]
    return jax.make_array_from_single_device_arrays((sum(map(len, parts)), *parts[0].shape[1:]), sharding, shards)


def sharded(parts: Sequence[np.ndarray | jax.Array], sharding: Sharding) -> jax.Array:
    """A global array of the parts of all processes, concatenated along the first dimension.

    Each device gets its slice. A slice within one part is not copied.
    """
    if jax.process_count() > 1:
        return jax.make_array_from_process_local_data(sharding, parts[0] if len(parts) == 1 else np.concatenate(parts))
    starts = np.cumsum([0, *map(len, parts)])
    shape = (int(starts[-1]), *parts[0].shape[1:])

    def slice_of(index: Any) -> np.ndarray | jax.Array:
        first, *rest = index if index else (slice(None),)
        start, stop, _ = first.indices(shape[0])
        k = int(np.searchsorted(starts, start, side="right")) - 1
        if stop <= starts[k + 1]:
            rows = parts[k][start - starts[k] : stop - starts[k]]
        else:
            rows = np.concatenate(parts)[start:stop]
        return rows[(slice(None), *rest)]

    return jax.make_array_from_callback(shape, sharding, slice_of)
