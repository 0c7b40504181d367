"""``asyncdali show``: makes a step of a pipeline again, and writes a page about it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from . import settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ..provenance.replayed import ReplayedStep
    from .commands import Commands
    from .show_server import Wanted


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("show", help="make one step again without the steps before, and write a page about its samples")
    parser.add_argument("pipeline", metavar="FILE.py:pipeline", help="the pipeline of the run, with its seed")
    parser.add_argument("--checkpoint", metavar="FILE", help="a checkpoint of the run, of this library or of DALI")
    parser.add_argument("--step", type=int, help="number of the iteration, from 0 (default: that of the checkpoint, or 0)")
    parser.add_argument("--epoch", type=int, help="of select, mix or batch_by (default: that of the checkpoint, or 0)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--sample", type=int, help="the sample that is shown after every operator")
    what.add_argument("--grid", action="store_true", help="show only the results of all samples")
    parser.add_argument("--compare", type=int, metavar="K", help="another step, which the page shows beside the first one")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", metavar="PAGE", help="the file to write (default: step-K.html)")
    where.add_argument("--serve", action="store_true", help="show pages in a browser on this machine, and make other steps on demand")
    settings.add_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if the step cannot be made."""
    from ..provenance.page import page_of
    from . import program

    try:
        make = _maker(options)
        step = make(options.step)
        number = step.provenance.step
        compared = None if options.compare is None else make(options.compare)
        if options.serve:
            return _serve(options, make, step, compared)
        page = page_of(step, _command(options, number), options.sample, options.grid, compared=compared)
        path = options.output or f"step-{number}.html"
        page.write(path)
    except (program.ProgramError, RuntimeError, ValueError, TypeError, OSError, IndexError) as error:
        print(f"asyncdali show: {error}", file=sys.stderr)
        return 1
    beside = "" if compared is None else f" beside step {options.compare}"
    failed = "".join(f", step {one.provenance.step} fails" for one in (step, compared) if one is not None and one.error)
    print(f"{path}: step {number}{beside}, {step.provenance.samples} samples, {len(page.html.encode()) / 1000:.0f} KB{failed}")
    return 0


def _maker(options: argparse.Namespace) -> Callable[[int | None], ReplayedStep]:
    """Makes a step of the pipeline that the command names."""
    from ..pipeline.replay.replaying import replay
    from . import program

    checkpoint = None
    if options.checkpoint:
        with open(options.checkpoint, "rb") as file:
            checkpoint = file.read()
    function = program.load(options.pipeline, options.arguments)
    pipeline = program.make(function, settings.settings_of(function, options.set))
    return lambda step: replay(pipeline, step, checkpoint, options.epoch)


def _serve(
    options: argparse.Namespace, make: Callable[[int | None], ReplayedStep], step: ReplayedStep, compared: ReplayedStep | None
) -> int:
    """Serve pages until Ctrl-C."""
    from .show_server import PageServer, Wanted

    first = Wanted(step.provenance.step, options.sample or 0, options.compare)
    server = PageServer(make, lambda wanted: _command(options, wanted.step, wanted), first, options.grid)
    server.keep(step, *(() if compared is None else (compared,)))
    server.run(lambda address: print(f"{address} (Ctrl-C ends the server)", flush=True))
    return 0


def _command(options: argparse.Namespace, step: int, wanted: Wanted | None = None) -> str:
    words = ["asyncdali", "show", options.pipeline, "--step", str(step)]
    words += ["--epoch", str(options.epoch)] if options.epoch is not None else []
    words += ["--checkpoint", options.checkpoint] if options.checkpoint else []
    words += [word for item in options.set or () for word in ("--set", item)]
    sample = options.sample if wanted is None else wanted.sample or None
    compare = options.compare if wanted is None else wanted.compare
    words += ["--sample", str(sample)] if sample is not None else []
    words += ["--grid"] if options.grid else []
    words += ["--compare", str(compare)] if compare is not None else []
    return shlex.join(words + (["--", *options.arguments] if options.arguments else []))
