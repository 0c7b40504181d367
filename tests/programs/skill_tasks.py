"""Twenty tasks for readers of ``asyncdali skill``, each with a reference program and a check of any answer.

    python tests/programs/skill_tasks.py --write FOLDER          # the tasks without solutions: README.md, NN_name.md, pictures
    python tests/programs/skill_tasks.py --check FOLDER ...      # checks the answers NN_name.py; a table with a column per folder

An answer is a file with a function ``make(data, ...)`` that returns a pipeline, not built. `data` is a folder of eight classes with
eight JPEGs each. The check runs the pipeline; it knows nothing of how the answer is written, except where the task says it.

`--check` runs every answer in a process of its own, in an empty folder, for at most `--limit` seconds. Its table is Markdown. The exit
status is 0 if all answers are right. Give agents an environment with the wheel, not this checkout: the solutions are in this file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import asyncdali
from asyncdali.testing import check as check_that_it_resumes

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"
Make = Callable[..., Any]


@dataclass(frozen=True)
class Task:
    """A task. `start` is the program that it begins with, if there is one; it fails the check."""

    name: str
    prompt: str
    reference: str
    check: Callable[[Make, Path], None]
    start: str = ""
    imports_dali: bool = False
    signature: str = "make(data)"

    def page(self) -> str:
        """The text for an agent."""
        text = f"# {self.name}\n\n{textwrap.fill(self.prompt, 110)}\n\nWrite `{self.name}.py` with a function `{self.signature}` that"
        text += " returns the pipeline, not built.\n`data` is the path of a folder with one folder of JPEGs per class.\n"
        return text + (f"\nThe program today:\n\n```python\n{self.start.strip()}\n```\n" if self.start else "")


README = """# Twenty tasks

Each `NN_name.md` beside this page is a task. Write the answer to `answers/NN_name.py`.

- Use the package asyncdali, as it is installed. `asyncdali skill` prints a guide of one page; `help()`, the commands of
  `asyncdali` and the stubs of the package say more. No network is needed.
- `pictures/` is a folder such as `data`: eight classes with eight JPEGs each. Answers must also work with other folders.
- Try what you wrote: call `make("pictures")`, then `build()` and `run()`, and look at shapes, types and values.
- The order of the outputs is the order in the text. There is no GPU: `device_id=None`.
- An answer is checked by running it alone in a new process, for at most a minute, without the other files.
"""


def _run(pipe: Any) -> list[np.ndarray]:
    """The outputs of one iteration, dense."""
    pipe.build()
    return [np.asarray(batch.as_tensor()) for batch in pipe.run()]


def _operators(pipe: Any) -> list[str]:
    """Names of the pipeline's operators."""
    return [node["op"] for node in json.loads(pipe.serialize())["operators"]]


def _labels(batch: Any) -> list[int]:
    return [int(label) for label in np.asarray(batch.as_tensor()).ravel()]


# --- write


def _check_classification(make: Make, data: Path) -> None:
    images, labels = _run(make(str(data)))
    assert images.shape == (8, 3, 64, 64) and images.dtype == np.float32
    assert -2.01 <= images.min() < -0.5 and 0.5 < images.max() <= 2.0
    assert set(labels.ravel().tolist()) <= set(range(8))
    again = _run(make(str(data)))
    assert (again[0] == images).all() and labels.ravel().tolist() != sorted(labels.ravel().tolist())


CLASSIFICATION = """
from asyncdali import fn, pipeline_def, types

@pipeline_def(batch_size=8, num_threads=2, device_id=None, seed=3)
def make(data):
    jpegs, labels = fn.readers.file(file_root=data, random_shuffle=True)
    images = fn.resize(fn.decoders.image(jpegs), size=[64, 64])
    return fn.crop_mirror_normalize(images, mean=[128.0], std=[64.0], dtype=types.FLOAT, output_layout="CHW"), labels
"""


