"""``asyncdali cache`` shows the folder of compiled kernels and its size, removes kernels, and compiles those of a pipeline."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ..compiled import kernel_store

if TYPE_CHECKING:
    import argparse


def add_arguments(commands: Any) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("cache", help="say where compiled kernels are kept and how much space they take, or remove them")
    parser.add_argument(
        "--clear", action="store_true", help="remove all compiled kernels; pipelines compile the kernels that they need again",
    )
    parser.add_argument(
        "--fill", metavar="FILE.py:pipeline",
        help="compile all kernels of a pipeline now, for example in a container image; builds the pipeline and runs one iteration",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if kernels could not be removed or made, or if the folder is not used."""
    if options.fill is not None:
        return _fill(options.fill)
    try:
        store = kernel_store.store_in(kernel_store.chosen_root(os.environ.get("NUMBA_CACHE_DIR")))
        if options.clear:
            usage = store.usage()
            store.clear()
            print(f"removed {_summary(usage)} from {usage.folder}")
            return 0
        if store.folder.exists():
            store.check()
    except (kernel_store.Refused, OSError) as error:
        print(f"cache: {error}", file=sys.stderr)
        return 1
    print(f"{store.folder}: {_summary(store.usage())}")
    return 0


def _fill(target: str) -> int:
    """Compile the kernels of a pipeline."""
    from . import program

    began = time.monotonic()
    try:
        store = kernel_store.usable(os.environ.get("NUMBA_CACHE_DIR"))[1]
        before = store.usage().files
        with program.make(program.load(target), {}) as pipeline:
            pipeline.build()
            with contextlib.suppress(StopIteration):
                pipeline.run()
        usage = store.usage()
    except (program.ProgramError, RuntimeError, ValueError, TypeError, OSError) as error:
        print(f"cache: {error}", file=sys.stderr)
        return 1
    print(f"{target}: {_counted(usage.files - before, 'kernel')} compiled in {time.monotonic() - began:.0f} s")
    print(f"{store.folder}: {_summary(usage)}")
    return 0


def _summary(usage: kernel_store.Usage) -> str:
    return f"{_counted(usage.files, 'kernel')}, {usage.size / 2**20:.1f} MiB, for {_counted(usage.keys, 'combination')} of versions"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
