"""Loads the pipeline that a command names: ``FILE.py:pipeline``."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncdali_workers.exceptions import PROGRAM

from ..pipeline.front import core_of
from .bench_rival import stand_in

if TYPE_CHECKING:
    from ..graph.node import OperatorInstance
    from ..pipeline import Pipeline


class ProgramError(Exception):
    """The name does not lead to a pipeline; the message says why."""


def load(target: str, arguments: Sequence[str] = ()) -> Callable[..., Any]:
    """The function (or pipeline) that ``FILE.py:name`` names. In a file written for DALI, an import of DALI gives asyncdali.

    The program's ``sys.argv`` has its `arguments`. ProgramError if the file or the name does not exist, or if the program ends.
    """
    file, colon, name = target.rpartition(":")
    if not colon or not file.endswith(".py") or not name:
        raise ProgramError(f"{target!r} is not of the form FILE.py:pipeline")
    path = Path(file)
    if not path.is_file():
        raise ProgramError(f"there is no file {file}")
    if "nvidia.dali" in path.read_text(encoding="utf-8", errors="replace"):
        stand_in("nvidia.dali", "asyncdali")
    module = _run(path.resolve(), arguments)
    if not hasattr(module, name):
        pipelines = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ProgramError(f"{file} defines no {name!r}; it has {', '.join(pipelines) or 'nothing that can be called'}")
    result: Callable[..., Any] = getattr(module, name)
    return result


def _run(path: Path, arguments: Sequence[str]) -> object:
    name = PROGRAM + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # objects that the module defines can be pickled, and its source can be found
    root, package = _package_of(path)
    if package:  # relative imports
        module.__package__ = package
        sys.path.insert(0, str(root))
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path), *arguments]
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise ProgramError(
            f"{path} ended itself while it was loaded (SystemExit: {error.code}). Give its own arguments behind `--`, as in `asyncdali "
            f'bench {path.name}:train -- --data /data`. What must not run when it is loaded belongs below `if __name__ == "__main__":`'
        ) from error
    except Exception as error:
        raise ProgramError(f"{path} failed: {type(error).__name__}: {error}") from error
    return module


def _package_of(path: Path) -> tuple[Path, str]:
    """The folder above the package that a file belongs to, and the package's name; "" for a file outside of packages."""
    root, names = path.parent, list[str]()
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    return root, ".".join(names)


def _print_to_stderr() -> None:
    sys.stdout.flush()
    sys.stdout = sys.stderr
    with contextlib.suppress(OSError):
        os.dup2(2, 1)


@contextlib.contextmanager
def output_apart() -> Iterator[None]:
    """The output of the program and its processes goes to stderr, because stdout is for results. Also that of its functions of `atexit`."""
    kept = None
    sys.stdout.flush()
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of the two is closed
        pass
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        atexit.register(_print_to_stderr)  # runs before the functions that the program has registered
        sys.stderr.flush()
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def make(program: object, settings: dict[str, Any]) -> Pipeline:
    """Make the pipeline of `program`, with options such as `batch_size` replaced. ProgramError if no pipeline results."""
    from .. import Pipeline

    if isinstance(program, Pipeline):
        if settings:
            raise ProgramError(f"the pipeline exists already, so it cannot be given {', '.join(settings)}: name the function that makes it")
        return program
    if not callable(program):
        raise ProgramError(
            f"a {type(program).__name__} is not a pipeline: name a function made by @pipeline_def, or a function that returns a Pipeline"
        )
    accepted = _accepted(program, settings)
    try:
        pipeline = program(**accepted)
    except Exception as error:
        hint = _missing(program, accepted)
        raise ProgramError(f"{name_of(program)!r} made no pipeline: {type(error).__name__}: {error}{hint}") from error
    if not isinstance(pipeline, Pipeline):
        raise ProgramError(f"{name_of(program)!r} returned a {type(pipeline).__name__}, not a Pipeline")
    return pipeline


def lane_decoders(pipeline: Pipeline) -> list[OperatorInstance]:
    """The operators of the graph that decode JPEGs on a GPU, so that their argument `decoder` chooses lanes (docs/gpu.md)."""
    core = core_of(pipeline)
    core.output_nodes()
    return [item for item in core.definition.instances if item.device == "mixed" and "hw_decoder_load" in item.schema.by_name]


def on_cuda(pipeline: Pipeline) -> bool:
    """Whether the pipeline runs on a CUDA device, not on the host device. Builds the pipeline."""
    return core_of(pipeline).built().gpu is not None


def set_decoder(pipeline: Pipeline, value: str) -> None:
    """Set the argument `decoder` of all decoders of :func:`lane_decoders`. ProgramError if the pipeline has none, or was built."""
    if core_of(pipeline).is_built:
        raise ProgramError("the decoders of a pipeline that was built cannot be changed: name the function that makes it")
    decoders = lane_decoders(pipeline)
    if not decoders:
        raise ProgramError('the pipeline has no decoder of JPEGs with device="mixed", so --sweep decoder=... has nothing to change')
    for item in decoders:
        item.constants["decoder"] = value


def _accepted(program: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """`settings`, checked against the function's parameters. Functions made by @pipeline_def take all settings."""
    if getattr(innermost(program), "_is_pipeline_def", False):
        return settings
    parameters = inspect.signature(program).parameters
    if any(item.kind is item.VAR_KEYWORD for item in parameters.values()):
        return settings
    missing = [name for name in settings if name not in parameters]
    if missing:
        raise ProgramError(f"{name_of(program)}() takes no {', '.join(missing)}: give it such parameters, or make it with @pipeline_def")
    return settings


def _missing(program: Any, given: dict[str, Any]) -> str:
    """The arguments that the function needs and does not get, as a hint."""
    try:
        parameters = inspect.signature(program).parameters.values()
    except (TypeError, ValueError):
        return ""
    by_name = [item for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    missing = [f"--set {item.name}=..." for item in by_name if item.default is item.empty and item.name not in given]
    return f". Give {' '.join(missing)}" if missing else ""


def innermost(program: object) -> object:
    """The function of a partial, or of a partial of a partial."""
    while isinstance(program, functools.partial):
        program = program.func
    return program


def name_of(program: object) -> str:
    found = innermost(program)
    return str(getattr(found, "__name__", type(found).__name__))
