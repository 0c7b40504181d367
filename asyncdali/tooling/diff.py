"""``asyncdali diff A B``: differences of two checkpoints, stored graphs or pipelines."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from . import settings

if TYPE_CHECKING:
    import argparse

    from ..provenance.sides import Side
    from .commands import Commands


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("diff", help="say in what two checkpoints, stored graphs or pipelines differ, and from which step on")
    for name in ("first", "second"):
        parser.add_argument(name, metavar="WHAT", help="a file of Pipeline.checkpoint() or Pipeline.serialize(), or FILE.py:pipeline")
    parser.add_argument("--contents", action="store_true", help="also read the files that both name, and compare their contents")
    settings.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the differences as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 0 if there is no difference, 1 if there are some, 2 for an error."""
    from ..provenance.diff import diff
    from . import program

    try:
        with program.output_apart():
            found = diff(_side(options.first, options), _side(options.second, options), options.contents)
    except (program.ProgramError, RuntimeError, ValueError, TypeError, OSError) as error:
        print(f"asyncdali diff: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"differences": found.texts, "step": found.step, "note": found.note}, indent=1))
    else:
        print(found)
    return 1 if found else 0


def _side(what: str, options: argparse.Namespace) -> Side:
    from .. import Pipeline
    from ..pipeline.replay.comparing import side_of
    from . import program

    if ".py:" in what:
        made = program.load(what, options.arguments)
        return side_of(what, program.make(made, settings.settings_of(made, options.set)), Pipeline.deserialize)
    with open(what, "rb") as file:
        return side_of(what, file.read(), Pipeline.deserialize)
