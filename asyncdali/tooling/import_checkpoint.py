"""``asyncdali import-checkpoint``: converts checkpoints of DALI into those of this library, and back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import settings

if TYPE_CHECKING:
    import argparse

    from .commands import Commands


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("import-checkpoint", help="convert a checkpoint of DALI 2 for a pipeline, or with --to-dali one for DALI")
    parser.add_argument("pipeline", metavar="FILE.py:pipeline", help="the pipeline that the checkpoint belongs to")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the file to read")
    parser.add_argument("output", metavar="OUTPUT", help="the file to write")
    parser.add_argument("--to-dali", action="store_true", help="write a checkpoint that DALI 2.4 restores")
    settings.add_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if the checkpoint does not fit the pipeline."""
    from . import program

    try:
        with open(options.checkpoint, "rb") as file:
            data = file.read()
        function = program.load(options.pipeline, options.arguments)
        given = settings.settings_of(function, options.set)
        pipeline = program.make(function, {**given, "enable_checkpointing": True, "checkpoint": data})
        pipeline.checkpoint(options.output, format="dali" if options.to_dali else "asyncdali")
    except (program.ProgramError, RuntimeError, ValueError, TypeError, OSError) as error:
        print(f"asyncdali import-checkpoint: {error}", file=sys.stderr)
        return 1
    return 0
