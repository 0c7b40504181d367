"""The result of `Pipeline.current()` in Python functions that a running pipeline calls: read-only access to its options."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

from ..graph import context
from ..graph.node import Definition, OperatorInstance
from .pipeline import Pipeline

_FORBIDDEN = "is forbidden in a Python function that the pipeline calls: it is running. Read its properties here; do the rest outside."


class CalledPipeline(Pipeline):
    """Represents a pipeline in the functions that it calls, with the pipeline's properties. Building, running or changing it is a
    RuntimeError.

    It does not refer to the pipeline, because the pipeline's operators hold this object.
    """

    def __init__(self, pipeline: Pipeline, seed: int | None):
        self.__dict__.update({name: value for name, value in vars(pipeline).items() if not name.startswith("_")})
        self._options = pipeline._options
        self._reported = pipeline._reported
        self._drawn_seed = seed
        self._session = None
        self._closed = True  # there is nothing to close
        self._definition = _NoDefinition()

    @property
    def seed(self) -> int | None:
        return self._drawn_seed

    @property
    def _is_built(self) -> bool:
        return True

    @property
    def is_restored_from_checkpoint(self) -> bool:
        return self._options.checkpoint is not None

    def _built_session(self) -> NoReturn:
        raise RuntimeError(f"this {_FORBIDDEN}")


class _NoDefinition(Definition):
    """Accepts no operators."""

    def add(self, instance: OperatorInstance) -> None:
        raise RuntimeError(
            f"asyncdali.fn.{instance.schema.name} was called in a Python function that a pipeline calls while it runs: operators can only "
            "be added to a graph while it is defined"
        )


def _forbidden(name: str) -> Callable[..., Any]:
    def method(self: CalledPipeline, *args: Any, **kwargs: Any) -> NoReturn:
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


def calling(pipeline: Pipeline, seed: int | None) -> Callable[[], AbstractContextManager[None]]:
    """A context manager for calls of the user's functions, one at a time, in which `pipeline` is current. `seed` is its seed."""
    called = CalledPipeline(pipeline, seed)
    one_at_a_time = threading.Lock()  # CPU segments and GPU streams have different threads

    @contextmanager
    def within() -> Iterator[None]:
        with one_at_a_time:
            context.push(called)
            try:
                yield
            finally:
                context.pop()

    return within
