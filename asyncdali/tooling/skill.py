"""``asyncdali skill``: the page for agents and people who write pipelines, ``asyncdali/data/skill.md``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from .commands import Commands

PAGE = Path(__file__).resolve().parent.parent / "data" / "skill.md"
"""How to write, port, debug and tune a pipeline."""


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("skill", help="print how to write, port, debug and tune a pipeline, on one page for agents and people")
    parser.add_argument("--path", action="store_true", help="print where the page is, instead of the page")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the page, or its path."""
    print(PAGE if options.path else PAGE.read_text(encoding="utf-8"), end="\n" if options.path else "")
    return 0
