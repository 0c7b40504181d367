"""Train a small network on the CPU, on the pictures of the package. Interrupt and resume the training: the losses are the same.

    python examples/train_pytorch.py --folder run-a                        # 30 steps
    python examples/train_pytorch.py --folder run-b --interrupt-at 17      # as if the machine had failed
    python examples/train_pytorch.py --folder run-b                        # continues from the last saved step
    diff run-a/losses.txt run-b/losses.txt
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

import asyncdali
from asyncdali import fn, pipeline_def, types
from asyncdali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"


@pipeline_def(batch_size=12, num_threads=2, seed=5, enable_checkpointing=True)
def pictures() -> Any:
    jpegs, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True, name="pictures")
    images = fn.decoders.image_random_crop(jpegs, random_area=[0.5, 1.0])
    images = fn.resize(images, size=[48, 48])
    images = fn.crop_mirror_normalize(images, mean=[128.0] * 3, std=[64.0] * 3, mirror=fn.random.coin_flip())
    return {"images": images, "labels": fn.cast(fn.squeeze(labels, axes=[0]), dtype=types.INT64)}


def network() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 8), (8, 16), (16, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 6 * 6, 8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="train-pytorch", type=Path, help="losses.txt and the checkpoint are written here")
    parser.add_argument("--steps", default=30, type=int)
    parser.add_argument("--save-every", default=5, type=int)
    parser.add_argument("--interrupt-at", type=int, help="end the process at this step, without cleaning up")
    options = parser.parse_args()

    torch.set_num_threads(1)  # the pipeline has its own threads
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    options.folder.mkdir(parents=True, exist_ok=True)
    saved = options.folder / "checkpoint.pt"
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loader = DALIGenericIterator(pictures(), reader_name="pictures", auto_reset=True, last_batch_policy=LastBatchPolicy.PARTIAL)
    losses: list[float] = []
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        losses = state["losses"]
        print(f"resumed at step {len(losses)}")

    while len(losses) < options.steps:
        for [batch] in loader:  # one pipeline gives a list with one dict
            loss = nn.functional.cross_entropy(model(batch["images"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == options.interrupt_at:
                print(f"interrupted at step {len(losses)}", flush=True)
                os._exit(1)
            if len(losses) % options.save_every == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict(), "losses": losses}
                torch.save(state, saved.with_suffix(".new"))
                saved.with_suffix(".new").replace(saved)
            if len(losses) >= options.steps:
                break
    (options.folder / "losses.txt").write_text("".join(f"{value!r}\n" for value in losses))
    print(f"loss of the first step {losses[0]:.3f}, of the last {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
