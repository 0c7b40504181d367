"""``asyncdali verify FILE.py:pipeline``: does the pipeline resume exactly?"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from . import settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ..pipeline.front import Front
    from .commands import Commands
    from .verify_runs import Fault

_LIMIT = 600
"""Seconds that the run in another process may take."""


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("verify", help="run a pipeline several times, restore it, and say what does not give the same stream")
    parser.add_argument("pipeline", metavar="FILE.py:pipeline", help="the function that makes the pipeline")
    parser.add_argument("--steps", type=int, default=12, help="steps of a run, at least 3 (default 12)")
    parser.add_argument("--restored", metavar="FILE", help="continue from this checkpoint, and print digests; for the command itself")
    parser.add_argument("--killed", metavar="FILE", help="write the checkpoint behind the steps here, and die; for the command itself")
    settings.add_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 0 if the stream is the same in all runs, 1 if there are faults, 2 for an error."""
    from . import program
    from .verify_runs import verify

    if options.steps < 3 and not (options.restored or options.killed):
        print("asyncdali verify: --steps must be at least 3", file=sys.stderr)
        return 2
    left_out: dict[str, str] = {}
    try:
        with program.output_apart():
            function = program.load(options.pipeline, options.arguments)
            given = settings.settings_of(function, options.set)

            def make() -> Front:
                made: Front = program.make(function, given)
                return made

            if options.killed:
                _die(make, options)
            elif options.restored:
                steps = _continued(make, options)
            else:
                faults = verify(make, options.steps, left_out=left_out) or _in_another_process(make, options)
    except (program.ProgramError, RuntimeError, ValueError, TypeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"asyncdali verify: {error}", file=sys.stderr)
        return 2
    if options.restored:
        print(json.dumps(steps))
        return 0
    for fault in faults:
        print(fault)
    if not faults:
        where = ["in a second run", "after restores", "behind a killed process"]
        where += [] if "engines" in left_out else ["in engines"]
        numbers = "threads" if "ranks" in left_out else "threads and ranks"
        print(f"{options.steps} steps are the same {', '.join(where)}, and with other numbers of {numbers}")
        for what, why in left_out.items():
            print(f"not run: {what}, because {why}")
    return 1 if faults else 0


def _continued(make: Callable[[], Front], options: argparse.Namespace) -> list[list[str]]:
    from .verify_runs import run as run_steps

    with open(options.restored, "rb") as file:
        return run_steps(make, options.steps, file.read()).steps


def _die(make: Callable[[], Front], options: argparse.Namespace) -> None:
    """Run the steps, write a checkpoint, and kill this process while iterations, workers and threads are at work."""
    from .verify_runs import run as run_steps

    def told(step: int, checkpoint: bytes) -> None:
        if step == options.steps:
            with open(options.killed, "wb") as file:
                file.write(checkpoint)
            os.kill(os.getpid(), signal.SIGKILL)

    run_steps(make, options.steps + 1, told=told)


def _in_another_process(make: Callable[[], Front], options: argparse.Namespace) -> list[Fault]:
    """Restore the checkpoint of a process that was killed, at a random step, in a new process."""
    from .verify_runs import difference_of
    from .verify_runs import run as run_steps

    first = run_steps(make, options.steps)
    place = random.Random(options.steps).randrange(1, options.steps)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint")
        _process(options, "--steps", str(place), "--killed", path, status=-signal.SIGKILL)
        made = _process(options, "--steps", str(options.steps - place), "--restored", path)
    return difference_of(first, json.loads(made), place)


def _process(options: argparse.Namespace, *words: str, status: int = 0) -> str:
    """The output of this command in a new process, which must end with `status`."""
    command = [sys.executable, "-m", "asyncdali", "verify", options.pipeline, *words]
    command += [word for item in options.set or () for word in ("--set", item)]
    command += ["--", *options.arguments] if options.arguments else []
    made = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
    if made.returncode != status:
        raise RuntimeError(f"the run in another process failed: {made.stderr.strip()}")
    return made.stdout
