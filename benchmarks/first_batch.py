"""The first batch of a new process, with empty, filled and shipped kernels: processor and wall time, beside later batches.

    python -m benchmarks.first_batch [NAME ...] [--python PYTHON] [--spin 2] [--rounds 5] [--cache empty|kept|filled]

Each measurement is a new process of `--python` (default: this one), which may have another installation of asyncdali. It prints processor
seconds of itself and of the processes that compiled for it, from its start to the first batch, then the time of later batches. `--spin`
starts so many processes that use a whole processor each. `--cache`: `empty` uses a new folder of kernels each time, `filled` the same
folder after one run that is not counted, `kept` the user's folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .harness import Table, environment

PIPELINES = ("jpeg", "detection", "mel", "png", "progressive", "video", "numpy")
"""Pipelines of :data:`_CHILD`."""
ALL = (*PIPELINES, "decode", "tables", "filters", "colors", "arrays")
"""These, and pipelines of single operators."""
_COUNT = 64
_CHILD = r"""
import time
began = time.perf_counter()
import json, os, resource, sys
name, folder, library, batches = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
lib = __import__(library, fromlist=["pipeline_def"])
if library == "nvidia.dali":
    import nvidia.dali.fn, nvidia.dali.types
fn, types = lib.fn, lib.types
imported = time.perf_counter() - began
def used():
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
def normalized(images, layout="CHW"):
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout=layout, mean=MEAN, std=STD, mirror=fn.random.coin_flip())
def trained(files):
    images, labels = fn.readers.file(file_root=os.path.join(folder, files), random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(images, output_type=types.RGB)
    return normalized(fn.resize(images, size=[224, 224])), labels
@lib.pipeline_def(batch_size=32, num_threads=2, device_id=None, seed=7)
def graph():
    if name in ("jpeg", "png", "progressive"):
        return trained(name)
    if name == "detection":
        root = os.path.join(folder, "jpeg", "0")
        encoded, boxes, labels = fn.readers.coco(
            file_root=root, annotations_file=os.path.join(folder, "boxes.json"), ratio=True, ltrb=True, random_shuffle=True, name="reader")
        images = fn.decoders.image(encoded, output_type=types.RGB)
        anchor, shape, boxes, labels = fn.random_bbox_crop(
            boxes, labels, aspect_ratio=[0.5, 2.0], thresholds=[0, 0.1, 0.3, 0.5, 0.7, 0.9], scaling=[0.3, 1.0], bbox_layout="xyXY")
        images = fn.slice(images, anchor, shape, axis_names="WH", out_of_bounds_policy="trim_to_shape")
        images = fn.resize(images, size=[300, 300])
        images = fn.hsv(images, saturation=fn.random.uniform(range=(0.5, 1.5)), hue=fn.random.uniform(range=(-18.0, 18.0)))
        images = fn.brightness_contrast(images, brightness=fn.random.uniform(range=(0.8, 1.2)))
        flip = fn.random.coin_flip()
        boxes = fn.bb_flip(boxes, ltrb=True, horizontal=flip)
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=flip)
        return images, fn.pad(boxes), fn.pad(labels)
    if name == "mel":
        encoded, _ = fn.readers.file(file_root=os.path.join(folder, "mel"), random_shuffle=True, name="reader")
        sound, _ = fn.decoders.audio(encoded, dtype=types.FLOAT, downmix=True)
        sound = fn.preemphasis_filter(sound)
        spectrum = fn.spectrogram(sound, nfft=512, window_length=400, window_step=160)
        mel = fn.to_decibels(fn.mel_filter_bank(spectrum, sample_rate=16000.0, nfilter=80), multiplier=10.0, cutoff_db=-80.0)
        return fn.pad(fn.normalize(mel, axes=[1]))
    if name in ("decode", "tables", "filters", "colors"):
        encoded, _ = fn.readers.file(file_root=os.path.join(folder, "jpeg"), name="reader")
        images = fn.decoders.image(encoded, output_type=types.RGB)
        if name == "decode":
            return images
        if name == "tables":
            inverted = fn.lookup_table(images, keys=list(range(256)), values=list(range(255, -1, -1)), dtype=types.UINT8)
            changed = fn.brightness_contrast(fn.experimental.equalize(inverted), brightness=1.2, contrast=0.9)
            for _ in range(4):
                changed = fn.brightness(changed, brightness=0.98)
            return fn.experimental.equalize(changed)
        if name == "filters":
            blurred = fn.gaussian_blur(images, window_size=5)
            return fn.rotate(fn.warp_affine(blurred, matrix=[0.9, 0.1, 3, -0.1, 0.9, 8]), angle=20.0), fn.laplacian(images)
        changed = fn.color_twist(fn.hsv(images, hue=20.0, saturation=1.2), contrast=1.1)
        return fn.color_space_conversion(changed, image_type=types.RGB, output_type=types.YCbCr), fn.jitter(images)
    if name == "arrays":
        arrays = fn.readers.numpy(file_root=os.path.join(folder, "numpy"), file_filter="*.npy", name="reader")
        floats = fn.cast(arrays, dtype=types.FLOAT)
        moved = fn.transpose(fn.pad(fn.slice(floats, 4, 200, axes=[0])), perm=[2, 0, 1])
        return fn.normalize(moved), fn.reductions.sum(floats, axes=[0, 1]), fn.one_hot(fn.cast(arrays, dtype=types.INT32), num_classes=8)
    if name == "video":
        frames = fn.experimental.readers.video(
            filenames=[os.path.join(folder, "video.webm")], sequence_length=4, random_shuffle=True, name="reader")
        return normalized(fn.resize(frames, size=[112, 112]), "FCHW")
    arrays = fn.readers.numpy(file_root=os.path.join(folder, "numpy"), file_filter="*.npy", random_shuffle=True, name="reader")
    return normalized(fn.flip(arrays))