def _check_center(make: Make, data: Path) -> None:
    from PIL import Image

    images, labels = _run(make(str(data)))
    assert images.shape == (4, 64, 64, 3) and images.dtype == np.uint8 and labels.ravel().tolist() == [0] * 4
    files = sorted((data / "0_circles").iterdir())[:4]
    for image, file in zip(images, files):
        with Image.open(file) as whole:
            factor = 80 / min(whole.size)
            small = whole.resize((round(whole.width * factor), round(whole.height * factor)), Image.Resampling.BILINEAR)
        left, top = (small.width - 64) // 2, (small.height - 64) // 2
        wanted = np.asarray(small.crop((left, top, left + 64, top + 64)), np.float32)
        assert np.abs(wanted - image).mean() < 4


CENTER = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def make(data):
    jpegs, labels = fn.readers.file(file_root=data)
    images = fn.resize(fn.decoders.image(jpegs), resize_shorter=80)
    return fn.crop(images, crop=[64, 64]), labels
"""


def _check_shards(make: Make, data: Path) -> None:
    found: list[str] = []
    for rank in range(4):
        pipe = make(str(data), rank=rank, ranks=4)
        pipe.build()
        for _ in range(2):
            (batch,) = pipe.run()
            found += [batch[k].source_info() for k in range(8)]
    assert len(found) == 64 and len(set(found)) == 64


SHARDS = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def make(data, rank, ranks):
    jpegs, _ = fn.readers.file(file_root=data, shard_id=rank, num_shards=ranks)
    return jpegs
"""


def _check_source(make: Make, data: Path) -> None:
    pipe = make(str(data))
    pipe.build()
    for _ in range(2):  # epochs
        batches = [np.asarray(batch.as_tensor() if hasattr(batch, "as_tensor") else batch[0].as_tensor()) for batch in _epoch(pipe)]
        assert [batch.shape for batch in batches] == [(5, 4)] * 4
        assert np.concatenate(batches)[:, 0].tolist() == list(range(20))


def _epoch(pipe: Any) -> list[Any]:
    return [next(iter(batch.values())) if isinstance(batch, dict) else batch[0] for batch in pipe.epoch()]


SOURCE = """
import numpy as np
from asyncdali import fn, pipeline_def

def sample(info):
    if info.idx_in_epoch >= 20:
        raise StopIteration
    return np.full(4, info.idx_in_epoch, np.int64)

@pipeline_def(batch_size=5, num_threads=1, device_id=None)
def make(data):
    return fn.external_source(sample, batch=False)
"""


def _check_parallel(make: Make, data: Path) -> None:
    pipe = make(str(data))
    pipe.build()
    (batch,) = pipe.run()
    assert {int(row[0]) for row in np.asarray(batch.as_tensor())} == set(range(6))
    assert pipe.worker_statistics()["workers"], "no worker process made the samples"
    pipe.close()


PARALLEL = """
import numpy as np
from asyncdali import fn, pipeline_def

class Samples:
    def __call__(self, info):
        return np.full(4, info.idx_in_epoch, np.int64)

@pipeline_def(batch_size=6, num_threads=1, device_id=None, py_num_workers=2, py_start_method="fork")
def make(data):
    return fn.external_source(Samples(), batch=False, parallel=True)
"""


def _check_choice(make: Make, data: Path) -> None:
    plain, chosen = _run(make(str(data)))
    kinds = {
        "same" if (a == b).all() else "mirrored" if (a[:, ::-1] == b).all() else "wrong" for a, b in zip(plain, chosen)
    }  # fmt: skip
    assert kinds == {"same", "mirrored"}


CHOICE = """
from asyncdali import fn, pipeline_def, types

@pipeline_def(batch_size=32, num_threads=2, device_id=None, seed=5, enable_conditionals=True)
def make(data):
    jpegs, _ = fn.readers.file(file_root=data)
    images = fn.resize(fn.decoders.image(jpegs), size=[32, 32])
    if fn.random.coin_flip(dtype=types.BOOL):
        chosen = fn.flip(images, horizontal=1)
    else:
        chosen = images
    return images, chosen
"""


