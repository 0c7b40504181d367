"""``asyncdali doctor [FILE.py:pipeline]`` checks the set-up. Every ``build()`` runs the quick checks, too."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..codecs.jpeg import jpeg_library
from . import doctor_checks, doctor_setup, machine, settings
from .quick_checks import examine

if TYPE_CHECKING:
    import argparse

    from ..pipeline.front import Front
    from .commands import Commands


def setup_of(pipeline: Front) -> doctor_setup.MachineSetup:
    """The full set-up of a pipeline that is not built yet. Raises the errors of its graph."""
    from ..graph.plan import build_plan, reachable
    from ..pipeline.front import core_of
    from ..sources.group import parallel_groups

    core = core_of(pipeline)
    order = reachable(core.output_nodes(), core.definition.instances).order
    groups = parallel_groups(order)
    made = doctor_setup.setup_of_options(core.options, {instance.schema.name for instance in order}, bool(groups))
    made.sources = {group.name: group.description.source for group in groups}
    for instance in order:
        made.gpu = made.gpu or instance.device in ("gpu", "mixed")
        made.places += doctor_setup.places(instance.constants)
    made.planned = list(build_plan(core.output_nodes(), core.definition.instances, core.definition, lambda index: 0).operators)
    return made


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("doctor", help="find problems of this machine, environment and pipeline, and say how to solve them")
    parser.add_argument(
        "pipeline", nargs="?", metavar="FILE.py:pipeline", help="also check the options, sources and files of this pipeline",
    )
    settings.add_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if there are problems, 2 if the pipeline cannot be checked."""
    from ..operators import load_registry

    needy = {name for name, operator in load_registry().items() if operator.schema.library}
    what = doctor_setup.MachineSetup(operators=needy, gpu=True)  # without a pipeline: check all libraries
    if options.set and not options.pipeline:
        print(f"doctor: --set {options.set[0]} is for a pipeline: name it, as in FILE.py:pipeline", file=sys.stderr)
        return 2
    if options.pipeline:
        from . import program

        try:
            with program.output_apart() if options.json else contextlib.nullcontext():
                made = program.load(options.pipeline, options.arguments)
                pipeline = program.make(made, settings.settings_of(made, options.set))
                what = setup_of(pipeline)
        except (program.ProgramError, RuntimeError, ValueError, TypeError) as error:
            print(f"doctor: {error}", file=sys.stderr)
            return 2
    found = examine(what)
    problems = [finding for finding in found if not finding.note]
    if options.json:
        print(json.dumps([{**asdict(finding), "message": finding.message} for finding in found], indent=1))
    else:
        for finding in found:
            kind = "note" if finding.note else "error" if finding.fatal else "warning"
            print(f"{kind} ({finding.check}): {finding.message}")
        open_now, limit = machine.descriptors()
        quota = machine.quota()
        print(
            f"{machine.cores()} usable CPUs (affinity {machine.allowed_cores()}, quota {'none' if quota is None else f'{quota:g}'}), "
            f"{open_now} of {limit} file descriptors open; {len(doctor_checks.ALL)} checks, {len(problems) or 'nothing'} found"
        )
        print(f"JPEG decoding: {jpeg_library.described()}")
    return 1 if problems else 0
