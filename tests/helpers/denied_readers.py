"""A program: every reader over unreadable files, by a user who is not root. Prints {reader: [error at build, at run]}.

All readers run once before, as the starting user: the other user may not be able to read the imported and compiled files.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

NOBODY = 65534


def as_nobody(work) -> str | None:
    """The text of the RuntimeError that `work()` raises, without any rights of root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        work()
    except RuntimeError as error:
        return str(error)
    finally:
        if root:
            os.seteuid(0)
    return None


def deny(folder: Path, mode: int) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)


def outcome(kind, folder: Path) -> list[str | None]:
    from helpers.readers import delivered, pipeline

    arguments = kind.write(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    delivered(kind, pipeline(kind, arguments), 1)
    built = pipeline(kind, arguments)
    deny(folder, 0)
    at_run = as_nobody(lambda: [built.run() for _ in range(6)])
    at_build = as_nobody(lambda: [pipeline(kind, arguments).run() for _ in range(6)])
    return [at_build, at_run]


def main() -> None:
    from helpers.readers import EVERY_KIND

    warnings.simplefilter("ignore")
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o755)
        for name, kind in EVERY_KIND.items():
            folder = Path(scratch) / name
            folder.mkdir()
            found[name] = outcome(kind, folder)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