def _check_names(make: Make, data: Path) -> None:
    from PIL import Image

    pipe = make(str(data))
    pipe.build()
    batch = next(iter(pipe.epoch()))
    assert set(batch) == {"picture", "label", "angle"}
    angles = np.asarray(batch["angle"].as_tensor()).ravel()
    assert len(set(angles.tolist())) == 4 and (np.abs(angles) <= 30).all()
    pictures = np.asarray(batch["picture"].as_tensor())
    assert pictures.shape == (4, 48, 48, 3) and pictures.dtype == np.uint8
    away = np.zeros(3)
    for k, angle in enumerate(angles.tolist()):
        with Image.open(data / batch["picture"][k].source_info()) as whole:
            for place, turn in enumerate((angle, -angle, angle / 2)):
                wanted = np.asarray(whole.rotate(turn, Image.Resampling.BILINEAR).resize((48, 48)), float)
                away[place] += np.abs(wanted - pictures[k])[14:34, 14:34].mean()  # the corners depend on what fills them
    assert away.argmin() == 0, "pictures are not rotated by the output angle"


NAMES = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=5)
def make(data):
    jpegs, labels = fn.readers.file(file_root=data)
    angle = fn.random.uniform(range=[-30.0, 30.0])
    pictures = fn.rotate(fn.decoders.image(jpegs), angle=angle, keep_size=True)
    return {"picture": fn.resize(pictures, size=[48, 48]), "label": labels, "angle": angle}
"""


def _check_mel(make: Make, data: Path) -> None:
    (spectra,) = _run(make(str(data)))
    assert spectra.shape[:2] == (3, 32) and np.isfinite(spectra).all() and spectra.max() <= 0.001
    assert list(np.diff(spectra.mean(axis=2).argmax(axis=1)) > 0) == [True, True], "higher tones are in higher bands"


MEL = """
import numpy as np
from asyncdali import fn, pipeline_def

def tone(info):
    time = np.arange(8000) / 8000
    return np.sin(2 * np.pi * (300 * 2 ** info.idx_in_batch) * time).astype(np.float32)

@pipeline_def(batch_size=3, num_threads=1, device_id=None)
def make(data):
    sound = fn.external_source(tone, batch=False)
    spectra = fn.spectrogram(sound, nfft=256, window_length=256, window_step=128)
    return fn.to_decibels(fn.mel_filter_bank(spectra, nfilter=32, sample_rate=8000))
"""


def _check_views(make: Make, data: Path) -> None:
    pipe = make(str(data))
    pipe.build()
    first, second = pipe.run()
    a, b = np.asarray(first.as_tensor()), np.asarray(second.as_tensor())
    assert a.shape == b.shape == (8, 40, 40, 3)
    assert [first[k].source_info() for k in range(8)] == [second[k].source_info() for k in range(8)]
    assert all((x != y).any() for x, y in zip(a, b)), "both views are the same window"


VIEWS = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=8, num_threads=2, device_id=None, seed=2)
def make(data):
    jpegs, _ = fn.readers.file(file_root=data, random_shuffle=True)
    views = [fn.decoders.image_random_crop(jpegs, random_area=[0.2, 0.8]) for _ in range(2)]
    return tuple(fn.resize(view, size=[40, 40]) for view in views)
"""


def _check_continues(make: Make, data: Path) -> None:
    pipe = make(str(data))
    pipe.build()
    for _ in range(3):
        pipe.run()
    checkpoint = pipe.checkpoint()
    wanted = [np.asarray(batch.as_tensor()) for batch in pipe.run()]
    found = _run(make(str(data), checkpoint=checkpoint))
    assert all((a == b).all() for a, b in zip(wanted, found)) and len(wanted) == len(found) == 2


CONTINUES = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=6, num_threads=2, device_id=None, seed=8, enable_checkpointing=True)
def make(data):
    jpegs, labels = fn.readers.file(file_root=data, random_shuffle=True)
    images = fn.resize(fn.decoders.image_random_crop(jpegs), size=[32, 32])
    return images, labels
