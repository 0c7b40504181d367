"""One call of `external_source`: its source and options, shared by its nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import OperatorIndexError, OperatorTypeError, refused
from .kinds import SourceDescription, SourceKind


@dataclass(eq=False)
class Group:
    """A source in the graph. `nodes` are the names of its operator instances, one per output."""

    callback: Callable[..., Any]
    description: SourceDescription
    num_outputs: int | None
    batch: bool
    parallel: bool = False
    prefetch_queue_depth: int = 1
    bytes_per_sample_hint: int | None = None
    max_concurrency: int = 32
    snapshot_every: int = 1
    cuda_stream: Any = None
    """The stream (handle or object) on which the source's GPU data is ready. None: the stream that the data names."""
    nodes: list[str] = field(default_factory=list)
    number: int = field(default_factory=itertools.count().__next__)
    """Order of definition in the graph."""
    first_state: Any = None
    """For a source with a state in this process: the state before its first request."""

    def __post_init__(self) -> None:
        if self.parallel:
            self._check_parallel()

    def _check_parallel(self) -> None:
        what = self.description
        if what.kind is SourceKind.CALLABLE:
            if not what.has_inputs:
                raise refused(OperatorTypeError, "external_source", "parallel",
                    "A callable used as a parallel source must accept exactly one argument, the position: "
                    "any worker may be asked for any position."
                )
            return
        if what.is_async:
            raise refused(
                OperatorTypeError, "external_source", "parallel",
                f"An {what} cannot be a parallel source: use an `async def` callable, or a plain generator function.",
            )
        if not self.batch:
            raise refused(OperatorTypeError, "external_source", "parallel",
                f"A parallel source that is an {what.kind} must run in a batch mode (batch=True): "
                "its batches come from one worker in order. Only callables are asked for single samples."
            )

    def start_over(self) -> None:
        """Return a source with a state to the state before its first request."""
        if self.first_state is not None:
            from .snapshots import load_snapshot

            load_snapshot(self, self.first_state)

    @property
    def indexed(self) -> bool:
        """Whether the source is asked for single samples, by their index."""
        return self.description.has_inputs and not self.batch

    @property
    def name(self) -> str:
        """The name in messages: that of the first node."""
        return self.nodes[0] if self.nodes else "external_source"

    def components(self, result: object) -> Sequence[object]:
        """The result of a source of batches, by output."""
        if self.num_outputs is None:
            return (result,)
        return [self._component(result, k) for k in range(self.num_outputs)]

    def sample_components(self, results: list[object]) -> Sequence[object]:
        """The results of a source of samples, by output: a list of samples each."""
        if self.num_outputs is None:
            return (results,)
        return [[self._component(result, k) for result in results] for k in range(self.num_outputs)]

    def _component(self, result: Any, k: int) -> Any:
        try:
            return result[k]
        except (IndexError, KeyError) as error:
            count = len(result) if hasattr(result, "__len__") else "fewer"
            raise refused(
                OperatorIndexError, "external_source", "num_outputs",
                f"the source of {self.name!r} is declared with num_outputs={self.num_outputs}, but returned {count} outputs"
            ) from error
        except TypeError as error:
            raise refused(
                OperatorTypeError, "external_source", "num_outputs",
                f"the source of {self.name!r} is declared with num_outputs={self.num_outputs}, but returned a {type(result).__name__}: "
                "expected a tuple or list with one entry per output"
            ) from error


def parallel_groups(order: Sequence[Any]) -> list[Group]:
    """The parallel sources among the operator instances that will run, in order of definition."""
    found: dict[int, Group] = {}
    for instance in order:
        if isinstance(instance.attachment, Group) and instance.attachment.parallel:
            found.setdefault(id(instance.attachment), instance.attachment)
    return list(found.values())
