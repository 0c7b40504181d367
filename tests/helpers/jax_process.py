"""One of several jax processes that share a global array: ``python jax_process.py COORDINATOR PROCESSES ID FILE``, two devices each.

Files are numbered. This process writes to FILE, as JSON, its part of each global batch, and the result that all processes compute of it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

COUNT = 22
BATCH = 8


def main(coordinator: str, processes: int, own: int, path: str) -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    import jax

    jax.distributed.initialize(coordinator_address=coordinator, num_processes=processes, process_id=own)
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from asyncdali import fn
    from asyncdali.plugin.jax import data_iterator

    files = [f"{path}.{k}" for k in range(COUNT)]
    for name in files:
        Path(name).write_bytes(b"x")
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("batch",)), PartitionSpec("batch"))

    @data_iterator(output_map=["label"], reader_name="reader", sharding=sharding)
    def numbered(shard_id, num_shards):  # type: ignore[no-untyped-def]
        _, labels = fn.readers.file(files=files, labels=list(range(COUNT)), shard_id=shard_id, num_shards=num_shards, name="reader")
        return labels

    total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(sharding.mesh, PartitionSpec()))

    def seen(batch):  # type: ignore[no-untyped-def]
        array = batch["label"]
        mine = {str(shard.index[0].start or 0): np.asarray(shard.data).flatten().tolist() for shard in array.addressable_shards}
        return {"shape": array.shape, "mine": mine, "sum": int(total(array))}

    iterator = numbered(batch_size=BATCH, num_threads=1, enable_checkpointing=True)
    found = [seen(next(iterator))]
    saved = iterator.checkpoints()
    found += [seen(batch) for batch in iterator]
    again = [seen(batch) for batch in numbered(batch_size=BATCH, num_threads=1, checkpoints=saved)]
    Path(path).write_text(json.dumps({"found": found, "again": again, "length": len(iterator), "checkpoints": len(saved)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
