"""``asyncdali show``: makes a step of a pipeline again, and writes a page about it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from . import settings

if TYPE_CHECKING:
    import argparse


def add_arguments(commands: Any) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("show", help="make one step again without the steps before, and write a page about its samples")
    parser.add_argument("pipeline", metavar="FILE.py:pipeline", help="the pipeline of the run, with its seed")
    parser.add_argument("--checkpoint", metavar="FILE", help="a checkpoint of the run, of this library or of DALI")
    parser.add_argument("--step", type=int, help="number of the iteration, from 0 (default: that of the checkpoint, or 0)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--sample", type=int, help="the sample that is shown after every operator")
    what.add_argument("--grid", action="store_true", help="show only the results of all samples")
    parser.add_argument("--output", metavar="PAGE", help="the file to write (default: step-K.html)")
    settings.add_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if the step cannot be made."""
    from ..pipeline.replaying import replay
    from ..provenance.page import page_of
    from . import program

    try:
        checkpoint = None
        if options.checkpoint:
            with open(options.checkpoint, "rb") as file:
                checkpoint = file.read()
        function = program.load(options.pipeline, options.arguments)
        pipeline = program.make(function, settings.settings_of(function, options.set))
        step = replay(pipeline, options.step, checkpoint)
        number = step.provenance.step
        page = page_of(step, _command(options, number), options.sample, options.grid)
        path = options.output or f"step-{number}.html"
        page.write(path)
    except (program.ProgramError, RuntimeError, ValueError, TypeError, OSError, IndexError) as error:
        print(f"asyncdali show: {error}", file=sys.stderr)
        return 1
    print(f"{path}: step {number}, {step.provenance.samples} samples" + (", the step fails" if step.error else ""))
    return 0


def _command(options: argparse.Namespace, step: int) -> str:
    words = ["asyncdali", "show", options.pipeline, "--step", str(step)]
    words += ["--checkpoint", options.checkpoint] if options.checkpoint else []
    words += [word for item in options.set or () for word in ("--set", item)]
    words += ["--sample", str(options.sample)] if options.sample is not None else []
    return shlex.join(words + (["--", *options.arguments] if options.arguments else []))
