"""``asyncdali cache`` shows the folder of compiled kernels and its size, and removes kernels."""

from __future__ import annotations

import os
import sys
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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if kernels could not be removed or the folder is not used."""
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


def _summary(usage: kernel_store.Usage) -> str:
    return f"{_counted(usage.files, 'kernel')}, {usage.size / 2**20:.1f} MiB, for {_counted(usage.keys, 'combination')} of versions"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
