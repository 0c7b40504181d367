"""The fast part of the parity suite with fresh, cached and shipped kernels of each level of the processor: it passes, with equal bits."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest
from helpers.places import PROJECT, TESTS

from asyncdali.compiled import target

pytest.importorskip("nvidia.dali")
FAST = ("resized_crops", "color", "audio")
"""Parts of the parity suite with integers and floats, vectors, tables, and the mathematics of the C library. JPEG and PNG files:
``test_kernel_origins.py``."""
LEVELS = list(target.LEVELS)[list(target.LEVELS).index(target.level() or "") :] if target.level() in target.LEVELS else []

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64" or target.level() is None, reason="no level of x86-64"),
]


def run(level, folder, cache, **more):
    """Run the tests for a level in a new process, with the cache of kernels `cache`. Returns what ``helpers/output_digests.py`` writes."""
    (folder / cache).mkdir(exist_ok=True)
    files = [str(TESTS / "parity" / f"test_{name}_parity.py") for name in FAST]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "helpers.output_digests", *files]
    environment = {
        **os.environ, **target.forced(level), "NUMBA_CACHE_DIR": str(folder / cache), "OUTPUT_DIGESTS": str(folder / "digests.json"),
        "ASYNCDALI_COMPILE_AHEAD": "0", "PYTHONPATH": os.pathsep.join([str(TESTS), str(PROJECT)]),
        **{name: str(path) for name, path in more.items()},
    }  # fmt: skip
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    found = json.loads((folder / "digests.json").read_text())
    print(level, cache, *more, f"{len(found['digests'])} tests, {found['used']} kernels, {found['compiled']} compiled,", found["shipped"])
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_the_same_bits_from_every_origin(tmp_path, level):
    """The kernels that are shipped are of another compilation than the fresh ones on the processor's best level, as in a release."""
    packed = tmp_path / "shipped"
    packed.mkdir()
    fresh = run(level, tmp_path, "first", PACK_KERNELS=packed)
    assert len(fresh["digests"]) > 80 and fresh["compiled"] > 30
    cached = run(level, tmp_path, "first")
    came = run(level, tmp_path, "empty", SHIPPED_KERNELS=packed)
    assert cached["compiled"] == came["compiled"] == 0 and not came["shipped"].get("missing")
    assert not list((tmp_path / "empty").rglob("*.kernel")), "a kernel was not shipped"
    others = [cached, came]
    if level == target.level():
        others.append(run(level, tmp_path, "second"))
        assert others[-1]["compiled"] == fresh["compiled"]
    for other in others:
        differing = [name for name, digest in fresh["digests"].items() if other["digests"].get(name) != digest]
        assert not differing
