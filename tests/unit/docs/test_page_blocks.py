"""The blocks of Python on pages that show parts of a program run, with the rest of the program around them.

Guides, docs/start.md and docs/coming_from are whole programs (test_documented_programs.py), and docs/dynamic.md has a test of its own
(test_dynamic_page.py). A block that needs a framework runs where the framework is installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import os
import re
import textwrap
import types as python_types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.places import PROJECT as ROOT

import asyncdali
from asyncdali import Pipeline, fn, pipeline_def, types

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
SMALL = {"batch_size": 4, "num_threads": 2, "device_id": None}


def block(page: str, number: int) -> str:
    """A block of a page, by its place."""
    return FENCE.findall((ROOT / page).read_text())[number]


def execute(text: str, **names: Any) -> dict[str, Any]:
    """Run a text as a module with these names. Returns all its names; "printed" is what it printed."""
    found = {"__name__": "page", "fn": fn, "np": np, "pipeline_def": pipeline_def, "types": types, **names}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, "page", "exec"), found)
    return {**found, "printed": printed.getvalue()}


def in_pipeline(text: str, outputs: Callable[[dict[str, Any]], Any], before: str = "", **names: Any) -> Pipeline:
    """A pipeline whose definition is a block."""
    pipe = Pipeline(**SMALL, seed=1)
    with pipe:
        pipe.set_outputs(*outputs(execute(before + text, **names)))
    return pipe


@pipeline_def(**SMALL, seed=1, enable_checkpointing=True)
def reading():
    """Pictures of two sizes and their labels, as named outputs."""
    jpegs, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True, name="Reader")
    angle = fn.random.uniform(range=[-1.0, 1.0], name="Uniform")
    images = fn.decoders.image_random_crop(jpegs, name="Decoder")
    return {"images": fn.rotate(fn.resize(images, size=[8, 8]), angle=angle, keep_size=True), "labels": labels}


# --- README.md


def test_readme(tmp_path, monkeypatch):
    """The first two blocks are one program. `...` of the second one stands in the loop of an epoch."""
    monkeypatch.chdir(tmp_path)
    os.symlink(PICTURES, "images")
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    found = execute(block("README.md", 0))
    inside = "async def main():\n    count = 0\n" + textwrap.indent(block("README.md", 1).replace("...", "count += len(images)"), "    ")
    counted = execute(f"{inside}    return count\n", rotate_pipeline=found["rotate_pipeline"])
    assert asyncio.run(counted["main"]()) == 64
    assert found["angles"].as_array().shape == (8,) and found["images"].as_cpu()[0].shape()[2] == 3


def test_readme_parallel_source(tmp_path):
    paths = sorted(str(path) for path in PICTURES.rglob("*.jpg"))
    found = execute(block("README.md", 2), paths=paths * 100, labels=list(range(6400)))
    pipe = found["photos"](batch_size=4, num_threads=2, py_num_workers=1, device_id=None)
    images, labels = pipe.run()
    assert labels.as_array().ravel().tolist() == [0, 1, 2, 3] and len(images) == 4
    pipe.close()


# --- docs/bad_data.md


@pytest.mark.parametrize("number", [0, 1], ids=["all", "by_operator"])
def test_bad_data_on_error(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "bad.jpg").write_bytes(b"no picture")
    for name in ("1.jpg", "2.jpg", "3.jpg"):
        os.symlink(PICTURES / "5_stars" / name, tmp_path / "a" / name)

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def training():
        jpegs, labels = fn.readers.file(file_root=str(tmp_path))
        numbers = fn.external_source(lambda info: np.int32([info.idx_in_epoch]), batch=False)
        return fn.resize(fn.decoders.image(jpegs), size=[8, 8]), fn.cast(labels, dtype=types.INT64, name="labels"), numbers

    text = block("docs/bad_data.md", number).replace("max_bad=0.01", "max_bad=0.5")  # one of these four samples is bad
    pipe = execute(text, training=training)["pipe"]
    images, _, _ = pipe.run()
    assert len(images) == 4 and len(pipe.quarantine()) == 1
    assert number == 1 or "bad.jpg" in (tmp_path / "bad.jsonl").read_text()


def test_bad_data_batch_by():
    before = """
