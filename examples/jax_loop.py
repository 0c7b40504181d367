"""A data-parallel JAX loop. Each device has a pipeline that reads its own shard and makes its part of the global arrays.

    XLA_FLAGS=--xla_force_host_platform_device_count=4 python examples/jax_loop.py      # four devices on any machine
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import asyncdali
from asyncdali import fn, types
from asyncdali.plugin.jax import data_iterator
from asyncdali.plugin.jax.fn import jax_function

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"
STEPS, SAVED_AT, CLASSES, SIZE = 40, 18, 8, 24

mesh = Mesh(np.array(jax.devices()), ("batch",))
split = NamedSharding(mesh, PartitionSpec("batch"))
whole = NamedSharding(mesh, PartitionSpec())


@jax_function
@jax.jit
def blended(images: jax.Array) -> jax.Array:
    """Mix each picture with its mirror image. Any JAX function can be an operator."""
    return 0.8 * images + 0.2 * images[:, :, ::-1]


@data_iterator(output_map=["images", "labels"], reader_name="pictures", auto_reset=True, sharding=split)
def pictures(shard_id: int, num_shards: int) -> Any:  # one pipeline per device
    jpegs, labels = fn.readers.file(
        file_root=str(PICTURES), random_shuffle=True, shard_id=shard_id, num_shards=num_shards, name="pictures"
    )
    images = fn.resize(fn.decoders.image(jpegs), size=[SIZE, SIZE])
    images = fn.crop_mirror_normalize(images, mean=[128.0] * 3, std=[64.0] * 3, output_layout="HWC", dtype=types.FLOAT)
    return blended(images), fn.squeeze(labels, axes=[0])


@jax.jit
def step(weights: Any, images: jax.Array, labels: jax.Array) -> Any:
    def loss_of(weights: Any) -> Any:
        logits = images.reshape(len(images), -1) @ weights["w"] + weights["b"]
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels])

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return loss, jax.tree.map(lambda value, slope: value - 0.01 * slope, weights, gradient)


def main() -> None:
    options = {"batch_size": 16, "num_threads": 2, "seed": 3, "enable_checkpointing": True}
    batches = pictures(**options)
    weights = jax.device_put({"w": jnp.zeros((SIZE * SIZE * 3, CLASSES)), "b": jnp.zeros(CLASSES)}, whole)
    losses: list[float] = []
    checkpoints, kept = None, None
    while len(losses) < STEPS:
        for batch in batches:
            assert batch["images"].sharding == split
            loss, weights = step(weights, batch["images"], batch["labels"])
            losses.append(float(loss))
            if len(losses) == SAVED_AT:  # in the middle of an epoch
                checkpoints, kept = batches.checkpoints(), weights
            if len(losses) == STEPS:
                break
    print(f"{len(jax.devices())} devices, loss {losses[0]:.3f} -> {losses[-1]:.3f}")

    again = pictures(checkpoints=checkpoints, **options)
    for expected in losses[SAVED_AT : SAVED_AT + 2]:
        batch = next(again)
        loss, kept = step(kept, batch["images"], batch["labels"])
        assert float(loss) == expected, (float(loss), expected)
    print("restored in mid-epoch: the same losses")


if __name__ == "__main__":
    main()
