"""The build backend: setuptools, without two of its side effects.

* Setuptools builds in ``build/`` beside the sources, and packs the files of an earlier version there into the next wheel. Here every build
  uses a new temporary folder, and neither ``build/`` nor ``*.egg-info`` appears beside the sources.
* The finder of an editable install comes last in ``sys.meta_path``. A folder ``site-packages/asyncdali`` without Python files (version
  0.1.0 left its kernel caches there when it was uninstalled) is a namespace package and hides the editable one. Here the finder comes
  first, and hides no real package on the path.

With the setting ``kernels``, a wheel has compiled kernels (``kernels.py``).
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kernels
from setuptools import build_meta
from setuptools.command import editable_wheel

_CHANGES = {
    "        if fullname in MAPPING:\n": """\
        if fullname in MAPPING:
            found = PathFinder.find_spec(fullname, path)
            if found is not None and found.origin is not None:
                return found
""",
    "sys.meta_path.append(_EditableFinder)": "sys.meta_path.insert(0, _EditableFinder)",
}
"""Text of setuptools' finder, and what takes its place."""


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Builds use a temporary folder for intermediate files."""
    with tempfile.TemporaryDirectory(prefix="asyncdali-build-") as folder:
        settings = Path(folder, "settings.cfg")
        places = {"build": "build_base", "bdist_wheel": "bdist_dir", "egg_info": "egg_base"}
        settings.write_text("".join(f"[{command}]\n{option} = {folder}/{option}\n" for command, option in places.items()))
        Path(folder, "egg_base").mkdir()
        before = os.environ.get("DIST_EXTRA_CONFIG")
        os.environ["DIST_EXTRA_CONFIG"] = str(settings)
        try:
            yield
        finally:
            if before is None:
                del os.environ["DIST_EXTRA_CONFIG"]
            else:
                os.environ["DIST_EXTRA_CONFIG"] = before


def _finder() -> str:
    """Setuptools' finder, changed; as if a later setuptools wrote the file again. This works, except for the leftovers of 0.1.0."""
    text = editable_wheel._FINDER_TEMPLATE
    if any(text.count(old) != 1 for old in _CHANGES):
        print("build_tools/backend.py does not know the finder of this setuptools and leaves it as it is", file=sys.stderr)
        return text
    for old, new in _CHANGES.items():
        text = text.replace(old, new)
    return text


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    more = kernels.requirements() if kernels.chosen(config_settings) else []
    with _elsewhere():
        return [*build_meta.get_requires_for_build_wheel(_plain(config_settings)), *more]


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    with _elsewhere():
        return build_meta.get_requires_for_build_sdist(config_settings)


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    with _elsewhere():
        return build_meta.get_requires_for_build_editable(config_settings)


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    levels = kernels.chosen(config_settings)
    with _elsewhere():
        name = build_meta.build_wheel(wheel_directory, _plain(config_settings), metadata_directory)
    return kernels.with_kernels(Path(wheel_directory, name), levels).name if levels else name


def _plain(config_settings: Any) -> Any:
    """The settings without the project's own."""
    return {name: value for name, value in (config_settings or {}).items() if name != "kernels"} or None


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    with _elsewhere():
        return build_meta.build_sdist(sdist_directory, config_settings)


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    before = editable_wheel._FINDER_TEMPLATE
    editable_wheel._FINDER_TEMPLATE = _finder()
    try:
        with _elsewhere():
            return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    finally:
        editable_wheel._FINDER_TEMPLATE = before


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    with _elsewhere():
        return build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Any = None) -> str:
    with _elsewhere():
        return build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings)