sounds = fn.external_source(lambda info: np.zeros(info.idx_in_epoch % 9 + 1, np.float32), batch=False)
texts, seconds = fn.reshape(sounds, shape=[-1]), fn.cast(fn.shapes(sounds)[0], dtype=types.FLOAT)
"""
    pipe = in_pipeline(block("docs/bad_data.md", 2).replace("window=4096", "window=16"), lambda n: (n["sounds"], n["texts"]), before)
    sounds, texts = pipe.run()
    assert len(sounds) == len(texts) > 0


@pytest.mark.parametrize(("number", "made"), [(3, "pictures"), (4, "pictures")], ids=["ready", "select"])
def test_bad_data_pictures(number, made):
    pipe = in_pipeline(block("docs/bad_data.md", number), lambda n: (n[made], n["labels"]), images=str(PICTURES))
    pictures, labels = pipe.run()
    assert len(pictures) == len(labels) == 4 and all(min(picture.shape()[:2]) >= 224 for picture in pictures)


def test_bad_data_mix():
    definition, change = block("docs/bad_data.md", 5).split("...\n")
    folders = {name: str(PICTURES / folder) for name, folder in (("a", ""), ("b", ""))}
    pipe = in_pipeline(definition, lambda n: n["data"] if isinstance(n["data"], (list, tuple)) else (n["data"],), **folders)
    assert len(pipe.run()[0]) == 4
    execute(change, pipe=pipe)


# --- docs/auto_aug.md


def test_auto_aug():
    training = execute(block("docs/auto_aug.md", 0))["training"]
    images, labels = training(str(PICTURES), batch_size=4, num_threads=2).run()
    assert images.as_array().shape == (4, 3, 224, 224) and len(labels) == 4
    before = f"images = fn.resize(fn.decoders.image(fn.readers.file(file_root={str(PICTURES)!r})[0]), size=[64, 64])\n"
    pipe = in_pipeline(block("docs/auto_aug.md", 1), lambda names: (names["images"],), before)
    assert pipe.run()[0].as_array().shape == (4, 64, 64, 3)


# --- docs/frameworks.md


def test_frameworks_named_outputs():
    text = block("docs/frameworks.md", 0).replace("    ...\n", f"""\
    jpegs, labels = fn.readers.file(file_root={str(PICTURES)!r}, name="reader")
    images = fn.resize(fn.decoders.image(jpegs), size=[8, 8])
""", 1).replace("batch_size=64, num_threads=4", "batch_size=16, num_threads=2, device_id=None")  # fmt: skip
    batch = execute(text)["batch"]
    assert batch["images"].as_array().shape == (16, 8, 8, 3) and len(batch["labels"]) == 16


@pytest.mark.parametrize(("number", "framework"), [(1, "torch"), (6, "paddle")], ids=["torch", "paddle"])
def test_frameworks_iterators(number, framework):
    pytest.importorskip(framework)
    plugin = importlib.import_module(f"asyncdali.plugin.{'pytorch' if framework == 'torch' else framework}")
    seen = []
    names = {name: getattr(plugin, name) for name in ("DALIGenericIterator", "LastBatchPolicy")}
    text = block("docs/frameworks.md", number).replace('"reader"', '"Reader"').replace("range(10)", "range(2)")
    execute(text, pictures=reading, step=lambda images, labels: seen.append(len(labels)), **names)
    assert sum(seen) == 64 * (2 if framework == "torch" else 1)


def test_frameworks_proxy():
    pytest.importorskip("torch")
    from asyncdali.plugin.pytorch.experimental.proxy import DALIServer, DataLoader

    class Doubled:
        def __init__(self, transform):
            self.transform = transform

        def __len__(self):
            return 10

        def __getitem__(self, k):
            return self.transform(np.full(2, k, np.float32)), k

    pipeline = Pipeline(batch_size=64, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(fn.external_source(name="x") * 2)
    text = block("docs/frameworks.md", 2).replace("num_workers=4", "num_workers=0").replace("...", "seen = images[:, 0].tolist()")
    found = execute(text, DALIServer=DALIServer, DataLoader=DataLoader, MyDataset=Doubled, pipeline=pipeline)
    assert found["seen"] == [2.0 * k for k in range(10)]


def test_frameworks_jax():
    jax = pytest.importorskip("jax")
    from asyncdali.plugin.jax import data_iterator

    seen = []
    text = block("docs/frameworks.md", 3).replace("    ...\n", f"""\
    jpegs, labels = fn.readers.file(file_root={str(PICTURES)!r}, shard_id=shard_id, num_shards=num_shards, name="reader")
    return fn.resize(fn.decoders.image(jpegs), size=[8, 8]), labels
