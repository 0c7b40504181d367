"""The command line: ``asyncdali demo``, ``bench``, ``doctor`` and ``cache``, and tools for data sets."""

from __future__ import annotations

import argparse
import os
import sys

from ._version import __version__

_OF_PROGRAMS = ("bench", "cache", "engine", "diff", "doctor", "import-checkpoint", "show", "tune", "verify")
"""Commands that load a program of the user. What follows ``--`` is for the program."""


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="asyncdali", description="A data-loading runtime that speaks DALI's Python API.")
    parser.add_argument("--version", action="version", version=f"asyncdali {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="run the training pipeline, kill it in mid-epoch, resume it exactly")
    demo.add_argument("--data", help="folder with one sub-folder of JPEGs per class (default: pictures that ship with the package)")
    demo.add_argument("--output", default="asyncdali-demo", help="folder for the checkpoint and the contact sheet")
    demo.add_argument("--batches", type=int, default=40, help="number of batches before the kill, at least 4")
    demo.add_argument("--threads", type=int, default=2)
    demo.add_argument("--phase", choices=("run", "resume"), help=argparse.SUPPRESS)
    index = commands.add_parser("tfrecord2idx", help="make the index file of a TFRecord file")
    index.add_argument("tfrecord", help="the file")
    index.add_argument("tfrecord_index", help="index file to write")
    index = commands.add_parser("wds2idx", help="make the index file of a WebDataset archive")
    index.add_argument("archive", help="the tar file")
    index.add_argument("index_file", nargs="?", help="index file to write (default: the archive's name with .idx)")
    from .tooling import bench, cache, diff, doctor, engine, import_checkpoint, new, show, skill, top, tune, verify

    cache.add_arguments(commands)
    bench.add_arguments(commands)
    doctor.add_arguments(commands)
    engine.add_arguments(commands)
    diff.add_arguments(commands)
    import_checkpoint.add_arguments(commands)
    show.add_arguments(commands)
    top.add_arguments(commands)
    tune.add_arguments(commands)
    verify.add_arguments(commands)
    new.add_arguments(commands)
    skill.add_arguments(commands)
    words = sys.argv[1:] if argv is None else list(argv)
    place = words.index("--") if "--" in words and words[0] in _OF_PROGRAMS else len(words)
    options, others = parser.parse_known_args(words[:place])
    if others:
        advice = ". Arguments of the function that makes the pipeline: --set NAME=VALUE" if "set" in options else ""
        parser.error(f"unrecognized arguments: {' '.join(others)}{advice}")
    options.arguments = words[place + 1 :]  # those of the user's program
    if hasattr(options, "run"):
        status: int = options.run(options)
        return status
    if options.command != "demo":
        return _make_index(options)
    if options.batches < 4:
        parser.error("--batches must be at least 4")
    from .demo import demo as run_demo

    return run_demo(options)


def _make_index(options: argparse.Namespace) -> int:
    try:
        from .readers.tfrecord import tfrecord_index
        from .readers.webdataset import webdataset_index

        if options.command == "tfrecord2idx":
            tfrecord_index.make_index(options.tfrecord, options.tfrecord_index)
        else:
            default = os.path.splitext(options.archive)[0] + ".idx"
            webdataset_index.make_index(options.archive, options.index_file or default)
    except (RuntimeError, OSError) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
