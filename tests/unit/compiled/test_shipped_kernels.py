"""Kernels that come with a wheel: levels of processors, files that are used, stale, damaged or missing, and the build of the wheel."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import platform
import subprocess
import sys
import zipfile

import pytest
from helpers.pipelines import run_script
from helpers.places import PROJECT as ROOT

from asyncdali.__main__ import main
from asyncdali.compiled import cache, kernel_store, shipped, step, target
from asyncdali.compiled.machine_code import MachineCode

x86 = pytest.mark.skipif(platform.machine() != "x86_64" or target.level() is None, reason="no level of x86-64")


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Empty folders for the package's kernels and the user's cache."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "shipped")
    (tmp_path / "shipped").mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "setting", lambda name: str(tmp_path / "cache") if name == "CACHE_DIR" else None)
    monkeypatch.setattr(kernel_store, "_stores", {})
    shipped.shipped.cache_clear()
    yield tmp_path / "shipped"
    shipped.shipped.cache_clear()


def made(number):
    def add(value):
        return value + number

    return add


def kernel_of(number, variant):
    return step.Compiled(made(number), 1, variant)


def ship(folder, number, variant, level=None):
    """Compile a kernel, write it to the file of a level, and empty the user's cache. Returns the file."""
    entry = cache.entry(made(number), str(kernel_of(number, variant)._signature), variant)
    kernel_of(number, variant).compile()
    path = folder / f"{level or target.chosen_level()}.kernels"
    path.write_bytes(shipped.packed({entry.shipped_key: bytes(entry.kept())}))
    cache.folder()[1].clear()
    shipped.shipped.cache_clear()
    return path


def compiles(number, variant):
    """Whether Numba compiles a kernel, whose result is checked."""
    kernel = kernel_of(number, variant)
    assert kernel(1) == number + 1
    return kernel._keep is not None


@x86
def test_a_shipped_kernel_is_used_without_the_users_cache(folder):
    ship(folder, 2, ("used",))
    assert not compiles(2, ("used",)) and cache.folder()[1].usage().files == 0


@x86
def test_other_code_and_other_variants_are_compiled(folder):
    """A stale file: the sources have changed since it was made."""
    ship(folder, 2, ("stale",))
    assert compiles(3, ("stale",)) and compiles(2, ("another",))
    assert cache.folder()[1].usage().files == 2


@x86
def test_a_file_of_another_level_is_not_used(folder):
    other = next(level for level in target.LEVELS if level != target.chosen_level())
    ship(folder, 2, ("level",), other)
    assert shipped.shipped() is None and compiles(2, ("level",))


@x86
def test_another_version_is_not_used(folder, monkeypatch):
    ship(folder, 2, ("version",))
    monkeypatch.setattr(cache, "__version__", "0.0.1")
    assert compiles(2, ("version",))


@x86
@pytest.mark.parametrize("place", ["start", "index", "kernel", "cut", "empty"])
def test_damaged_files_are_not_used(folder, place):
    path = ship(folder, 2, ("damaged",))
    data = bytearray(path.read_bytes())
    if place in ("cut", "empty"):
        data = data[:-10] if place == "cut" else data[:0]
    else:
        data[{"start": 0, "index": 60, "kernel": -10}[place]] ^= 1
    path.write_bytes(data)
    assert compiles(2, ("damaged",))
    states = shipped.states()
    if place in ("start", "index", "empty"):
        assert isinstance(states[target.chosen_level()], ValueError)


@x86
def test_the_command_and_doctor_name_shipped_kernels(folder, capsys):
    from asyncdali.tooling import doctor_checks

    own = target.chosen_level()
    main(["cache"])
    assert f"no kernels came with this package: they are compiled at their first use, for {own}\n" in capsys.readouterr().out
    path = ship(folder, 2, ("named",))
    main(["cache"])
    assert f"came with this package for {own}: 1 kernel, 0.0 MiB (used on this processor)\n" in capsys.readouterr().out
    assert doctor_checks.shipped_kernels(None) is None
    path.write_bytes(b"no kernels")
    main(["cache"])
    assert f"{path} is not a file of kernels of this version" in capsys.readouterr().out
    assert str(path) in doctor_checks.shipped_kernels(None).message


# --- levels


@pytest.mark.parametrize("machine, missing, expected", [
    ("x86_64", None, "x86-64-v4-vbmi"), ("x86_64", "avx512vbmi", "x86-64-v4"), ("x86_64", "avx512vl", "x86-64-v3"),
    ("x86_64", "fma", None), ("x86_64", "pclmulqdq", None),
    ("aarch64", None, None),
])  # fmt: skip
def test_the_best_level_of_a_processor(monkeypatch, machine, missing, expected):
    names = {target._OF_LINUX.get(feature, feature) for feature in target.LEVELS["x86-64-v4-vbmi"]}
    monkeypatch.setattr(target, "flags", lambda: frozenset(names - {missing}))
    monkeypatch.setattr(target.platform, "machine", lambda: machine)
    assert target.level() == expected