"""

# --- port


def _check_dali(make: Make, data: Path) -> None:
    pipe = make(str(data))
    assert type(pipe).__module__.startswith("asyncdali")
    images, labels = _run(pipe)
    assert images.shape == (4, 50, 60, 3) and labels.ravel().tolist() == [0] * 4


FROM_DALI = """
from nvidia.dali import fn, pipeline_def, types

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def make(data):
    jpegs, labels = fn.readers.file(file_root=data)
    images = fn.decoders.image(jpegs, device="cpu", output_type=types.RGB)
    return fn.resize(images, resize_x=60, resize_y=50), labels
"""


def _check_torchvision(make: Make, data: Path) -> None:
    (images,) = _run(make(str(data)))
    assert images.shape == (4, 3, 56, 56) and images.dtype == np.float32
    files = sorted(data.glob("*/*.jpg"))[:4]
    wanted = (np.stack(list(map(_by_torchvision, files))) / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    # torchvision cuts the longer side to whole pixels, and its crop may begin one pixel beside fn.crop's: both are right.
    assert np.abs(wanted.transpose(0, 3, 1, 2) - images).mean() < 0.06


def _by_torchvision(path: Path) -> np.ndarray:
    """Resize(64) and CenterCrop(56), by the same calls of Pillow."""
    from PIL import Image

    picture = Image.open(path).convert("RGB")
    shorter = min(picture.size)
    width, height = (64 * extent // shorter for extent in picture.size)
    left, top = (round((extent - 56) / 2) for extent in (width, height))
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized.crop((left, top, left + 56, top + 56)))



FROM_TORCHVISION = """
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torch.utils.data import DataLoader

def make(data):
    steps = [transforms.Resize(64), transforms.CenterCrop(56), transforms.ToTensor(),
             transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    return DataLoader(ImageFolder(data, transforms.Compose(steps)), batch_size=4)     # only the pictures are needed
"""
TORCHVISION = """
from asyncdali import fn, pipeline_def, types

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def make(data):
    jpegs, _ = fn.readers.file(file_root=data)
    images = fn.resize(fn.decoders.image(jpegs), resize_shorter=64)
    return fn.crop_mirror_normalize(
        images, crop=[56, 56], mean=[255 * x for x in (0.485, 0.456, 0.406)], std=[255 * x for x in (0.229, 0.224, 0.225)],
        dtype=types.FLOAT, output_layout="CHW",
    )
"""


def _check_dataset(make: Make, data: Path) -> None:
    pipe = make(str(data))
    pipe.build()
    batches = [[np.asarray(part.as_tensor()) for part in (batch.values() if isinstance(batch, dict) else batch)] for batch in pipe.epoch()]
    numbers = np.concatenate([batch[1].ravel() for batch in batches])
    assert numbers.tolist() == list(range(12)) and all(batch[0].shape == (4, 3) for batch in batches)
    assert np.allclose(batches[1][0][2], [6, 36, 216])


FROM_DATASET = """
import numpy as np
from torch.utils.data import DataLoader, Dataset

class Powers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, k):
        return np.float32([k, k**2, k**3]), k

def make(data):
    return DataLoader(Powers(), batch_size=4)
"""
DATASET = """
import numpy as np
from asyncdali import fn, pipeline_def

class Powers:
    def __call__(self, info):
        k = info.idx_in_epoch
        if k >= 12:
            raise StopIteration
        return np.float32([k, k**2, k**3]), np.int64(k)

@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def make(data):
    numbers, index = fn.external_source(Powers(), num_outputs=2, batch=False)
    return numbers, index
"""


def _check_tfdata(make: Make, data: Path) -> None:
    pipe = make(str(data))
    pipe.build()
    first, second = ([batch[k].source_info() for batch in (pipe.run()[0] for _ in range(8)) for k in range(8)] for _ in range(2))
    assert len(set(first)) == len(set(second)) == 64 and first != second and first != sorted(first)
    (images,) = _run(make(str(data)))
    assert images.shape == (8, 32, 32, 3) and images.dtype == np.uint8


FROM_TFDATA = """
import tensorflow as tf

def load(path):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path)), [32, 32])

