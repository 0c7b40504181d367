"""Train with one process per GPU, and measure each. Without GPUs the same program runs on the CPU.

    torchrun --nproc-per-node=2 examples/several_gpus.py --steps 50
    torchrun --nproc-per-node=2 examples/several_gpus.py --steps 50 --photos /data/train --dali    # also compares the order with DALI's

Each process reads its own shard. It prints its pictures per second (the first steps do not count), its processor time, memory and pinned
memory, and a digest of the order of its files.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import asyncdali
from asyncdali.plugin.pytorch import DALIGenericIterator

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"
WARM_UP = 5
SIDE = 64


def files_of(lib: Any, options: argparse.Namespace, rank: int, ranks: int) -> tuple[Any, Any]:
    """The reader of a shard: encoded files, and their numbers."""
    paths = sorted(str(path) for path in options.photos.rglob("*.jp*g"))
    encoded, numbers = lib.fn.readers.file(
        files=paths, labels=list(range(len(paths))), random_shuffle=True, seed=7, shard_id=rank, num_shards=ranks, name="reader",
    )  # fmt: skip
    return encoded, numbers


def training(options: argparse.Namespace, rank: int, ranks: int, device: int | None) -> Any:
    """The pipeline of a process."""
    fn, types = asyncdali.fn, asyncdali.types
    pipe = asyncdali.Pipeline(options.batch, options.threads, device, prefetch_queue_depth=options.depth)
    with pipe:
        encoded, numbers = files_of(asyncdali, options, rank, ranks)
        images = fn.decoders.image_random_crop(encoded, device="mixed", seed=11 + rank, random_area=[0.5, 1.0])
        images = fn.resize(images, size=[SIDE, SIDE])
        images = fn.crop_mirror_normalize(images, mean=[128.0] * 3, std=[64.0] * 3, dtype=types.FLOAT, output_layout="CHW")
        pipe.set_outputs(images, numbers)
    return pipe


def network() -> nn.Module:
    """A small network, so that the data matters."""
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(32, 8))  # fmt: skip


def dalis_order(options: argparse.Namespace, rank: int, ranks: int) -> list[int]:
    """The numbers of the files that DALI reads in the same steps."""
    dali: Any = importlib.import_module("nvidia.dali")
    importlib.import_module("nvidia.dali.fn")  # needed by files_of

    pipe = dali.Pipeline(options.batch, 1, None)
    with pipe:
        pipe.set_outputs(*files_of(dali, options, rank, ranks))
    pipe.build()
    return [int(number) for _ in range(options.steps) for number in np.asarray(pipe.run()[1].as_array()).ravel()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, default=PICTURES, help="a folder with JPEGs in any depth")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--dali", action="store_true", help="compare the order of the files with DALI's")
    options = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    gpu = int(os.environ.get("LOCAL_RANK", "0")) if torch.cuda.is_available() else None
    where = torch.device("cpu" if gpu is None else f"cuda:{gpu}")
    if gpu is None:
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(gpu)
    if ranks > 1:
        dist.init_process_group("gloo" if gpu is None else "nccl")
    torch.manual_seed(1)
    model: nn.Module = network().to(where)
    if ranks > 1:
        model = DistributedDataParallel(model, device_ids=None if gpu is None else [gpu])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pipe = training(options, rank, ranks, gpu)
    loader = DALIGenericIterator(pipe, ["images", "numbers"])  # without an end: every process makes the same number of steps
    order: list[int] = []
    began = used = 0.0
    for step in range(options.steps):
        if step == WARM_UP:
            began, used = time.perf_counter(), time.process_time()
        batch = next(loader)[0]
        numbers = batch["numbers"].view(-1)
        loss = nn.functional.cross_entropy(model(batch["images"]), (numbers % 8).long().to(where))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        order += numbers.tolist()
    if gpu is not None:
        torch.cuda.synchronize()
    took, used = time.perf_counter() - began, time.process_time() - used
    rate = options.batch * (options.steps - WARM_UP) / took
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    pinned = pipe.statistics().buffers.allocated_bytes / 1e6
    digest = hashlib.sha256(np.array(order, np.int64).tobytes()).hexdigest()[:16]
    same = "" if not options.dali else f", order {'equal to' if dalis_order(options, rank, ranks) == order else 'NOT that of'} DALI"
    sys.stdout.write(  # one call: the lines of two processes must not mix, and print() writes the end of a line apart
        f"rank {rank} of {ranks} on {where}: {rate:.0f} pictures/s, {used / took:.1f} processors, {memory:.0f} MB, {pinned:.0f} of them "
        f"in batches on the host, order {digest}{same}\n"
    )
    sys.stdout.flush()
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
