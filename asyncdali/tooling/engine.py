"""``asyncdali engine``: makes iterations for trainers on any machine (docs/fleet.md)."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from typing import TYPE_CHECKING

from . import settings
from .program import ProgramError, load

if TYPE_CHECKING:
    from ..fleet import Actor
    from .commands import Commands


def add_arguments(commands: Commands) -> None:
    """Add the command ``engine`` to the parser."""
    parser = commands.add_parser("engine", help="compute iterations of a pipeline for trainers on other machines (docs/fleet.md)")
    parser.add_argument("pipeline", metavar="FILE.py:train", help="a function made by @pipeline_def, or one that returns a Pipeline")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="the address to listen on; port 0: any free port")
    parser.add_argument("--token-file", required=True, metavar="FILE", help="file with the secret that trainers must know")
    parser.add_argument("--token-shared", action="store_true", help="accept a token file that other users may read, or that they own")
    parser.add_argument("--threads", type=int, help="num_threads, in place of the pipeline's own")
    parser.add_argument("--engines", type=int, help="processes that do the work, in place of the pipeline's own number; 0: this process")
    parser.add_argument("--restart", action="store_true", help="start the engine again, at the same address, when it was killed")
    settings.add_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """The command; returns the exit status."""
    if options.restart:
        from .engine_restart import keep_running

        return keep_running(lambda listen: _started(options, listen), options.listen)
    actor = _started(options, options.listen)
    if actor is None:
        return 1
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    print(f"listening on {actor.address}", flush=True)
    while not ended.wait(3600):
        pass
    actor.close()
    return 0


def _started(options: argparse.Namespace, listen: str) -> Actor | None:
    """The started actor. None if it cannot start; the reason has been printed."""
    from ..fleet import Actor, read_token

    try:
        given = {"num_threads": options.threads, "engines": options.engines}
        given = {name: value for name, value in given.items() if value is not None}
        token = read_token(options.token_file, allow_shared=options.token_shared)  # first, because the program may change the directory
        train = load(options.pipeline, options.arguments)
        given |= settings.settings_of(train, options.set, given)
        actor = Actor(train, listen=listen, token=token, **given)
    except (ProgramError, OSError, ValueError, TypeError, RuntimeError) as error:
        print(f"asyncdali engine: {error}", file=sys.stderr)
        return None
    gc.freeze()  # a full collection of the modules and the pipeline takes 70 ms, in which nothing is planned or sent
    return actor
