"""Other Python processes that run code of this package: helpers, probes, phases of the demo. And the processors of this process."""

from __future__ import annotations

import sys

from asyncdali_workers.processes.python import interpreter, required_interpreter
from asyncdali_workers.shared.calls import processors

__all__ = ["interpreter", "processors", "python_command"]

_START = "import sys; sys.path[:] = sys.argv[2 : int(sys.argv[1]) + 2]; del sys.argv[1 : len(sys.path) + 2]; exec(sys.argv.pop(1))"


def python_command(program: str, *arguments: str) -> list[str]:
    """The command line of a fresh interpreter that runs `program` (a text) with ``sys.argv[1:] == arguments``.

    The interpreter uses this process's import path. ``python -c`` and ``python -m`` alone would import from the working directory first.
    That may be a folder of data, and a file ``json.py`` in it would be executed. RuntimeError if no interpreter is known.
    """
    return [required_interpreter("another process cannot be started"), "-c", _START, str(len(sys.path)), *sys.path, program, *arguments]