def make(data):      # every epoch has another order
    files = tf.data.Dataset.list_files(data + "/*/*.jpg", shuffle=False).shuffle(64, reshuffle_each_iteration=True)
    return files.map(load, num_parallel_calls=2).batch(8).prefetch(2)
"""
TFDATA = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=8, num_threads=2, device_id=None, prefetch_queue_depth=2, seed=4)
def make(data):
    jpegs, _ = fn.readers.file(file_root=data, shuffle_after_epoch=True)
    return fn.resize(fn.decoders.image(jpegs), size=[32, 32])
"""

# --- debug


def _check_layout(make: Make, data: Path) -> None:
    (images,) = _run(make(str(data)))
    assert images.shape == (2, 3, 20, 20) and images.dtype == np.float32 and np.allclose(images, 0.5)


LAYOUT_BROKEN = """
import numpy as np
from asyncdali import fn, pipeline_def, types

def picture(info):
    return np.full((3, 20, 20), 160, np.uint8)      # the channels come first

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def make(data):
    images = fn.external_source(picture, batch=False)
    return fn.crop_mirror_normalize(images, mean=[128.0], std=[64.0], dtype=types.FLOAT, output_layout="CHW")
"""


def _check_dense(make: Make, data: Path) -> None:
    (batch,) = _run(make(str(data)))
    assert batch.shape == (4, 6) and batch[1].tolist() == [1, 1, 0, 0, 0, 0] and batch[3].tolist() == [3, 3, 3, 3, 0, 0]


RAGGED = """
import numpy as np
from asyncdali import fn, pipeline_def

def words(info):
    return np.full(info.idx_in_batch + 1, info.idx_in_batch, np.int32)

@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def make(data):
    return fn.external_source(words, batch=False)      # training needs [batch, 6], padded with 0
"""


def _check_exact(make: Make, data: Path) -> None:
    check_that_it_resumes(lambda: make(str(data)), steps=6, restores=1)


STATEFUL = """
import numpy as np
from asyncdali import fn, pipeline_def

class Noise:
    def __init__(self):
        self.random = np.random.default_rng(1)

    def __call__(self, info):
        return self.random.uniform(size=3).astype(np.float32)

@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1, enable_checkpointing=True)
def make(data):
    return fn.external_source(Noise(), batch=False)
"""
STATELESS = STATEFUL.replace("        self.random = np.random.default_rng(1)", "        self.seed = 1").replace(
    "return self.random.uniform", "return np.random.default_rng([self.seed, info.epoch_idx, info.idx_in_epoch]).uniform"
)


def _check_bad(make: Make, data: Path) -> None:
    files = sorted((data / "0_circles").iterdir())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "one_class")
        place.mkdir()
        for k in range(200):
            shutil.copy(files[k % len(files)], place / f"{k:03}.jpg")
        (place / "002.jpg").write_bytes(b"no picture")
        pipe = make(folder)
        pipe.build()
        found = []
        for _ in range(50):
            (batch,) = pipe.run()
            assert len(batch) == 4
            found += [batch[k].source_info() for k in range(4)]
        assert not any("002.jpg" in name for name in found) and len(set(found)) >= 198
        assert len(pipe.quarantine()) == 1, "the list of broken samples has one"
        pipe.close()
        for k in range(40):
            (place / f"{5 * k:03}.jpg").write_bytes(b"no picture")
        pipe = make(folder)
        try:
            pipe.build()
            for _ in range(50):
                pipe.run()
        except Exception:
            return
        finally:
            pipe.close()
        raise AssertionError("20 % of broken files did not end the job")


BAD = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def make(data):
    jpegs, _ = fn.readers.file(file_root=data)
    return fn.resize(fn.decoders.image(jpegs), size=[16, 16])
"""

# --- tune


def _check_awaited(make: Make, data: Path) -> None:
    pipe = make(str(data))
    pipe.build()
    for number in range(12):
        (batch,) = pipe.run()
        assert np.asarray(batch.as_tensor())[:, 0].tolist() == [number] * 4
    server = sys.modules[make.__module__].SERVER  # type: ignore[attr-defined]
    pipe.close()
    assert server.most >= 2, "requests are made one after another"


SERIAL = """
import asyncio
import numpy as np
from asyncdali import fn, pipeline_def

