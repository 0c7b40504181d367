"""Adds compiled kernels to a wheel.

    pip wheel . --no-deps --config-settings kernels=x86-64-v3,x86-64-v4,x86-64-v4-vbmi

A release wheel has kernels for processor levels and is tagged for one version of Python, because the digest of a kernel contains bytecode.
The kernels are compiled from the files of the wheel itself, which are unpacked for this, so their digests match where it is installed.
A machine that builds a level must have this level: some kernels run while others are defined.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

LEVELS = ("x86-64-v3", "x86-64-v4", "x86-64-v4-vbmi")
_PLATFORM = "manylinux_2_28_x86_64"
"""The oldest glibc whose functions kernels call, and NumPy's."""
_FOLDER = "asyncdali/compiled/shipped"
_OWN = Path(__file__).parent


def chosen(config_settings: Any) -> list[str]:
    """The levels of the setting ``kernels``, or of the environment variable ASYNCDALI_SHIP_KERNELS. ValueError for an unknown level."""
    text = (config_settings or {}).get("kernels") or os.environ.get("ASYNCDALI_SHIP_KERNELS", "")
    levels = [level.strip() for level in text.split(",") if level.strip()]
    unknown = [level for level in levels if level not in LEVELS]
    if unknown:
        raise ValueError(f"kernels can be built for {', '.join(LEVELS)}; the setting `kernels` names {', '.join(unknown)}")
    return levels


def with_kernels(wheel: Path, levels: list[str]) -> Path:
    """Replace a wheel by one with kernels for `levels`. Returns the path of the new wheel, in the same folder."""
    with tempfile.TemporaryDirectory(prefix="asyncdali-wheel-") as folder:
        unpacked = Path(folder, "unpacked")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        made = {}
        for level in levels:
            path = Path(folder, level + ".kernels")
            # The current folder of a build has the sources, which must not be imported in place of the wheel's files.
            subprocess.run(
                [sys.executable, _OWN / "compile_kernels.py", level, path], cwd=folder, check=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(unpacked), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)},
            )  # fmt: skip
            made[f"{_FOLDER}/{level}.kernels"] = path.read_bytes()
        return repacked(wheel, made)


def repacked(wheel: Path, files: dict[str, bytes]) -> Path:
    """Replace a wheel by one with more files, tagged for this version of Python and this platform."""
    version, dist = sys.implementation.cache_tag.replace("cpython-", "cp"), "-".join(wheel.name.split("-")[:2])
    tag = f"{version}-none-{_PLATFORM}"
    target = wheel.with_name(f"{dist}-{tag}.whl")
    records = []
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        info = f"{dist}.dist-info"
        for item in old.infolist():
            if item.filename == f"{info}/RECORD":
                continue
            content = old.read(item)
            if item.filename == f"{info}/WHEEL":
                lines = [line for line in content.decode().splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
                content = "\n".join([*lines, "Root-Is-Purelib: false", f"Tag: {tag}", ""]).encode()
            new.writestr(item, content, zipfile.ZIP_DEFLATED, 9)
            records.append(_record(item.filename, content))
        for name, content in files.items():
            new.writestr(name, content)
            records.append(_record(name, content))
        new.writestr(f"{info}/RECORD", "\n".join([*records, f"{info}/RECORD,,", ""]))
    if target != wheel:
        wheel.unlink()
    return target


def _record(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def requirements() -> list[str]:
    """The packages that the compiler of kernels needs: the dependencies of the project."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        from setuptools.compat.py310 import tomllib
    project = tomllib.loads((_OWN.parent / "pyproject.toml").read_text())["project"]
    return [str(requirement) for requirement in project["dependencies"]]
