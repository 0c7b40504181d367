"""Wrong spellings in dynamic mode: each works, or the error says the right one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers.images import encode, picture

import asyncdali.dynamic as ndd
from asyncdali.imperative import spellings

JPEG = encode(picture(20, 30), "JPEG")
PICTURE = picture(20, 30)


def tensor() -> ndd.Tensor:
    return ndd.as_tensor(PICTURE, layout="HWC")


def batch() -> ndd.Batch:
    return ndd.as_batch([PICTURE, PICTURE], layout="HWC")


def file(tmp_path: Path) -> ndd.readers.File:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.jpg").write_bytes(JPEG)
    return ndd.readers.File(file_root=str(tmp_path))


MODULES = {
    "readers.file": "ndd.readers.File(...).next_epoch(batch_size)", "readers.tfrecord": "ndd.readers.TFRecord(",
    "readers.FileReader": "ndd.readers.File(", "File": "ndd.readers.File(", "NumpyReader": "ndd.readers.Numpy(", "fn": "ndd.resize(...)",
    "ops": "operators are functions", "types": "asyncdali.types", "pipeline_def": "ndd.readers.File(...)",
    "external_source": "ndd.ExternalSource(source)", "python_function": "call the Python function itself",
    "image_decoder": "ndd.decoders.image", "decoders.Image": "ndd.decoders.image", "decode_image": "ndd.decoders.image",
    "Resize": "ndd.resize",
    "RandomResizedCrop": "ndd.random_resized_crop", "CropMirrorNormalize": "ndd.crop_mirror_normalize", "uniform": "ndd.random.uniform",
    "normal": "ndd.random.normal", "random.CoinFlip": "ndd.random.coin_flip", "random.randint": "ndd.random.uniform(range=[low, high]",
    "random.seed": "ndd.random.set_seed(seed)", "set_seed": "ndd.random.set_seed", "manual_seed": "ndd.random.set_seed(seed)",
    "random.Generator": "ndd.random.RNG(seed)", "RNG": "ndd.random.RNG", "hflip": "ndd.flip(picture, horizontal=1",
    "FLOAT": "ndd.float32", "UINT8": "ndd.uint8", "float": "ndd.float32", "RGB": "asyncdali.types.RGB",
    "INTERP_LINEAR": "asyncdali.types.INTERP_LINEAR", "from_numpy": "ndd.as_tensor(data)", "asarray": "ndd.as_tensor(data)",
    "concat": "ndd.cat(a, b", "sqrt": "ndd.math.sqrt", "sum": "ndd.reductions.sum", "where": "mask * a + ~mask * b",
    "compile": "capture=True", "color_jitter": "ndd.color_twist(", "math.round": "ndd.math.floor(x + 0.5)", "math.power": "ndd.math.pow(",
    "checkpoint.save": "ndd.checkpoint.Checkpoint().save(pattern)", "set_device": "with ndd.Device('gpu')",
    "gaussian": "ndd.noise.gaussian", "Compose": "asyncdali.experimental.torchvision", "reductions.average": None, "resise": "resize",
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_names(name: str) -> None:
    module = ndd
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    with pytest.raises(AttributeError, match=f"has no attribute '{last}'") as caught:
        getattr(module, last)
    assert MODULES[name] is None or MODULES[name] in str(caught.value)
    assert not hasattr(module, last)


VALUES = {
    "as_cpu": "cpu()", "cuda": "gpu()", "numpy": "numpy.asarray(tensor)", "at": "batch.tensors[i]", "to": "to_device(device)",
    "astype": "ndd.cast(value", "reshape": "ndd.reshape(value", "T": "ndd.transpose(value", "permute": "ndd.transpose(value",
    "mean": "ndd.reductions.mean(value)", "max": "ndd.reductions.max(value)", "sqrt": "ndd.math.sqrt(value)", "flip": "ndd.flip(value)",
    "get": "leave it out", "to_torch": "torch()", "tolist": "numpy.asarray(tensor).tolist()", "samples": "batch.tensors",
    "clamp": "ndd.math.clamp(value)", "_unknown": None,
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_attributes_of_values(name: str) -> None:
    for value in (tensor(), batch()):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
            getattr(value, name)
        assert VALUES[name] is None or VALUES[name] in str(caught.value)


CALLS = {
    "mixed": (lambda: ndd.decoders.image(JPEG, device="mixed"), ValueError, "device='gpu'"),
    "Device": (lambda: ndd.Device("mixed"), ValueError, "give 'gpu'"),
    "batch[i]": (lambda: batch()[0], TypeError, "batch.tensors[i]"),
    "len": (lambda: len(batch()), TypeError, "batch.batch_size"),
    "truth": (lambda: bool(batch()), TypeError, "batch.batch_size"),
    "path": (lambda: ndd.decoders.image("a.jpg"), TypeError, "ndd.imread(path)"),
    "low": (lambda: ndd.random.uniform(low=0, high=1), TypeError, "Did you mean 'range'"),
    "seed": (lambda: ndd.random.uniform(seed=1), TypeError, "rng=ndd.random.RNG(seed)"),
    "shape": (lambda: ndd.random.uniform(size=3), TypeError, "Did you mean 'shape'"),
    "p": (lambda: ndd.random.coin_flip(p=0.3), TypeError, "Did you mean 'probability'"),
    "rng": (lambda: ndd.random.uniform(rng=3), ValueError, "ndd.random.RNG"),
    "batch_size": (lambda: ndd.batch_permutation(), ValueError, "needs `batch_size`"),
    "positional": (lambda: ndd.resize(tensor(), 10), TypeError, "takes 1 input, got 2. Arguments have names: size, "),
    "cast": (lambda: ndd.cast(tensor(), np.float32), TypeError, "Arguments have names: dtype"),
    "zeros": (lambda: ndd.zeros((3, 3)), TypeError, "Arguments have names: shape"),
    "width": (lambda: ndd.resize(tensor(), width=10), TypeError, "Did you mean 'size'"),
    "interpolation": (lambda: ndd.resize(tensor(), size=[3, 3], interpolation=1), TypeError, "Did you mean 'interp_type'"),
    "linear": (lambda: ndd.resize(tensor(), size=[3, 3], interp_type="linear"), TypeError, "types.INTERP_LINEAR"),
    "RGB": (lambda: ndd.decoders.image(JPEG, output_type="rgb"), TypeError, "types.RGB"),
    "crop": (lambda: ndd.crop(tensor(), size=(3, 3)), TypeError, "Did you mean 'crop'"),
    "degrees": (lambda: ndd.rotate(tensor(), degrees=3), TypeError, "Did you mean 'angle'"),
    "kernel": (lambda: ndd.gaussian_blur(tensor(), kernel_size=3), TypeError, "Did you mean 'window_size'"),
    "axis": (lambda: ndd.reductions.sum(tensor(), axis=0), TypeError, "Did you mean 'axes'"),
    "graphs": (lambda: ndd.flip(tensor(), name="flip"), TypeError, "an argument of graphs"),
    "max": (lambda: ndd.math.max(tensor()), TypeError, "ndd.reductions.max(value)"),
    "mode": (lambda: ndd.EvalMode.sync, AttributeError, "deferred, eager, sync_cpu, sync_full"),
    "modes": (lambda: ndd.EvalMode("lazy"), ValueError, "deferred, eager, sync_cpu, sync_full"),
    "context": (lambda: ndd.EvalContext(device="cpu"), TypeError, "with ndd.Device(name)"),
    "root": (lambda: ndd.readers.File("folder"), TypeError, "File(file_root=... or file_list=..."),
    "file_root": (lambda: ndd.readers.File(root="folder"), TypeError, "Did you mean 'file_root'"),
    "reader's batch_size": (lambda: ndd.readers.File(file_root="a", batch_size=2), TypeError, "next_epoch(batch_size=n)"),
    "source's batch_size": (lambda: ndd.ExternalSource([1], batch_size=2), TypeError, "source(batch_size=n)"),
    "source's batch": (lambda: ndd.ExternalSource([1], batch=False), TypeError, "ndd.as_batch"),
    "iterated source": (lambda: list(ndd.ExternalSource([1])), TypeError, "source.captured(n)"),
    "captured": (lambda: ndd.ExternalSource([1]).captured(), TypeError, "captured(batch_size)"),
    "rng.uniform": (lambda: ndd.random.RNG(1).uniform(), AttributeError, "ndd.random.uniform("),
    "rng.seed": (lambda: ndd.random.RNG(1).seed, AttributeError, "it can be set but not read; read `state`"),
    "rng.state_dict": (lambda: ndd.random.RNG(1).state_dict(), AttributeError, "get_state()"),
    "state_dict": (lambda: ndd.checkpoint.Checkpoint().state_dict(), AttributeError, "serialize()"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    use, kind, hint = CALLS[name]
    with pytest.raises(kind, match=re.escape(hint)):
        use()


def test_readers(tmp_path: Path) -> None:
    reader = file(tmp_path)
    wrong = {
        "run": "reader.next_epoch(batch_size=n)", "reset": "next_epoch() begins the next epoch", "epoch_size": "len(reader)",
        "state_dict": "get_state()", "compiled": "capture=True", "something": None,
    }  # fmt: skip
    for name, hint in wrong.items():
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
            getattr(reader, name)
        assert hint is None or hint in str(caught.value)
    with pytest.raises(TypeError, match=re.escape("iterate reader.next_epoch(batch_size=n)")):
        list(reader)
    for name, hint in {"compile": "capture=True", "drop_last": "last_batch='drop'", "shuffle": "random_shuffle=True"}.items():
        with pytest.raises(TypeError, match=re.escape(hint)):
            reader.next_epoch(batch_size=1, **{name: True})
    for _ in reader.next_epoch(batch_size=1):
        break
    assert len(list(reader.next_epoch(batch_size=1))) == 1


def test_spellings_that_work() -> None:
    assert ndd.EvalMode("eager") is ndd.EvalMode.eager is ndd.EvalMode(2)
    assert ndd.cast(tensor(), dtype="float32").dtype is ndd.float32
    assert ndd.random.uniform(range=(0, 1)).shape == ()
    mask = tensor() > 100
    chosen = mask * tensor() + ~mask * ndd.as_tensor(PICTURE // 2, layout="HWC")
    assert np.array_equal(np.asarray(chosen), np.where(PICTURE > 100, PICTURE, PICTURE // 2))


def test_hints_name_what_exists() -> None:
    tables = (spellings.NAMES, spellings.VALUES, spellings.READERS, spellings.RNGS, spellings.SOURCES, spellings.CHECKPOINTS)
    named = {name for table in tables for text in table.values() for name in re.findall(r"\bndd((?:\.[A-Za-z_]\w*)+)", text)}
    assert len(named) > 30
    for path in named - {".fn.resize"}:
        value = ndd
        for part in path.split(".")[1:]:
            value = getattr(value, part)
    owners = {
        "READERS": ndd.readers.File, "RNGS": ndd.random.RNG, "SOURCES": ndd.ExternalSource, "CHECKPOINTS": ndd.checkpoint.Checkpoint,
    }  # fmt: skip
    for name, owner in owners.items():
        assert not [wrong for wrong in getattr(spellings, name) if wrong in dir(owner) and wrong != "seed"]
    assert not [wrong for wrong in spellings.NAMES if wrong in vars(ndd)]
    assert not [wrong for wrong in spellings.VALUES if wrong in dir(ndd.Batch) and wrong in dir(ndd.Tensor)]
