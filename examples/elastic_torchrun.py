"""Train on a changing number of processes. The global batches stay the same, whichever process dies and however many continue.

    torchrun --nproc-per-node=3 --max-restarts=1 examples/elastic_torchrun.py --folder run --steps 8 --die-at 5
    torchrun --nproc-per-node=2 examples/elastic_torchrun.py --folder run --steps 14       # continues with two processes
    python examples/elastic_torchrun.py --folder alone --steps 14
    diff run/stream.txt alone/stream.txt

A line of stream.txt has the digest of a global batch: file numbers, draws and pixels, in order.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import asyncdali
from asyncdali import fn, pipeline_def
from asyncdali.fleet import LastBatchPolicy, loader

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"


@pipeline_def(batch_size=12, num_threads=1, seed=5)
def pictures() -> Any:
    jpegs, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True, name="pictures")
    draws = fn.random.uniform(range=[0.5, 1.5])
    images = fn.resize(fn.decoders.image(jpegs), size=[24, 24])
    return fn.brightness(images, brightness=draws), draws, labels


def sample_digests(batch: tuple[Any, ...]) -> list[bytes]:
    """A digest of each sample of this rank."""
    return [hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in sample)).digest() for sample in zip(*batch)]


def gathered(value: list[Any]) -> list[Any]:
    """The lists of all ranks, one after another."""
    if not dist.is_initialized():
        return value
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, value)
    return [item for part in parts for item in part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="elastic", type=Path, help="stream.txt and the checkpoint are written here")
    parser.add_argument("--steps", default=14, type=int)
    parser.add_argument("--engines", default=0, type=int, help="engines of each rank")
    parser.add_argument("--die-at", type=int, help="the last rank dies before this step, once")
    options = parser.parse_args()

    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    first_try = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if ranks > 1:
        # Ranks of an earlier attempt have left their addresses in the launcher's store.
        launcher = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        store = dist.PrefixStore(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}", launcher)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    options.folder.mkdir(parents=True, exist_ok=True)
    saved, stream = options.folder / "checkpoint.pt", options.folder / "stream.txt"
    model = nn.Linear(24 * 24 * 3, 8)
    step, position = 0, None
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        step, position = state["step"], state["position"].encode()
    if rank == 0:  # lines of steps that were lost are written again
        kept = stream.read_text().splitlines(keepends=True)[:step] if stream.exists() else []
        stream.write_text("".join(kept))

    trained = nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-3)
    with loader(
        pictures, rank=rank, world_size=ranks, engines=options.engines, checkpoint=position, last_batch_policy=LastBatchPolicy.PARTIAL
    ) as batches:
        while step < options.steps:
            for images, draws, labels in batches:
                if step == options.die_at and first_try and rank == ranks - 1:
                    os._exit(1)  # as if the machine had gone down
                pixels = np.array([np.asarray(image) for image in images], np.float32).reshape(-1, 24 * 24 * 3)
                target = np.array([np.asarray(label) for label in labels], np.int64).reshape(-1)
                scores = trained(torch.from_numpy(pixels / 255))
                loss = nn.functional.cross_entropy(scores, torch.from_numpy(target), reduction="sum")  # a rank may have no sample
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                digests = gathered(sample_digests((images, draws, labels)))
                position = batches.checkpoint()  # equal on all ranks
                if rank == 0:
                    with stream.open("a") as file:
                        print(len(digests), hashlib.sha256(b"".join(digests)).hexdigest(), file=file)
                    torch.save({"model": model.state_dict(), "step": step, "position": position.decode()}, saved.with_suffix(".new"))
                    os.replace(saved.with_suffix(".new"), saved)
                if step == options.steps:
                    break
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
        os._exit(0)  # While Python ends, threads of torch can abort the process: "terminate called without an active exception".


if __name__ == "__main__":
    main()