pipeline = graph()
pipeline.build()
pipeline.run()
wall, (own, helpers) = time.perf_counter() - began, used()
later = []
for _ in range(batches):
    at, before = time.perf_counter(), sum(used())
    pipeline.run()
    later.append((time.perf_counter() - at, sum(used()) - before))
found = {"imported": imported, "wall": wall, "own": own, "later": later}
if library == "asyncdali":
    count = pipeline.statistics()
    found |= {"compiled": count.kernels.compiled, "late": count.kernels.after_build}
    found |= {"numba": "numba" in sys.modules, "llvm": "llvmlite.binding" in sys.modules}
    found["statistics"] = str(count)
    del pipeline
    import asyncdali.runtime.compiling, time as t
    t.sleep(0.2)  # killed helpers are waited for
    found["helpers"] = used()[1]
else:
    found |= {"compiled": 0, "late": (), "numba": False, "llvm": False, "statistics": "", "helpers": helpers}
found["load"] = os.getloadavg()[0]
print(json.dumps(found))
"""


def make_files(folder: Path) -> None:
    """Write the files that all pipelines read, unless they are there."""
    if (folder / "complete").exists():
        return
    import wave

    from PIL import Image

    from .operator_inputs import photos, sound, video_file

    pictures, sounds = photos(), np.int16(sound() * 32767)
    for name in ("jpeg/0", "progressive/0", "png/0", "mel/0", "numpy"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    images, boxes = [], []
    for k in range(_COUNT):
        image = Image.fromarray(pictures[k % len(pictures)])
        image.save(folder / f"jpeg/0/{k:02}.jpg", quality=90)
        image.save(folder / f"progressive/0/{k:02}.jpg", quality=90, progressive=True)
        image.save(folder / f"png/0/{k:02}.png")
        np.save(folder / f"numpy/{k:02}.npy", pictures[k % len(pictures), :224, :224])
        with wave.open(str(folder / f"mel/0/{k:02}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(16000)
            file.writeframes(sounds[k % len(sounds)].tobytes())
        images.append({"id": k, "file_name": f"{k:02}.jpg", "width": image.width, "height": image.height})
        boxes += [{"id": 3 * k + n, "image_id": k, "category_id": n + 1, "bbox": [40 * n + 5, 30 * n + 5, 200, 150], "area": 30000,
                   "iscrowd": 0} for n in range(3)]  # fmt: skip
    categories = [{"id": n + 1, "name": str(n)} for n in range(3)]
    (folder / "boxes.json").write_text(json.dumps({"images": images, "annotations": boxes, "categories": categories}))
    (folder / "video.webm").write_bytes(Path(video_file()).read_bytes())
    (folder / "complete").touch()


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """So many processes use a processor each while the block runs."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def measure(python: str, name: str, folder: Path, cache: str | None, library: str = "asyncdali", batches: int = 6) -> dict[str, Any]:
    """One process. `cache`: its folder of kernels."""
    full = {**os.environ, "ASYNCDALI_DEVICE": "host", "ASYNCDALI_QUIET": "1"}
    full.pop("PYTHONDONTWRITEBYTECODE", None)  # users have the cache of compiled modules, too
    if cache is not None:
        full["NUMBA_CACHE_DIR"] = cache
    done = subprocess.run(
        [python, "-c", _CHILD, name, str(folder), library, str(batches)], capture_output=True, text=True, env=full, cwd=folder, check=False
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _row(found: list[dict[str, Any]]) -> list[Any]:
    middle = statistics.median
    last = [run["later"][len(run["later"]) // 2 :] for run in found]
    return [
        middle(run["own"] for run in found), middle(run["helpers"] for run in found), middle(run["wall"] for run in found),
        middle(run["later"][0][1] for run in found) * 1000, middle(cpu for run in last for _, cpu in run) * 1000,
        found[0]["compiled"], len(found[0]["late"]), "yes" if found[0]["numba"] else "no", "yes" if found[0]["llvm"] else "no",
        middle(run["load"] for run in found),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_batch", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ALL)} (default: the first {len(PIPELINES)})")
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose asyncdali is measured")
    parser.add_argument("--spin", type=int, default=0, help="processes beside it that use a processor each")
    parser.add_argument("--rounds", type=int, default=3, help="processes per row")
    parser.add_argument("--cache", choices=["empty", "kept", "filled"], default="empty", help="the folder of kernels")
    parser.add_argument("--library", default="asyncdali", help="asyncdali or nvidia.dali")
    parser.add_argument("--names-of-late", action="store_true", help="print the names of kernels that were compiled after build()")
    options = parser.parse_args()
    folder = Path(tempfile.gettempdir(), "asyncdali-bench-first-batch")
    make_files(folder)
    info = environment()
    print(f"{info['date']}  {info['cpu']}  {info['cores']} cores  load {info['load']:.2f}")
    table = Table(
        f"first batch, {options.library}, kernels: {options.cache}, {options.spin} spinning processes",
        ["pipeline", "own cpu s", "helpers cpu s", "wall s", "second ms cpu", "later ms cpu", "compiled", "late", "Numba", "LLVM", "load"],
    )
    with spinning(options.spin):
        for name in options.names or PIPELINES:
            found = []
            with ExitStack() as stack:
                kept = None
                if options.cache == "filled":
                    kept = stack.enter_context(tempfile.TemporaryDirectory())
                    measure(options.python, name, folder, kept, options.library)
                for _ in range(options.rounds):
                    if options.cache == "empty":
                        kept = stack.enter_context(tempfile.TemporaryDirectory())
                    found.append(measure(options.python, name, folder, kept, options.library))
            table.add(name, *_row(found))
            if options.names_of_late:
                print(name, found[-1]["late"])
    table.print()


if __name__ == "__main__":
    main()