class Server:
    now = most = 0

    async def fetch(self, k):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.02)
        self.now -= 1
        return [np.full(3, k, np.float32)] * 4

SERVER = Server()      # keep it; only its coroutine `fetch` may be called

def batch(k):
    return asyncio.run(SERVER.fetch(k))

@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def make(data):
    return fn.external_source(batch)
"""
AWAITED = SERIAL.replace("def batch(k):\n    return asyncio.run(SERVER.fetch(k))", "async def batch(k):\n    return await SERVER.fetch(k)")
AWAITED = AWAITED.replace("fn.external_source(batch)", "fn.external_source(batch, prefetch_queue_depth=8)")


def _check_fused(make: Make, data: Path) -> None:
    pipe = make(str(data))
    names = _operators(pipe)
    assert "decoders.image" not in names and any(name.startswith("decoders.image_") for name in names), names
    (images,) = _run(pipe)
    assert images.shape == (8, 32, 32, 3)
    (whole,) = _run(_made(WASTEFUL)(str(data)))
    assert np.abs(whole.astype(int) - images).max() <= 1


WASTEFUL = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def make(data):
    jpegs, _ = fn.readers.file(file_root=data)
    images = fn.decoders.image(jpegs)
    return fn.crop(images, crop=[32, 32])
"""

