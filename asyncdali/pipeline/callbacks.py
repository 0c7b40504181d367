"""The result of `Pipeline.current()` in Python functions that a running pipeline calls: read-only access to its options."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from ..graph import context
from ..graph.node import Definition, OperatorInstance
from ..options import PipelineOptions
from .core import Core
from .pipeline import Pipeline

_FORBIDDEN = "is forbidden in a Python function that the running pipeline calls. Only read properties here; make other calls outside."


class _CalledCore(Core):
    """The core of the stand-in: options, and nothing to be run or closed."""

    is_built = True

    def __init__(self, pipeline: CalledPipeline, options: PipelineOptions, seed: int | None, reported: dict[str, Any]):
        super().__init__(pipeline, options, _NoDefinition(options))
        self._seed = seed
        self.reported = reported
        self.closed = True

    @property
    def seed(self) -> int | None:
        return self._seed

    def built(self) -> NoReturn:
        raise RuntimeError(f"this {_FORBIDDEN}")


class CalledPipeline(Pipeline):
    """Represents a pipeline in the functions that it calls, with the pipeline's properties. Building, running or changing it is a
    RuntimeError.

    It does not refer to the pipeline, because the pipeline's operators hold this object.
    """

    def __init__(self, options: PipelineOptions, seed: int | None, reported: dict[str, Any], attributes: dict[str, Any]):
        self.__dict__.update(attributes)
        self._core = _CalledCore(self, options, seed, reported)

    @property
    def is_restored_from_checkpoint(self) -> bool:
        return self._core.options.checkpoint is not None


class _NoDefinition(Definition):
    """Accepts no operators."""

    def add(self, instance: OperatorInstance) -> None:
        raise RuntimeError(
            f"asyncdali.fn.{instance.schema.name} was called in a Python function that a pipeline calls while it runs: operators can only "
            "be added to a graph while it is defined"
        )


def _forbidden(name: str) -> Callable[..., NoReturn]:
    def method(self: CalledPipeline, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(f"{name}() {_FORBIDDEN}")

    method.__name__, method.__qualname__ = name, f"CalledPipeline.{name}"
    method.__doc__ = "Forbidden here: RuntimeError."
    return method


for _name in (
    "build", "start_py_workers", "run", "run_async", "schedule_run", "outputs", "share_outputs", "release_outputs", "reset", "close",
    "empty", "set_outputs", "add_sink", "feed_input", "serialize", "deserialize_and_build", "checkpoint", "iter_setup", "define_graph",
    "enable_api_check", "_prefetch",
):  # fmt: skip
    setattr(CalledPipeline, _name, _forbidden(_name))


def calling(
    options: PipelineOptions, seed: int | None, reported: dict[str, Any], attributes: dict[str, Any]
) -> Callable[[], AbstractContextManager[None]]:
    """A context manager for calls of the user's functions, one at a time, in which a stand-in for their pipeline is current.

    Args:
        options: those of the pipeline.
        seed: the one that the pipeline uses.
        reported: see :class:`~asyncdali.pipeline.core.Core`.
        attributes: what the pipeline's class or the program has set on it.
    """
    called = CalledPipeline(options, seed, reported, attributes)
    one_at_a_time = threading.Lock()  # segments of the CPU and of GPU streams have threads of their own

    @contextmanager
    def within() -> Iterator[None]:
        with one_at_a_time, context.Defining(called, called._core.definition):
            yield

    return within
