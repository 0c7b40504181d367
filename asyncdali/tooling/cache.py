"""``asyncdali cache`` shows the folder of compiled kernels and its size, removes kernels, and compiles those of a pipeline."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from ..compiled import kernel_store
from . import settings

if TYPE_CHECKING:
    import argparse

    from .commands import Commands


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("cache", help="say where compiled kernels are kept and how much space they take, or remove them")
    parser.add_argument(
        "--clear", action="store_true", help="remove all compiled kernels; pipelines compile the kernels that they need again",
    )
    parser.add_argument(
        "--fill", metavar="FILE.py:pipeline", nargs="?", const="",
        help="compile all kernels of a pipeline now, for example in a container image; builds the pipeline and runs one iteration",
    )  # fmt: skip
    parser.add_argument(
        "--all", action="store_true", help="with --fill: compile the kernels of all readers, decoders and operators that have no variants "
        "for element types; some minutes"
    )  # fmt: skip
    settings.add_argument(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if kernels could not be removed or made, or if the folder is not used."""
    if options.fill is None and (options.all or options.set):
        return _wrong(f"{'--all' if options.all else '--set'} belongs to --fill, which compiles kernels")
    if options.fill is not None:
        if options.clear:
            return _wrong("--fill and --clear are opposites: give one")
        if bool(options.fill) == options.all:
            return _wrong("--fill takes FILE.py:pipeline, or --all: give one of them")
        if options.all and options.set:
            return _wrong("--set is for a pipeline: --fill --all has none")
        return _fill(options)
    try:
        store = kernel_store.store_in(kernel_store.chosen_root(os.environ.get("NUMBA_CACHE_DIR")))
        if options.clear:
            usage = store.usage()
            store.clear()
            print(f"removed {_summary(usage)} from {usage.folder}")
            return 0
        if store.folder.exists():
            store.check()
    except (kernel_store.RefusedFolder, OSError) as error:
        print(f"cache: {error}", file=sys.stderr)
        return 1
    print(f"{store.folder}: {_summary(store.usage())}")
    for line in shipped_lines():
        print(line)
    return 0


def _wrong(text: str) -> int:
    print(f"cache: {text}", file=sys.stderr)
    return 2


def shipped_lines() -> list[str]:
    """Lines about the kernels that came with the package."""
    from ..compiled.shipped import states, used_target

    found = states()
    used, own = used_target()
    if not found:
        return [f"no kernels came with this package: they are compiled at their first use, for {own}"]
    lines = []
    for level, state in found.items():
        what = str(state) if isinstance(state, Exception) else f"{_counted(len(state.places), 'kernel')}, {state.size / 2**20:.1f} MiB"
        lines.append(f"came with this package for {level}: {what}{' (used on this processor)' if level == used else ''}")
    if used not in found:
        lines.append(f"this process compiles for {own}: none of these kernels is used")
    return lines


def _fill(options: argparse.Namespace) -> int:
    """Compile the kernels of a pipeline, or all."""
    from . import program

    began = time.monotonic()
    try:
        store = kernel_store.usable(os.environ.get("NUMBA_CACHE_DIR"))[1]
        before = store.usage().files
        if options.all:
            from ..runtime.compiling import compile_modules, kernel_modules

            compile_modules(kernel_modules())
        else:
            made = program.load(options.fill, options.arguments)
            with program.make(made, settings.settings_of(made, options.set)) as pipeline:
                pipeline.build()
                with contextlib.suppress(StopIteration):
                    pipeline.run()
        usage = store.usage()
    except (program.ProgramError, RuntimeError, ValueError, TypeError, OSError) as error:
        print(f"cache: {error}", file=sys.stderr)
        return 1
    what = "all" if options.all else options.fill
    print(f"{what}: {_counted(usage.files - before, 'kernel')} compiled in {time.monotonic() - began:.0f} s")
    print(f"{store.folder}: {_summary(usage)}")
    return 0


def _summary(usage: kernel_store.Usage) -> str:
    return f"{_counted(usage.files, 'kernel')}, {usage.size / 2**20:.1f} MiB, for {_counted(usage.keys, 'combination')} of versions"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
