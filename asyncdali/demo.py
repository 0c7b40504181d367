"""``asyncdali demo``: a training job from end to end.

Three processes run: a reference without interruption; one that saves a checkpoint and is killed in the middle of an epoch; one that resumes
from the file. The last one must deliver the same batches as the reference, bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np

from ._processes import python_command

BATCH = 28
"""Does not divide the 64 pictures: any number of batches below ends in the middle of an epoch, unless it is a multiple of 16."""
AFTER = 6
"""Number of batches that are compared after the resume."""
MEAN = [123.675, 116.28, 103.53]
STD = [58.395, 57.12, 57.375]


def training_pipeline(folder: str, threads: int, checkpoint: bytes | None = None) -> Any:
    """readers.file -> decoders.image_random_crop -> resize -> crop_mirror_normalize, as in a training job."""
    from . import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, seed=42, enable_checkpointing=True)
    def training() -> Any:
        jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
        images = fn.resize(images, size=[224, 224])
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=fn.random.coin_flip(probability=0.5)
        )
        return images, labels

    return training(checkpoint=checkpoint)


def demo(options: argparse.Namespace) -> int:
    """Run the demo (or, in a child, one phase of it). Returns the exit status."""
    if options.phase:
        return _child(options)
    os.makedirs(options.output, exist_ok=True)
    folder = _pictures(options.data)
    print(f"pictures: {folder}")
    reference = _reference(folder, options)
    path = os.path.join(options.output, "demo.cpt")
    if not _killed_run(options, path):
        return 1
    resumed = _resume(options, path)
    if resumed != reference:
        print("FAILED: the resumed run differs from the reference")
        return 1
    print(f"resumed in a new process: the next {AFTER} batches equal the uninterrupted run, bit for bit")
    print(f"contact sheet: {os.path.join(options.output, 'contact_sheet.png')}")
    return 0


def _pictures(given: str | None) -> str:
    if given:
        return given
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "pictures")


def _digest(batch: Any) -> str:
    images, labels = batch
    digest = hashlib.sha256(images.as_array().tobytes())
    digest.update(labels.as_array().tobytes())
    return digest.hexdigest()


def _reference(folder: str, options: argparse.Namespace) -> list[str]:
    """Run without interruption: progress, throughput, the contact sheet, and digests of the batches after the kill point."""
    pipeline = training_pipeline(folder, options.threads)
    start = time.perf_counter()
    pipeline.build()
    first = pipeline.run()
    print(f"built and first batch after {time.perf_counter() - start:.2f} s; epoch of {pipeline.epoch_size('reader')} pictures")
    _contact_sheet(first[0].as_array(), os.path.join(options.output, "contact_sheet.png"))
    pipeline.run()
    pipeline.run()  # computed while the sheet was drawn
    start = time.perf_counter()
    for number in range(4, options.batches + 1):
        pipeline.run()
        _progress(number, options.batches, (number - 3) * BATCH / (time.perf_counter() - start))
    digests = [_digest(pipeline.run()) for _ in range(AFTER)]
    pipeline.close()
    return digests


def _progress(done: int, total: int, rate: float) -> None:
    if done < total and not sys.stdout.isatty():
        return  # no animation in a log
    bar = "#" * (40 * done // total)
    print(f"\r[{bar:.<40}] {done}/{total} batches  {rate:,.0f} pictures/s", end="" if done < total else "\n", flush=True)


def _phase(options: argparse.Namespace, phase: str) -> list[str]:
    arguments = ["demo", "--phase", phase, "--output", options.output, "--batches", str(options.batches)]
    arguments += ["--threads", str(options.threads), *(["--data", options.data] if options.data else [])]
    return python_command("import sys; from asyncdali.__main__ import main; sys.exit(main())", *arguments)


def _killed_run(options: argparse.Namespace, path: str) -> bool:
    """A child saves a checkpoint and kills itself with batches in flight."""
    if os.path.exists(path):
        os.unlink(path)
    done = subprocess.run(_phase(options, "run"), check=False)
    if done.returncode != -signal.SIGKILL or not os.path.exists(path):
        print(f"FAILED: the run to be killed ended with status {done.returncode}")
        return False
    print(f"a second run saved {os.path.getsize(path)} bytes after batch {options.batches} and was killed in mid-epoch")
    return True


def _resume(options: argparse.Namespace, path: str) -> list[str]:
    done = subprocess.run(_phase(options, "resume"), capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr)
        return []
    lines: list[str] = json.loads(done.stdout.strip().splitlines()[-1])
    return lines


def _child(options: argparse.Namespace) -> int:
    folder, path = _pictures(options.data), os.path.join(options.output, "demo.cpt")
    if options.phase == "run":
        pipeline = training_pipeline(folder, options.threads)
        for _ in range(options.batches):
            pipeline.run()
        pipeline.checkpoint(path)
        pipeline.run()  # this work is lost with the process
        os.kill(os.getpid(), signal.SIGKILL)
    with open(path, "rb") as file:
        pipeline = training_pipeline(folder, options.threads, file.read())
    print(json.dumps([_digest(pipeline.run()) for _ in range(AFTER)]))
    pipeline.close()
    return 0


def _contact_sheet(images: np.ndarray, path: str, columns: int = 7) -> None:
    """A PNG of the normalized batch float32[N, 3, H, W], back in 0-255."""
    from PIL import Image

    mean, std = np.array(MEAN, np.float32), np.array(STD, np.float32)
    pictures = np.clip(images.transpose(0, 2, 3, 1) * std + mean, 0, 255).astype(np.uint8)
    pictures = pictures[:, ::2, ::2]
    rows = -(-len(pictures) // columns)
    h, w = pictures.shape[1:3]
    sheet = np.full((rows * (h + 4) + 4, columns * (w + 4) + 4, 3), 255, np.uint8)
    for k, picture in enumerate(pictures):
        y, x = 4 + k // columns * (h + 4), 4 + k % columns * (w + 4)
        sheet[y : y + h, x : x + w] = picture
    Image.fromarray(sheet).save(path)
