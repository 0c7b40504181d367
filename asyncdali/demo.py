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
from typing import TYPE_CHECKING, Any

import numpy as np

from .messages.status_line import StatusLine
from .system.processes import python_command

if TYPE_CHECKING:
    from .data_node import DataNode

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
    def training() -> tuple[DataNode, DataNode]:
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
    _make_folder(options.output)
    folder = _pictures(options.data)
    print("asyncdali demo: a training job is killed in the middle of an epoch, and resumes with the same batches, bit for bit")
    print(f"pictures: {folder}")
    print("pipeline: read JPEG files in random order, decode a random crop, resize to 224 x 224, mirror half of them, normalize")
    print(f"1. reference: a run without interruption, {options.batches} batches of {BATCH} pictures")
    reference = _reference(folder, options)
    path = os.path.join(options.output, "demo.cpt")
    print(f"2. the same job in another process: it saves a checkpoint after batch {options.batches} and kills itself (SIGKILL)")
    if not _killed_run(options, path):
        return 1
    print(f"3. a new process restores the checkpoint and computes the next {AFTER} batches")
    resumed = _resume(options, path)
    if resumed != reference:
        print("FAILED: the resumed run differs from the reference")
        return 1
    print(f"   resumed in a new process: the next {AFTER} batches equal the uninterrupted run, bit for bit")
    where = os.path.abspath(options.output)
    print(f"kept in {where}: contact_sheet.png (originals beside results) and demo.cpt (the checkpoint); remove the folder when you like")
    _next_steps()
    return 0


def _next_steps() -> None:
    print("next:")
    print("    asyncdali new classification     # a small, typed, tested project with your own pipeline")
    print("    asyncdali bench FILE.py:NAME     # the rate of a pipeline, its bottleneck, and what to change")
    print("    asyncdali skill                  # how to write, port, debug and tune a pipeline, on one page")
    if pages := _pages():
        print(f"documentation: {pages}")


def _pages() -> str | None:
    """Where the documentation is, as the installed package says."""
    from importlib import metadata

    try:
        places = metadata.metadata("asyncdali").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # the sources, without an installation
        return None
    return next((place.partition(", ")[2] for place in places if place.startswith("Documentation, ")), None)


def _make_folder(path: str) -> None:
    """Make the folder. A new folder is ignored by git: the demo is often run in a repository of the user."""
    if os.path.isdir(path):
        return
    os.makedirs(path)
    with open(os.path.join(path, ".gitignore"), "w", encoding="utf-8") as file:
        file.write("*\n")


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
    print(f"   built and first batch after {time.perf_counter() - start:.2f} s; an epoch has {pipeline.epoch_size('reader')} pictures")
    files = [os.path.join(folder, first[0][k].source_info()) for k in range(BATCH)]
    _contact_sheet(_pixels(first[0].as_array()), files, os.path.join(options.output, "contact_sheet.png"))
    pipeline.run()
    pipeline.run()  # computed while the sheet was drawn
    line = StatusLine(sys.stdout)
    start = time.perf_counter()
    for number in range(4, options.batches + 1):
        pipeline.run()
        text = _progress(number, options.batches, (number - 3) * BATCH / (time.perf_counter() - start))
        (line.draw if number < options.batches else line.end)(text)
    digests = [_digest(pipeline.run()) for _ in range(AFTER)]
    pipeline.close()
    return digests


def _pixels(images: np.ndarray) -> np.ndarray:
    """The normalized batch float32[N, 3, H, W] as uint8[N, H, W, 3]."""
    pixels = images.transpose(0, 2, 3, 1) * np.array(STD, np.float32) + np.array(MEAN, np.float32)
    found: np.ndarray = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    return found


def _progress(done: int, total: int, rate: float) -> str:
    return f"   [{'#' * (30 * done // total):.<30}] {done}/{total} batches  {rate:,.0f} pictures/s"


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
    print(f"   the checkpoint has {os.path.getsize(path)} bytes; the process was killed with batches in flight")
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


# ----------------------------------------------------------------------------------------------------------------- the contact sheet

_PAIRS = 12
_COLUMNS = 4
_SIDE = 112
_ORIGINAL = 150
_GAP = 10
_TEXT = 16
_PLAIN = 20.0
"""A crop whose pixels have a smaller standard deviation is nearly of one colour, and shows nothing."""


def _shown(results: np.ndarray, number: int) -> list[int]:
    """Indices of the first `number` results with something in them; if they are too few, also of those with the most."""
    contrast = results.reshape(len(results), -1, 3).std(axis=1).max(axis=1)
    order = sorted(range(len(results)), key=lambda k: (contrast[k] < _PLAIN, 0 if contrast[k] >= _PLAIN else -contrast[k], k))
    return sorted(order[:number])


def _contact_sheet(results: np.ndarray, files: list[str], path: str) -> None:
    """A PNG with originals (`files`) beside results (uint8[N, H, W, 3]), each with a caption."""
    from PIL import Image, ImageDraw, ImageFont

    chosen = _shown(results, _PAIRS)
    width, height = _ORIGINAL + _SIDE + 5, _SIDE + _TEXT + 4
    rows = -(-len(chosen) // _COLUMNS)
    size = (_COLUMNS * (width + _GAP) + _GAP, rows * (height + _GAP) + _GAP + 2 * _TEXT)
    sheet = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(12)
    said = f"{len(chosen)} of the {len(results)} pictures of the first batch. Left: the file. Right: what training gets, "
    draw.text((_GAP, _GAP - 3), said + "a random crop, resized to 224 x 224, perhaps mirrored.", "black", font)
    for number, k in enumerate(chosen):
        x = _GAP + number % _COLUMNS * (width + _GAP)
        y = 2 * _TEXT + _GAP + number // _COLUMNS * (height + _GAP)
        with Image.open(files[k]) as original:
            caption = f"{os.path.basename(os.path.dirname(files[k]))}/{os.path.basename(files[k])}, {original.width} x {original.height}"
            original.thumbnail((_ORIGINAL, _SIDE))
            sheet.paste(original.convert("RGB"), (x, y + _SIDE - original.height))
        sheet.paste(Image.fromarray(results[k]).resize((_SIDE, _SIDE)), (x + _ORIGINAL + 5, y))
        for left, room, text in ((x, _ORIGINAL, caption), (x + _ORIGINAL + 5, _SIDE, "crop")):
            draw.text((left, y + _SIDE + 2), _cut(text, room, font), "black", font)
    sheet.save(path)


def _cut(text: str, width: int, font: Any) -> str:
    """The text, with its beginning left out if it is wider than `width` pixels."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"...{text}") > width:
        text = text[1:]
    return f"...{text}"