@x86
def test_levels_have_the_features_that_llvm_says():
    """Kernels ask for features by name. LLVM compiles for the level's name."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    known = llvm.get_host_cpu_features()
    for features in target.LEVELS.values():
        assert set(features) <= set(known), "LLVM does not know the name of a feature"


_DESCRIBED = """
from asyncdali.compiled import target
from asyncdali.engines.wire.handshake import _processor
print(_processor(), target.chosen_level(), *map(target.processor_has, ("avx512vbmi", "avx512bw", "fma")))
"""


@x86
def test_machines_of_a_level_describe_themselves_alike():
    """A fleet compares levels. Here the second process has another processor of the same level, and the third one another level."""
    own = run_script(_DESCRIBED).stdout
    named = {level: run_script(_DESCRIBED, **target.forced(level)).stdout for level in target.LEVELS}
    assert own in named.values() and len(set(named.values())) == len(named)
    assert named["x86-64-v4-vbmi"].endswith("x86-64-v4-vbmi True True True\n")
    assert named["x86-64-v4"].endswith("x86-64-v4 False True True\n") and named["x86-64-v3"].endswith("x86-64-v3 False False True\n")
    exact = run_script(_DESCRIBED, NUMBA_CPU_NAME="haswell", NUMBA_CPU_FEATURES="+avx2,+fma").stdout
    assert "'name': 'haswell'" in exact and exact.endswith("None False False True\n")


# --- the build


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "build_tools")
    import kernels

    return kernels


def test_settings_of_the_build(tools, monkeypatch):
    monkeypatch.delenv("ASYNCDALI_SHIP_KERNELS", raising=False)
    assert tools.chosen(None) == [] and tools.chosen({"kernels": "x86-64-v3, x86-64-v4"}) == ["x86-64-v3", "x86-64-v4"]
    with pytest.raises(ValueError, match="x86-64-v3, x86-64-v4, x86-64-v4-vbmi; the setting `kernels` names x86-64-v9"):
        tools.chosen({"kernels": "x86-64-v9"})
    monkeypatch.setenv("ASYNCDALI_SHIP_KERNELS", "x86-64-v4")
    assert tools.chosen({}) == ["x86-64-v4"]
    assert any(requirement.startswith("numba") for requirement in tools.requirements())
    assert set(tools.LEVELS) == set(target.LEVELS)


def test_a_wheel_with_kernels_is_complete(tools, tmp_path):
    """Its record names every file with its digest, and its tag the version of Python."""
    wheel = tmp_path / "asyncdali-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("asyncdali/__init__.py", "")
        archive.writestr("asyncdali-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("asyncdali-1.0.dist-info/RECORD", "old")
    found = tools.repacked(wheel, {"asyncdali/compiled/shipped/x86-64-v4.kernels": b"kernels"})
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert [path.name for path in tmp_path.iterdir()] == [found.name] == [f"asyncdali-1.0-{python}-none-manylinux_2_28_x86_64.whl"]
    with zipfile.ZipFile(found) as archive:
        assert f"Tag: {python}-none-manylinux_2_28_x86_64\n" in archive.read("asyncdali-1.0.dist-info/WHEEL").decode()
        recorded = {name: digest for name, digest, _ in csv.reader(io.StringIO(archive.read("asyncdali-1.0.dist-info/RECORD").decode()))}
        assert recorded.pop("asyncdali-1.0.dist-info/RECORD") == ""
        assert recorded == {
            name: "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            for name in archive.namelist() if not name.endswith("RECORD")
        }  # fmt: skip


@x86
def test_the_build_compiles_in_processes_and_writes_the_file(tmp_path):
    """With one small module. The process loads nothing from the user's cache."""
    own, path = target.level(), tmp_path / "kernels"
    command = [sys.executable, ROOT / "build_tools/compile_kernels.py", own, path, "2", "asyncdali.readers.tfrecord.tfrecord_crc_kernels"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    made = shipped.read(path)
    assert made.places and all(made.load(key) for key in made.places)
    assert done.stdout.startswith(f"{path}: {len(made.places)} kernels for {own}, ")


def test_every_factory_of_kernels_has_declared_variants(tools):
    """A new parameter of a factory without values in ``VALUES`` would fail the build of a release."""
    import compile_kernels

    found = compile_kernels.kernels()
    modules = {kernel._function.__module__.rpartition(".")[2] for kernel in found}
    assert len(found) > 400
    assert {"jpeg_kernels", "crop_mirror_normalize_kernels", "png_kernels", "audio_decoder_kernels", "npy_kernels", "driver"} <= modules


def test_no_kernel_needs_numba_at_run_time(tools):
    """Neither its mathematics nor its memory of arrays. ``NRT_MemInfo_call_dtor`` frees arrays, and is never called if none is made."""
    import compile_kernels

    names = ("walk", "number_codes", "scan_frames", "read_at_once", "is_header", "scan_tar", "mask_pixel")
    chosen = [kernel for kernel in compile_kernels.kernels() if kernel.name.rpartition(".")[2] in names]
    assert len(chosen) > len(names)
    looked_at = 0
    for kernel in chosen:
        kernel.compile()
        stored = cache.entry(kernel._function, str(kernel._signature), kernel._variant)
        contents = stored.kept()
        if contents is None:  # compiled earlier in this process, while a test had another folder for kernels
            continue
        looked_at += 1
        needs = set(MachineCode.from_bytes(contents).needs) - {"NRT_MemInfo_call_dtor"}
        assert not [name for name in needs if name.startswith(("numba_", "NRT_"))], kernel.name
    assert looked_at
