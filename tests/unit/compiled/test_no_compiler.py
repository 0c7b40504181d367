"""A process whose kernels are all in the cache imports neither Numba nor LLVM, in any of its processes."""

from __future__ import annotations

import os
import platform

import pytest
from helpers.pipelines import run_script
from helpers.places import PROJECT, TESTS
from helpers.warm import run_warm

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM links the code of other processors")

_PROGRAM = """
import sys
import numpy as np
from asyncdali import fn, math, pipeline_def, types

def numbers(info):
    return np.full(3, info.idx_in_epoch, np.float32)

@pipeline_def(batch_size=4, num_threads=2, device_id=None, py_num_workers=1, py_start_method="spawn")
def training(workers):
    jpegs, labels = fn.readers.file(file_root=sys.argv[1], random_shuffle=True, name="reader")
    images = fn.resize(fn.decoders.image_random_crop(jpegs), size=(32, 32))
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=[120.0] * 3, std=[60.0] * 3,
                                      mirror=fn.random.coin_flip())
    labels = labels * 3 // 2, math.sin(labels)
    if workers:
        return images, *labels, fn.external_source(numbers, batch=False, parallel=True)
    return images, *labels

def main():
    options = {"engines": 1, "engine_start_method": "spawn"} if sys.argv[2] == "engine" else {}
    with training(workers=sys.argv[2] == "workers", **options) as pipeline:
        for _ in range(2):
            pipeline.run()
    print(sorted(name for name in sys.modules if name.partition(".")[0] == "numba" or name == "llvmlite.binding"))

if __name__ == "__main__":
    main()
"""

_ABSENT = """
import os, traceback
with open(os.environ["ASKED_FOR"], "a") as file:
    file.write("".join(traceback.format_stack()))
raise ImportError("this process must not compile")
"""
"""In place of Numba: it tells which process asked for it, also in child processes."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """JPEG files."""
    import cv2
    import numpy as np

    folder = tmp_path_factory.mktemp("pictures")
    for label in ("a", "b"):
        (folder / label).mkdir()
        for k in range(4):
            picture = np.random.default_rng(k).integers(0, 256, (40 + k, 50, 3), np.uint8)
            cv2.imwrite(str(folder / label / f"{k}.jpg"), picture)
    return folder


@pytest.mark.parametrize("kind", ["plain", "engine", "workers"])
def test_cached_kernels_need_no_compiler(kind, pictures, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    run = f"import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path({str(program)!r}, run_name='__main__')"
    first = run_warm(run, program, pictures, kind)
    assert first.returncode == 0, first.stderr
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(_ABSENT)
    said = tmp_path / "asked"
    path = os.pathsep.join([str(tmp_path), str(TESTS), str(PROJECT)])
    second = run_script(run, program, pictures, kind, PYTHONPATH=path, ASKED_FOR=str(said))
    assert not said.exists(), said.read_text()[-3000:]
    assert second.returncode == 0 and second.stdout == "[]\n", second.stderr
