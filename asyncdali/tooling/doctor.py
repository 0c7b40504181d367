"""``asyncdali doctor [FILE.py:pipeline]`` checks the set-up. Every ``build()`` runs the quick checks, too."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..codecs.jpeg import jpeg_library
from . import checks, machine, setup
from .checks import Finding

if TYPE_CHECKING:
    import argparse

    from ..options import PipelineOptions

log = logging.getLogger("asyncdali")

_logged: set[str] = set()


def at_build(options: PipelineOptions, operators: set[str], parallel: bool) -> None:
    """Log the findings of the quick checks for a pipeline with these operators, once per process and message. Never raises.

    `parallel`: the pipeline has worker processes. ``ASYNCDALI_DOCTOR=0`` turns the checks off.
    """
    if os.environ.get("ASYNCDALI_DOCTOR") == "0":
        return
    for finding in examine(setup.setup_of_options(options, operators, parallel), checks.QUICK):
        if finding.message not in _logged:
            _logged.add(finding.message)
            log.warning("%s", finding.message)


def examine(what: setup.Setup, which: Iterable[checks.Check] = checks.ALL) -> list[Finding]:
    """The findings of the checks. A check that fails itself is logged and finds nothing: it must not stop a pipeline."""
    found = []
    for check in which:
        try:
            finding = check(what)
        except Exception:
            log.debug("the check %s failed", check.__name__, exc_info=True)
            continue
        if finding is not None:
            found.append(finding)
    return found


def add_arguments(commands: Any) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("doctor", help="find problems of this machine, environment and pipeline, and say how to solve them")
    parser.add_argument(
        "pipeline", nargs="?", metavar="FILE.py:pipeline", help="also check the options, sources and files of this pipeline",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if there are findings, 2 if the pipeline cannot be checked."""
    from ..operators import load_registry

    needy = {name for name, operator in load_registry().items() if operator.schema.library}
    what = setup.Setup(operators=needy, gpu=True)  # without a pipeline: check all libraries
    if options.pipeline:
        from . import program

        try:
            with program.output_apart() if options.json else contextlib.nullcontext():
                pipeline = program.make(program.load(options.pipeline, options.arguments), {})
                what = setup.setup_of(pipeline)
        except (program.ProgramError, RuntimeError, ValueError, TypeError) as error:
            print(f"doctor: {error}", file=sys.stderr)
            return 2
    found = examine(what)
    if options.json:
        print(json.dumps([{**asdict(finding), "message": finding.message} for finding in found], indent=1))
    else:
        for finding in found:
            print(f"{'error' if finding.fatal else 'warning'} ({finding.check}): {finding.message}")
        open_now, limit = machine.descriptors()
        quota = machine.quota()
        print(
            f"{machine.cores()} usable CPUs (affinity {machine.allowed_cores()}, quota {'none' if quota is None else f'{quota:g}'}), "
            f"{open_now} of {limit} file descriptors open; {len(checks.ALL)} checks, {len(found) or 'nothing'} found"
        )
        print(f"JPEG decoding: {jpeg_library.described()}")
    return 1 if found else 0