_READ = "Read the JPEG files of the folder"
TASKS = (
    Task(
        "01_classification",
        f"{_READ} and their labels in random order with seed 3. Batches of 8; pictures are resized to 64 x 64, as FLOAT in CHW, "
        "minus 128 and divided by 64. Outputs: pictures, labels.",
        CLASSIFICATION, _check_classification,
    ),
    Task(
        "02_center_crop",
        f"{_READ} in order. Batches of 4; the shorter side becomes 80, then the 64 x 64 pixels in the middle are cut out; UINT8,"
        " HWC. Outputs: pictures, labels.",
        CENTER, _check_center,
    ),
    Task(
        "03_ranks",
        "Each rank reads its own part of the encoded files, without decoding them. Batches of 8. All ranks together read every "
        "file once in an epoch. One output: the encoded files.",
        SHARDS, _check_shards, signature="make(data, rank, ranks)",
    ),
    Task(
        "04_source",
        "Batches of 5 samples from Python: sample k of an epoch is INT64 [k, k, k, k]; an epoch has 20 samples, then the next "
        "epoch begins with sample 0. One output.",
        SOURCE, _check_source,
    ),
    Task(
        "05_parallel_source",
        "Batches of 6 samples from a Python class, made in two worker processes: sample k is INT64 [k, k, k, k]. One output.",
        PARALLEL, _check_parallel,
    ),
    Task(
        "06_random_choice",
        f"{_READ}, batches of 32, resized to 32 x 32. Outputs: the pictures, and the same pictures of which each is mirrored "
        "from left to right with a probability of one half, by an `if` in the function.",
        CHOICE, _check_choice,
    ),
    Task(
        "07_names",
        f"{_READ}, batches of 4. Rotate each by its own random angle between -30 and 30 degrees, keeping the size, then resize "
        "to 48 x 48. Outputs by name: picture (UINT8), label, angle.",
        NAMES, _check_names,
    ),
    Task(
        "08_mel",
        "Three tones per batch from Python, of 300, 600 and 1200 Hz, one second at 8000 Hz. One output: the mel spectrogram of "
        "each tone, [bands, windows], with 32 bands, in decibels below the loudest value of the tone.",
        MEL, _check_mel,
    ),
    Task(
        "09_two_views",
        f"{_READ} in random order, batches of 8. Outputs: two random windows of the same picture, each resized to 40 x 40.",
        VIEWS, _check_views,
    ),
    Task(
        "10_checkpoint",
        f"{_READ} and labels in random order, a random window of each picture resized to 32 x 32, batches of 6. Outputs: "
        "pictures, labels. With `checkpoint=`, the bytes "
        "of `pipe.checkpoint()` of another run, the pipeline continues with the batch that follows.",
        CONTINUES, _check_continues, signature="make(data, checkpoint=...)",
    ),
    Task(
        "11_port_dali",
        "Port this program for DALI to asyncdali. The outputs stay the same.",
        FROM_DALI.replace("nvidia.dali", "asyncdali"), _check_dali, FROM_DALI, imports_dali=True,
    ),
    Task(
        "12_port_torchvision",
        "Port this loader to a pipeline with one output, the pictures.",
        TORCHVISION, _check_torchvision, FROM_TORCHVISION, imports_dali=True,
    ),
    Task(
        "13_port_dataset",
        "Port this data set to a pipeline with two outputs, numbers and index (INT64), in order, in batches of 4. An epoch ends"
        " after 12 samples.",
        DATASET, _check_dataset, FROM_DATASET, imports_dali=True,
    ),
    Task(
        "14_port_tfdata",
        "Port this input to a pipeline with one output, the pictures as UINT8 in HWC.",
        TFDATA, _check_tfdata, FROM_TFDATA, imports_dali=True,
    ),
    Task(
        "15_debug_layout",
        "The outputs of this pipeline have the shape [20, 3, 20], and training needs [3, 20, 20]. Mend it.",
        LAYOUT_BROKEN.replace("batch=False)", 'batch=False, layout="CHW")'), _check_layout, LAYOUT_BROKEN,
    ),
    Task(
        "16_debug_shapes",
        "`as_tensor()` of this output fails. Make batches of the shape [4, 6], padded with zeros.",
        RAGGED.replace("fn.external_source(words, batch=False)", "fn.pad(fn.external_source(words, batch=False), axes=[0], shape=[6])"),
        _check_dense, RAGGED,
    ),
    Task(
        "17_debug_resume",
        "After a restart from a checkpoint this job sees other numbers than without the restart. Mend it.",
        STATELESS, _check_exact, STATEFUL,
    ),
    Task(
        "18_debug_bad_file",
        "One file in 1000 is broken and ends the job. Replace broken samples by others, and keep a list of them, which "
        "`pipe.quarantine()` gives. More than 1 % broken files must still end the job.",
        BAD.replace("device_id=None", 'device_id=None, on_error="replace", max_bad=0.01'), _check_bad, BAD,
    ),
    Task(
        "19_tune_waiting",
        "This source waits 20 ms for a server in each batch, one request at a time. Make several requests at a time. The order "
        "stays.",
        AWAITED, _check_awaited, SERIAL,
    ),
    Task(
        "20_tune_decoding",
        "This pipeline decodes whole pictures and keeps 32 x 32 pixels in the middle. Decode only these.",
        WASTEFUL.replace(
            "    images = fn.decoders.image(jpegs)\n    return fn.crop(images, crop=[32, 32])",
            "    return fn.decoders.image_crop(jpegs, crop=[32, 32])",
        ),
        _check_fused, WASTEFUL,
    ),
)  # fmt: skip


def load(path: Path) -> Make:
    """The function `make` of an answer. Workers of the answer import its module by name, from its folder."""
    sys.modules.pop(path.stem, None)
    importlib.invalidate_caches()
    sys.path.insert(0, str(path.parent))
    found: Make = importlib.import_module(path.stem).make
    return found


def _made(text: str) -> Make:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plain.py")
        path.write_text(text)
        try:
            return load(path)
        finally:
            sys.path.remove(folder)


# --- the evaluation


@dataclass(frozen=True)
class Outcome:
    """The result of a check: `fault` is empty for a right answer; `seconds` is None without an answer."""

    fault: str
    seconds: float | None = None

    def cell(self) -> str:
        """The cell of the table."""
        return "no answer" if self.seconds is None else f"{'wrong' if self.fault else 'right'}, {self.seconds:.0f} s"


def write_tasks(folder: Path) -> None:
    """Write the tasks without their solutions, and the pictures."""
    (folder / "answers").mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(README)
    for task in TASKS:
        (folder / f"{task.name}.md").write_text(task.page())
    shutil.copytree(PICTURES, folder / "pictures", dirs_exist_ok=True)


