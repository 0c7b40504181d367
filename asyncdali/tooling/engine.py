"""``asyncdali engine``: makes iterations for trainers on any machine (docs/fleet.md)."""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import threading
from typing import Any

from .program import ProgramError, load


def add_arguments(commands: Any) -> None:
    """Add the command ``engine`` to the parser."""
    parser = commands.add_parser("engine", help="compute iterations of a pipeline for trainers on other machines (docs/fleet.md)")
    parser.add_argument("pipeline", metavar="FILE.py:train", help="a function made by @pipeline_def, or one that returns a Pipeline")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="the address to listen on; port 0: any free port")
    parser.add_argument("--token-file", required=True, metavar="FILE", help="file with the secret that trainers must know")
    parser.add_argument("--token-shared", action="store_true", help="accept a token file that other users may read, or that they own")
    parser.add_argument("--threads", type=int, help="num_threads, in place of the pipeline's own")
    parser.add_argument("--engines", type=int, help="processes that do the work, in place of the pipeline's own number; 0: this process")
    parser.add_argument("--restart", action="store_true", help="start the engine again, at the same address, when it was killed")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the pipeline, or an argument of the function"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """The command; returns the exit status."""
    if options.restart:
        from .restarting import keep_running

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


def _started(options: argparse.Namespace, listen: str) -> Any:
    """The started actor. None if it cannot start; the reason has been printed."""
    from ..fleet import Actor, read_token

    try:
        settings = dict(map(_setting, options.set))
        if options.threads is not None:
            settings["num_threads"] = options.threads
        if options.engines is not None:
            settings["engines"] = options.engines
        token = read_token(options.token_file, allow_shared=options.token_shared)  # first, because the program may change the directory
        actor = Actor(load(options.pipeline, options.arguments), listen=listen, token=token, **settings)
    except (ProgramError, OSError, ValueError, TypeError, RuntimeError) as error:
        print(f"asyncdali engine: {error}", file=sys.stderr)
        return None
    gc.freeze()  # a full collection of the modules and the pipeline takes 70 ms, in which nothing is planned or sent
    return actor


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"--set {text!r} is not of the form NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
