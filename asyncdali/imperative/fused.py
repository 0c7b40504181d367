"""Calls of a captured loop as one graph: intermediate results need no memory of their own, as in pipelines."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from ..batch import Batch as Samples
from ..graph import context
from ..graph.node import Definition, make
from ..options import PipelineOptions
from ..runtime.work.immediate import Engine, Immediate, stand_in
from .arithmetic import OPERATION
from .bricks import Brick
from .calls import finished
from .engine import ThreadCrew


class FusedCall(NamedTuple):
    """A call in a graph.

    inputs  for each input the number of an earlier call and of its output; -1: it is given, under the number of the input's place among
            the given ones
    wanted  whether the outputs are needed; otherwise only their shapes are known
    """

    brick: Brick
    inputs: tuple[tuple[int, int], ...]
    wanted: bool


class FusedOutputs(NamedTuple):
    """The outputs that a graph has made for a call. Outputs that only calls of the graph read have shapes, but no contents any more."""

    outputs: list[Samples]
    have_contents: bool


def can_be_fused(brick: Brick) -> bool:
    """Whether a call may be a part of a graph: it is one operator on the CPU, and no arithmetic, of which a graph makes other operators."""
    plain = brick.schema is not OPERATION and not brick.schema.composed_of
    return plain and brick.output_device == "cpu" and len(brick.operators) == 1


class FusedProgram:
    """The graph of some calls of a step.

    Args:
        calls: in the order of the step.
        batch_size, num_threads: of the step, and of its context.
        crew: the threads that work.
    """

    def __init__(self, calls: Sequence[FusedCall], batch_size: int, num_threads: int, crew: ThreadCrew):
        options = PipelineOptions(batch_size=batch_size, num_threads=num_threads, device_id=None, enable_statistics=False)
        self._crew = crew  # its threads end with it
        self._engine = Engine(options, "asyncdali-capture", lambda seed: nullcontext, crew.workers, only_plans=True)
        self._calls, self._size, self._runs = calls, batch_size, 0
        self._lock = threading.Lock()
        definition = Definition(None)  # type: ignore[arg-type]  # nothing here asks for the options of a pipeline
        with context.Defining(None, definition):
            self._outputs, self._given = self._build()
        wanted = [node for call, nodes in zip(calls, self._outputs, strict=True) if call.wanted for node in nodes]
        self._graph = Immediate(self._engine, wanted, definition.instances)
        found = {built.planned.spec.name: built for built in self._graph.with_positions()}
        self._moving = [found.get(f"call_{k}") for k in range(len(calls))]
        edges = {planned.spec.name: planned.outputs for planned in self._graph.plan.operators}
        self._edges = [edges.get(f"call_{k}", []) for k in range(len(calls))]

    @staticmethod
    def of(calls: Sequence[FusedCall], batch_size: int, num_threads: int, crew: ThreadCrew) -> FusedProgram | None:
        """The graph of some calls; None if the plan of the graph has not all of them, because one operator does the work of several."""
        made = FusedProgram(calls, batch_size, num_threads, crew)
        if all(made._edges):
            return made
        made.close()
        return None

    def _build(self) -> tuple[list[list[Any]], int]:
        outputs: list[list[Any]] = []
        given = 0
        for number, call in enumerate(self._calls):
            nodes = []
            for source, output in call.inputs:
                if source < 0:
                    nodes.append(stand_in(f"given_{given}", "cpu"))
                    given += 1
                else:
                    nodes.append(outputs[source][output])
            graph = call.brick.graph
            device, constants, named = graph.device, graph.constants, graph.named
            plain = len(nodes) - len(named)
            arguments: dict[str, Any] = dict(zip(named, nodes[plain:], strict=True))
            known = dict(constants) if device is None else {**constants, "device": device}
            made = make(call.brick.schema, nodes[:plain], {**known, **arguments, "name": f"call_{number}"})
            outputs.append(list(made.values()) if isinstance(made, dict) else made if isinstance(made, list) else [made])
        return outputs, given

    def run(self, given: Sequence[Samples], positions: Sequence[object]) -> list[FusedOutputs]:
        """The outputs of each call. Raises the first error.

        `given`: the inputs that are no outputs of calls, in their order. `positions`: of random streams, for each call.
        """
        with self._lock:
            for built, position in zip(self._moving, positions, strict=True):
                if built is not None:
                    built.position = position
            self._runs += 1
            edges = self._graph.run_edges({f"given_{k}": samples for k, samples in enumerate(given)}, self._size, self._runs)
        found = []
        for call, numbers in zip(self._calls, self._edges, strict=True):
            batches = [edges[edge] for edge in numbers]
            found.append(FusedOutputs(finished(call.brick, batches) if call.wanted else batches, call.wanted))
        return found

    def close(self) -> None:
        """Release the operators and end the threads."""
        with self._lock:
            self._graph.close()
            self._engine.close()
