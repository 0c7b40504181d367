"""``asyncdali new KIND [FOLDER]``: writes a small, typed, tested project. Its files are in ``asyncdali/data/projects``."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .._version import __version__

if TYPE_CHECKING:
    import argparse

    from .commands import Commands


class Kind(NamedTuple):
    """A kind of project: its title, the first of the pipeline's outputs, and what must be installed."""

    title: str
    input: str
    requirement: str = "asyncdali"


KINDS = {
    "classification": Kind("Pictures with labels, from one folder of JPEGs per class.", "images"),
    "detection": Kind("Pictures with boxes, from JPEGs and annotations in the format of COCO.", "images"),
    "audio": Kind("Mel spectrograms with labels, from one folder of WAV files per class.", "spectra"),
    "video": Kind("Runs of frames with labels, from one folder of videos per class.", "videos", "asyncdali[video]"),
}
_TEMPLATES = Path(__file__).resolve().parent.parent / "data" / "projects"
_SUFFIX = ".template"


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("new", help="write a small, typed, tested project: a pipeline, a training loop, data, tests")
    parser.add_argument("kind", choices=tuple(KINDS), help="what the pipeline reads")
    parser.add_argument("folder", nargs="?", help="a new or empty folder (default: my-KIND)")
    parser.set_defaults(run=run)


def files(kind: str, name: str) -> dict[str, str]:
    """The files of a project, by name."""
    chosen = KINDS[kind]
    values = {
        "@NAME@": name, "@TITLE@": chosen.title, "@INPUT@": chosen.input, "@REQUIREMENT@": chosen.requirement, "@VERSION@": __version__,
    }  # fmt: skip
    found = {}
    for path in sorted([*(_TEMPLATES / "common").iterdir(), *(_TEMPLATES / kind).iterdir()]):
        text = path.read_text(encoding="utf-8")
        for word, value in values.items():
            text = text.replace(word, value)
        file = path.name.removesuffix(_SUFFIX)
        found[f".{file}" if file == "gitignore" else file] = text  # wheels leave out hidden files of package data
    return found


def project_name(folder: Path) -> str:
    """The folder's name as the name of a package. Raises ValueError if it has no letter or digit."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")
    if not name:
        raise ValueError(f"the name of the folder, {folder.name!r}, gives no name of a package: use letters, digits and hyphens")
    return name


def write(kind: str, folder: Path) -> list[str]:
    """Write the project, whole or not at all. Returns the names of its files.

    Raises ValueError for an unusable name, FileExistsError unless the folder is new or empty, OSError if it cannot be written.
    """
    made = files(kind, project_name(folder))
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise FileExistsError(f"{folder} exists and is no empty folder: nothing was written. Name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.parent / f".{folder.name}-{os.getpid()}"
    draft.mkdir()
    try:
        for name, text in made.items():
            (draft / name).write_text(text, encoding="utf-8")
        os.replace(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return sorted(made)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 0, or 2 for an error."""
    folder = Path(os.path.abspath(options.folder or f"my-{options.kind}"))
    try:
        made = write(options.kind, folder)
    except (ValueError, OSError) as error:
        print(f"asyncdali new: {error}", file=sys.stderr)
        return 2
    shown = os.path.relpath(folder)
    print(f"wrote {shown}: {', '.join(made)}")
    print("next:")
    print(f"    cd {shown} && pip install -e '.[test]' && pytest")
    print("    python make_data.py && python train.py")
    print("    asyncdali bench pipeline.py:training")
    return 0
