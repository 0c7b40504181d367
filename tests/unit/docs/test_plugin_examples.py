"""The programs in examples/ work as described. Most tests are slow, because they start frameworks."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from helpers.places import PROJECT

EXAMPLES = PROJECT / "examples"
needs = {name: pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")
         for name in ("torch", "jax", "tensorflow")}  # fmt: skip


def run(name, *arguments, code=0, **environment):
    """The output of an example, which must end with the exit status `code`."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]), **environment}
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_parallel_source():
    text = run("parallel_source.py")
    assert text.startswith("10 batches; pictures (16, 64, 64, 3)") and "the rest of the epoch is the same" in text


@pytest.mark.slow
@needs["torch"]
def test_several_gpus():
    """Without GPUs: two processes read different shards, and every run has the same order."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(EXAMPLES / "several_gpus.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])}
    orders = []
    for _ in range(2):
        done = subprocess.run(
            [*command, "--steps", "8", "--batch", "4", "--threads", "1"], env=environment, capture_output=True, text=True, timeout=300,
            check=True,
        )  # fmt: skip
        orders.append(dict(re.findall(r"^rank (\d) of 2 on cpu: .*, order (\w+)$", done.stdout, re.MULTILINE)))
    assert orders[0] == orders[1] and len(set(orders[0].values())) == 2


@pytest.mark.slow
@needs["torch"]
def test_train_pytorch(tmp_path):
    run("train_pytorch.py", "--folder", tmp_path / "a")
    assert "interrupted at step 17" in run("train_pytorch.py", "--folder", tmp_path / "b", "--interrupt-at", 17, code=1)
    assert not (tmp_path / "b" / "losses.txt").exists()
    assert "resumed at step 15" in run("train_pytorch.py", "--folder", tmp_path / "b")
    losses = (tmp_path / "a" / "losses.txt").read_text()
    assert (tmp_path / "b" / "losses.txt").read_text() == losses
    values = [float(line) for line in losses.split()]
    assert len(values) == 30 and sum(values[-5:]) < 0.95 * sum(values[:5])


@pytest.mark.slow
@needs["jax"]
def test_jax_loop():
    text = run("jax_loop.py", JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=4")
    assert "4 devices" in text and "the same losses" in text


@pytest.mark.slow
@needs["tensorflow"]
def test_tf_fit():
    assert "the next 8 batches are the same" in run("tf_fit.py")
