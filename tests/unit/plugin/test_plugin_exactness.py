"""Iterators are saved at every step of two epochs and restored in a fresh process. Batches and ends of epochs are the same."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pickle
import random
import subprocess
import sys

import pytest
from helpers.iterators import numbered_files, walk
from helpers.places import PROJECT, TESTS
from helpers.restoring import Setting

FRAMEWORKS = [
    pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed"))
    for name, module in (("pytorch", "torch"), ("jax", "jax"))
]

if not any(importlib.util.find_spec(module) for module in ("torch", "jax")):
    pytest.skip("neither torch nor jax is installed", allow_module_level=True)


def restored(framework, saved, folder):
    (folder / "saved").write_bytes(pickle.dumps(saved))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PROJECT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "helpers.restoring", framework, str(folder / "saved")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def check(framework, settings, folder):
    saved, expected = [], []
    for setting in settings:
        iterator = setting.iterator(framework)
        steps = 2 * (iterator._epochs.batches + 2)
        checkpoints, found = [], []
        for _ in range(steps):
            checkpoints.append(iterator.checkpoints())
            found += walk(iterator, 1)
        for step in range(steps):
            saved.append((setting, checkpoints[step], steps - step))
            expected.append(found[step:])
    assert restored(framework, saved, folder) == str(expected)


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_every_policy(framework, shards, tmp_path):
    files = tuple(numbered_files(tmp_path, 11))
    policies = ("FILL", "DROP") if framework == "jax" else ("FILL", "DROP", "PARTIAL")
    settings = [
        Setting(files, policy, shards, tuple(range(shards)), pad, False, prepare, auto_reset)
        for policy, pad, prepare, auto_reset in itertools.product(policies, (False, True), (False, True), (False, True))
    ]
    check(framework, settings, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_setting(seed, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    choose = random.Random(seed)
    settings = []
    while len(settings) < 12:
        samples, shards = choose.randint(3, 14), choose.randint(1, 3)
        (tmp_path / str(samples)).mkdir(exist_ok=True)
        files = tuple(numbered_files(tmp_path / str(samples), samples))
        policy = choose.choice(["FILL", "DROP", "PARTIAL"])
        if policy == "DROP" and samples // shards < 3:
            continue  # such an epoch has no batch
        flags = [choose.random() < 0.5 for _ in range(4)]
        settings.append(Setting(files, policy, shards, (choose.randrange(shards),), *flags))
    check("pytorch", settings, tmp_path)
