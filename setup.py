"""The long description of the package's page on PyPI: README.md with absolute links, and with the command that installs a release.

All other metadata are in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

_HERE = Path(__file__).parent
_ON_PYPI = {"pip install . && asyncdali demo": "pip install asyncdali && asyncdali demo", "in this folder": "anywhere"}
"""Text of README.md that is right beside the sources, and what takes its place."""


def _found(pattern: str, file: str) -> str:
    found = re.search(pattern, (_HERE / file).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"{file} has no line {pattern}, which the long description needs")
    return found.group(1)


def _long_description() -> str:
    place = _found(r'^Source = "(.*)"', "pyproject.toml")
    version = _found(r'^__version__ = "(.*)"', "asyncdali/_version.py")
    text = (_HERE / "README.md").read_text(encoding="utf-8")
    for here, there in _ON_PYPI.items():
        if text.count(here) != 1:
            raise RuntimeError(f"README.md has {here!r} {text.count(here)} times: setup.py replaces it for PyPI and expects it once")
        text = text.replace(here, there)
    return re.sub(r"\]\((?!\w+:|#)([^)]*)\)", rf"]({place}/blob/v{version}/\1)", text)


setup(long_description=_long_description(), long_description_content_type="text/markdown")
