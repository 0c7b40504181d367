"""Every program runs here, and on DALI where DALI is installed and can run it. The results are equal, in order."""

from __future__ import annotations

import importlib
import importlib.util
import warnings

import array_programs
import data as files
import detection_programs
import framework_programs
import image_programs
import numpy as np
import pytest
import reader_programs
import running_programs
import sound_and_video_programs
from user_programs import PROGRAMS

MODULES = (
    array_programs, detection_programs, framework_programs, image_programs, reader_programs, running_programs, sound_and_video_programs,
)  # fmt: skip
HAS_DALI = importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    files.make(folder)
    return folder


def needed(program):
    for module in program.needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{program.name} needs {module}, which is not installed")


def run(program, library, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated names, and the warning that this machine's processor replaces the GPU
        return program.run(importlib.import_module(library), data)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, data):
    program = PROGRAMS[name]
    needed(program)
    ours = run(program, "asyncdali", data)
    assert ours and all(isinstance(array, (np.ndarray, np.generic)) for array in ours)
    if not HAS_DALI or program.only_here:
        return
    theirs = run(program, "nvidia.dali", data)
    assert len(ours) == len(theirs)
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"array {k}: {a.shape} {a.dtype} and {b.shape} {b.dtype}"
        if not (program.atol or program.rtol):
            np.testing.assert_array_equal(a, b, f"array {k}")
        else:
            wide = (array.astype(np.float64) for array in (a, b))
            np.testing.assert_allclose(*wide, rtol=program.rtol, atol=program.atol, err_msg=f"array {k}")


def test_there_are_thirty_programs():
    assert len(PROGRAMS) >= 30
    assert len([program for program in PROGRAMS.values() if not program.only_here]) >= 25
