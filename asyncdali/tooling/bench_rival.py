"""Runs a program for asyncdali on DALI, in a separate process that ``asyncdali bench --vs dali`` talks to.

The source text of this file is also run alone (``python -c``), so it imports nothing of the package. The program reads one line with a
number of iterations at a time and answers with one line of JSON.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..pipeline import Pipeline


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import finder: imports of `name` (and of modules in it) give `other`."""

    def __init__(self, name: str, other: str):
        self.name, self.other = name, other

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == self.name or fullname.startswith(self.name + "."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if self.name.startswith(fullname + "."):
            try:
                found = importlib.machinery.PathFinder.find_spec(fullname, path)
            except ImportError:
                found = None
            return found or importlib.machinery.ModuleSpec(fullname, self, is_package=True)  # an empty parent package
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        if spec.name == self.name or spec.name.startswith(self.name + "."):
            return importlib.import_module(self.other + spec.name[len(self.name) :])
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stand_in(name: str, other: str) -> None:
    """From now on an import of `name` gives `other`."""
    if not any(isinstance(finder, _StandIn) and (finder.name, finder.other) == (name, other) for finder in sys.meta_path):
        sys.meta_path.insert(0, _StandIn(name, other))
        sys.modules.pop(name, None)


def _pipeline(file: str, name: str, settings: dict[str, Any], arguments: tuple[str, ...]) -> Any:
    sys.argv = [file, *arguments]
    stand_in("asyncdali", "nvidia.dali")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("_asyncdali_program", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_asyncdali_program"] = module
    spec.loader.exec_module(module)
    pipeline = getattr(module, name)(**settings)
    pipeline.build()
    return pipeline


def _run(pipeline: Pipeline, iterations: int) -> dict[str, float]:
    samples = 0
    start, used = time.perf_counter(), time.process_time()
    for _ in range(iterations):
        try:
            outputs = pipeline.run()
        except StopIteration:
            pipeline.reset()
            outputs = pipeline.run()
        samples += len(outputs[0]) if outputs else 0
    return {"seconds": time.perf_counter() - start, "processor_seconds": time.process_time() - used, "samples": samples}


def main(file: str, name: str, settings: str, *arguments: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the user's program must not mix with the answers

    def answer(**content: object) -> None:
        print(json.dumps(content), file=answers, flush=True)

    try:
        pipeline = _pipeline(file, name, json.loads(settings), arguments)
        answer(ready=True)
        for line in sys.stdin:
            answer(**_run(pipeline, int(line)))
    except BaseException as error:
        answer(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__" and len(sys.argv) >= 4:
    main(*sys.argv[1:])