def checked(task: Task, folder: Path, limit: float) -> Outcome:
    """Check the answer of a task in a process of its own, in an empty folder."""
    answer = folder / f"{task.name}.py"
    if not answer.exists():
        return Outcome("no answer")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        place = Path(work, "answer", answer.name)
        place.parent.mkdir()
        shutil.copy(answer, place)
        verdict = Path(work, "verdict")
        command = [sys.executable, str(Path(__file__).resolve()), "--one", task.name, str(place), str(verdict)]
        process = subprocess.Popen(
            command, cwd=place.parent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True, env={**os.environ, "ASYNCDALI_QUIET": "1"},
        )  # fmt: skip
        try:
            _, said = process.communicate(timeout=limit)
            fault = f"the process ended with status {process.returncode}: {(said.strip().splitlines() or ['no output'])[-1]}"
        except subprocess.TimeoutExpired:
            fault = f"not done after {limit:g} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # also its workers
            except ProcessLookupError:
                pass
            process.communicate()
        if verdict.exists():
            fault = verdict.read_text()
    return Outcome(fault, time.monotonic() - began)


def _check_one(name: str, answer: Path, verdict: Path) -> None:
    """Check one answer in this process. `verdict` becomes empty if it is right, else its first line of what is wrong."""
    task = next(task for task in TASKS if task.name == name)
    try:
        task.check(load(answer), PICTURES)
        fault = ""
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        fault = f"{type(error).__name__}: {lines[0]}" if lines else _failed_line(error)
    part = verdict.with_suffix(".part")
    part.write_text(fault)
    part.rename(verdict)
    sys.stderr.flush()
    os._exit(0)  # an answer that was not closed must not hold the process


def _failed_line(error: Exception) -> str:
    """The line of the check that failed, for assertions without a text."""
    lines = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.name.startswith("_check_")]
    return f"{type(error).__name__}: {lines[-1] if lines else 'the check failed'}"


def table(results: dict[str, dict[str, Outcome]]) -> str:
    """The outcomes as Markdown: folder -> task -> outcome."""
    lines = [f"| task | {' | '.join(results)} |", "|---|" + "---|" * len(results)]
    lines += [f"| {task.name} | {' | '.join(found[task.name].cell() for found in results.values())} |" for task in TASKS]
    counts = [sum(not item.fault for item in found.values()) for found in results.values()]
    lines.append(f"| **right** | {' | '.join(f'**{count} of {len(TASKS)}**' for count in counts)} |")
    faults = [
        f"- {folder}, {name}: {item.fault}"
        for folder, found in results.items() for name, item in found.items() if item.fault and item.seconds is not None
    ]  # fmt: skip
    return "\n".join([*lines, *(["", "Wrong answers:", "", *faults] if faults else [])])


def check_answers(folders: Sequence[Path], limit: float = 60.0) -> dict[str, dict[str, Outcome]]:
    """Check the answers in each folder, and print the table. Returns folder -> task -> outcome."""
    results: dict[str, dict[str, Outcome]] = {}
    for folder in folders:
        found = results[str(folder)] = {}
        for task in TASKS:
            found[task.name] = checked(task, folder, limit)
            print(f"{folder}: {task.name}: {found[task.name].cell()}", file=sys.stderr, flush=True)
    print(table(results))
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--check", type=Path, metavar="FOLDER", nargs="+", default=[])
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="for each answer (default: 60)")
    parser.add_argument("--one", nargs=3, metavar=("TASK", "ANSWER", "VERDICT"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        _check_one(options.one[0], Path(options.one[1]), Path(options.one[2]))
    missing = [str(folder) for folder in options.check if not folder.is_dir()]
    if missing:
        parser.error(f"no such folder: {', '.join(missing)}")
    if not options.write and not options.check:
        parser.error("give --write FOLDER or --check FOLDER")
    if options.write:
        write_tasks(options.write)
    results = check_answers(options.check, options.limit) if options.check else {}
    return 1 if any(item.fault for found in results.values() for item in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