""", 1).replace("batch_size=256", "batch_size=16, num_threads=2, device_id=None")  # fmt: skip
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("batch",))
    names = {"NamedSharding": jax.sharding.NamedSharding, "PartitionSpec": jax.sharding.PartitionSpec, "data_iterator": data_iterator}
    execute(text, mesh=mesh, step=lambda images, labels: seen.append((images.shape, len(labels))), **names)
    assert seen == [((16, 8, 8, 3), 16)] * 4


def test_frameworks_tensorflow():
    tf = pytest.importorskip("tensorflow")
    from asyncdali.plugin.tf import DALIDataset, DALIIterator

    @pipeline_def(batch_size=64, num_threads=2, device_id=None)
    def pictures():
        jpegs, labels = fn.readers.file(file_root=str(PICTURES), name="reader")
        images = fn.resize(fn.decoders.image(jpegs), size=[224, 224], dtype=types.FLOAT)
        return images, fn.cast(labels, dtype=types.INT32)

    fitted = []

    class Model:
        def fit(self, dataset, steps_per_epoch, epochs):
            fitted.append(([tuple(item.shape) for item in next(iter(dataset))], steps_per_epoch, epochs))

    names = {"tf": tf, "pictures": pictures, "DALIDataset": DALIDataset, "DALIIterator": DALIIterator, "model": Model()}
    execute(block("docs/frameworks.md", 4), **names)
    assert fitted == [([(64, 224, 224, 3), (64, 1)], 100, 10)]
    found = execute(block("docs/frameworks.md", 5), **names)
    assert tuple(found["images"].shape) == (64, 224, 224, 3) and tuple(found["labels"].shape) == (64, 1)


# --- docs/pipelines_or_dynamic.md, docs/provenance.md, docs/workers.md, skill.md


def test_pipelines_or_dynamic(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(PICTURES / "5_stars" / "1.jpg", "cat.jpg")
    os.symlink(PICTURES, "photos")
    found = execute(block("docs/pipelines_or_dynamic.md", 0))
    assert found["printed"].startswith("(224, 224, 3) ")
    pytest.importorskip("torch")
    seen = []
    text = block("docs/pipelines_or_dynamic.md", 1).replace(', device="gpu"', "")
    execute(text, ndd=found["ndd"], train=lambda pictures, labels: seen.append(len(labels)))
    assert sum(seen) == 64


def test_provenance(tmp_path):
    pipe = reading()
    held = execute(block("docs/provenance.md", 0), pipe=pipe, iterator=python_types.SimpleNamespace(provenance=list))
    assert held["told"].readers["Reader"][0].file and held["printed"].count("\n") >= 4
    test = execute(block("docs/provenance.md", 1), train=lambda data: reading())["test_my_pipeline_resumes"]
    test()


def test_workers():
    printed = execute(block("docs/workers.md", 0))["printed"].splitlines()
    assert printed[0] == "[0 1 4 9]" and len(printed) == 10


def test_skill():
    text = block("asyncdali/data/skill.md", 0).replace('"/data"', repr(str(PICTURES)))
    found = execute(text.replace("    ...\n", "    shape = batch['images'].as_array().shape\n"))
    assert found["shape"] == (64, 3, 224, 224)


def test_the_first_page_of_the_site():
    training = execute(block("docs/site/index.md", 0))["training"]
    images, labels = training(str(PICTURES), batch_size=4, num_threads=2).run()
    assert images.as_array().shape == (4, 3, 224, 224) and len(labels) == 4


def test_which_knob():
    found = execute(block("docs/which_knob.md", 0))
    assert found["printed"].count("\n") == 3 and found["found"].buffers.held_blocks >= len(found["kept"]) == 10


def test_torchvision():
    pytest.importorskip("torch")
    import PIL.Image

    found = execute(block("docs/torchvision.md", 0), picture=PIL.Image.open(PICTURES / "5_stars" / "1.jpg"))
    assert found["small"].size == (224, 224) and found["turned"].size == found["picture"].size


TESTED = {
    "README.md": 3, "asyncdali/data/skill.md": 1, "docs/auto_aug.md": 2, "docs/bad_data.md": 6, "docs/frameworks.md": 7,
    "docs/pipelines_or_dynamic.md": 2, "docs/provenance.md": 2, "docs/site/index.md": 1, "docs/torchvision.md": 1,
    "docs/which_knob.md": 1, "docs/workers.md": 1,
}  # fmt: skip
"""Page -> its blocks. Tests of this module run all."""
ELSEWHERE = ("docs/start.md", "docs/dynamic.md", "docs/guides/", "docs/coming_from/")


def test_every_block_of_every_page_has_a_test():
    pages = [*ROOT.glob("*.md"), *(page for room in ("asyncdali", "docs", "benchmarks") for page in (ROOT / room).rglob("*.md"))]
    found = {str(page.relative_to(ROOT)): len(FENCE.findall(page.read_text())) for page in pages}
    assert {page: count for page, count in found.items() if count and not page.startswith(ELSEWHERE)} == TESTED
