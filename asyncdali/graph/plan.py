"""Makes a Plan from nodes: traversal, seeds, merging of equal operators, transfers, segments.

Automatic seeds are assigned in the order of operators, so this order is DALI's: depth first from the outputs. For each operator, its
positional inputs come first, then its argument inputs sorted by argument name, then the operator itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data_node import DataNode
from ..operators.base import REGISTRY, Neighbours, Operator, Role, Schema, Spec
from .node import Definition, OperatorInstance
from .peephole import enabled
from .peephole.caches import mark_kept
from .peephole.contents import mark_eager
from .peephole.expressions import fuse_expressions
from .peephole.feeds import mark_feeds

SEED_TABLE_SIZE = 1024


@dataclass
class PlannedOperator:
    """One operator of the plan: its spec, and the numbers of the edges that it reads and writes."""

    spec: Spec
    kind: type[Operator]
    inputs: list[int]
    arguments: dict[str, int]
    outputs: list[int]
    trace: str
    stage: int = 0
    attachment: Any = None
    """See ``OperatorInstance.attachment``."""
    eager: bool = False
    """Whether its outputs have their contents after planning."""
    made_eager: bool = False
    """Whether the operator is eager only because another operator needs its contents (see ``peephole.contents``)."""
    neighbours: Neighbours = field(default_factory=Neighbours)
    """See ``Operator.neighbours``."""

    @property
    def backend(self) -> str:
        return self.spec.device

    @property
    def is_transfer(self) -> bool:
        """Whether it only moves its input between CPU and GPU. The graph made it, not the user."""
        return self.spec.schema.role is Role.TRANSFER

    def is_download(self, on_cuda: bool) -> bool:
        """Whether it copies from a GPU, so that its output has contents only when the GPU's work is done."""
        return on_cuda and self.is_transfer and self.spec.constant("to") == "cpu"

    def reads_contents(self, on_cuda: bool = False) -> list[int]:
        """Edges whose contents this operator reads before its compiled steps (`on_cuda`: its launches) run."""
        if self.kind.barrier or self.made_eager:
            return [*self.inputs, *self.arguments.values()]
        reads = self.kind.inputs_read(self.spec, on_cuda)
        return [self.inputs[k] for k in reads if k < len(self.inputs)] + list(self.arguments.values())


@dataclass
class Segment:
    """Operators of one backend that are planned together; their compiled steps run sample by sample as one."""

    index: int
    backend: str
    stage: int
    operators: list[PlannedOperator] = field(default_factory=list)
    producers: set[int] = field(default_factory=set)
    consumed_outside: set[int] = field(default_factory=set)
    """Edges of this segment that another segment or the user reads."""
    returned: set[int] = field(default_factory=set)
    """Edges of this segment that the user gets."""
    in_engines: bool = False
    """Whether engines run it (docs/engines.md)."""


@dataclass
class Plan:
    """The executor's program: segments in topological order, and the edges of the pipeline's outputs."""

    operators: list[PlannedOperator]
    segments: list[Segment]
    outputs: list[int]
    edge_count: int


class _Builder:
    def __init__(self, seeds: Callable[[int], int]):
        self.seeds = seeds
        self.taken = 0
        self.order: list[OperatorInstance] = []
        self.seen: dict[int, OperatorInstance] = {}

    def visit(self, instance: OperatorInstance) -> None:
        """Depth first without recursion, because graphs can be deeper than Python's stack."""
        stack: list[tuple[OperatorInstance, list[OperatorInstance]]] = []

        def enter(item: OperatorInstance) -> None:
            self.seen[id(item)] = item
            sources = [node.source for node in item.inputs]
            sources += [item.argument_inputs[name].source for name in sorted(item.argument_inputs)]
            stack.append((item, sources[::-1]))

        if id(instance) not in self.seen:
            enter(instance)
        while stack:
            item, todo = stack[-1]
            if not todo:
                stack.pop()
                self.order.append(item)
            else:
                source = todo.pop()
                if id(source) not in self.seen:
                    enter(source)

    def seed_of(self, instance: OperatorInstance, assigned: dict[int, int]) -> int | None:
        """The seed of one instance. It takes an entry of the table unless a seed was given.

        Every instance of a call with input sets takes an entry, but all of them use the entry of the first one.
        """
        if not instance.schema.seeded:
            return None
        if instance.seed is not None:
            return instance.seed
        value = self.seeds(self.taken % SEED_TABLE_SIZE)
        self.taken += 1
        return assigned.setdefault(id(instance.twin_of or instance), value)


def reachable(outputs: Sequence[DataNode], instances: Sequence[OperatorInstance], seeds: Callable[[int], int] = lambda k: 0) -> _Builder:
    """All operators that will run, in build order: those that the outputs need, and those with side effects."""
    builder = _Builder(seeds)
    for node in outputs:
        builder.visit(node.source)
    for instance in instances:
        if instance.preserve:
            builder.visit(instance)
    return builder


def check_names(order: Sequence[OperatorInstance], definition: Definition | None) -> None:
    """RuntimeError when two operators share a name."""
    names: dict[str, OperatorInstance] = {}
    for instance in order:
        other = names.setdefault(instance.name, instance)
        if other is not instance:
            hint = ""
            if instance.definition() is not definition or other.definition() is not definition:
                hint = " At least one of them was defined under another pipeline."
            raise RuntimeError(f"pipeline has operators with non-unique names: '{instance.name}' is used twice.{hint}")


def _merge_key(instance: OperatorInstance, seed: int | None, inputs: Sequence[int], arguments: dict[str, int], schema: Schema) -> object:
    """A key for merging: equal keys mean equal results. None: never merged."""
    if instance.explicit_name or instance.preserve or schema.role is Role.INPUT:
        return None
    constants = []
    for name in sorted(instance.constants):
        value = instance.constants[name]
        if isinstance(value, np.ndarray):
            value = (value.dtype.str, value.shape, value.tobytes())
        constants.append((name, repr(value) if not isinstance(value, tuple) else value))
    return (schema.name, instance.device, seed, tuple(inputs), tuple(sorted(arguments.items())), tuple(constants))


def build_plan(
    outputs: Sequence[DataNode],
    instances: Sequence[OperatorInstance],
    definition: Definition | None,
    seeds: Callable[[int], int],
    fuse_device: bool = False,
    passes: bool = True,
    whole: Sequence[DataNode] = (),
) -> Plan:
    """The plan of the pipeline that `definition` belongs to; `fuse_device` as in :func:`cut_segments`. RuntimeError on name clashes.

    `passes`: run the passes that save time; they replace operators. `whole`: all outputs of a pipeline of which only `outputs` are made.
    Its operators keep their automatic seeds, and those that nothing but their effects needs do not run.
    """
    builder = reachable(outputs, () if whole else instances, seeds)
    numbering = reachable(whole, instances, seeds) if whole else builder
    check_names(builder.order, definition)
    edges: dict[tuple[int, int, str], int] = {}
    merged: dict[Any, PlannedOperator] = {}
    operators: list[PlannedOperator] = []
    counter = iter(range(1 << 60))
    assigned: dict[int, int] = {}
    seeded = {id(instance): numbering.seed_of(instance, assigned) for instance in numbering.order}

    def edge(node: DataNode) -> int:
        key = (id(node.source), node.index, node.device)
        if key not in edges:
            home = edges[(id(node.source), node.index, "cpu" if node.device == "gpu" else "gpu")]
            edges[key] = next(counter)
            kind = REGISTRY["_transfer"]
            name = f"__transfer_{node.name}_{node.device}"
            # A transfer runs on the GPU's stream in both directions.
            spec = Spec(kind.schema, name, "gpu", {"to": node.device}, (), 1, 1)
            operators.append(PlannedOperator(spec, kind, [home], {}, [edges[key]], node.source.format_trace()))
        return edges[key]

    for instance in builder.order:
        seed = seeded[id(instance)]
        inputs = [edge(node) for node in instance.inputs]
        arguments = {name: edge(node) for name, node in instance.argument_inputs.items()}
        key = _merge_key(instance, seed, inputs, arguments, instance.schema)
        twin = merged.get(key) if key is not None else None
        if twin is None:
            twin = _planned(instance, seed, inputs, arguments, [next(counter) for _ in instance.outputs])
            operators.append(twin)
            if key is not None:
                merged[key] = twin
        for node, number in zip(instance.outputs, twin.outputs, strict=True):
            edges[(id(instance), node.index, node.device)] = number
    out = [edge(node) for node in outputs]
    if passes and enabled("expressions"):
        operators = fuse_expressions(operators, out)
    if passes and enabled("contents"):
        mark_eager(operators)
    if passes and enabled("caches"):
        mark_kept(operators, out)
    segments = cut_segments(operators, out, fuse_device)
    return Plan(operators, segments, out, next(counter))


def names_for_dali(outputs: Sequence[DataNode], instances: Sequence[OperatorInstance], definition: Definition) -> list[str]:
    """The names of the operators that DALI runs for this graph on a CPU: also those that an expression contains, and copies of outputs.

    Equal operators are merged, as in DALI.
    """
    seeds = iter(range(1 << 60))
    plan = build_plan(outputs, instances, definition, lambda k: -1 - next(seeds), passes=False)
    homes = {}
    for planned in plan.operators:
        for index, edge in enumerate(planned.outputs):
            name = planned.kind.names_for_dali(planned.spec)[-1]
            homes[edge] = name if len(planned.outputs) == 1 else f"{name}[{index}]"
    copies = dict.fromkeys(f"__MakeContiguous_CpuToCpu_{homes[edge]}" for edge in plan.outputs)
    return [name for planned in plan.operators for name in planned.kind.names_for_dali(planned.spec)] + list(copies)


def _planned(
    instance: OperatorInstance, seed: int | None, inputs: list[int], arguments: dict[str, int], outputs: list[int]
) -> PlannedOperator:
    constants = {name: value for name, value in instance.constants.items() if name != "seed"}
    spec = Spec(
        instance.schema, instance.name, instance.device, constants, tuple(sorted(arguments)), len(inputs), len(outputs), seed
    )  # fmt: skip
    kind = REGISTRY[instance.schema.name]
    return PlannedOperator(spec, kind, inputs, arguments, outputs, instance.format_trace(), attachment=instance.attachment)


def cut_for_gpu(plan: Plan) -> None:
    """Cut a plan for a GPU: mixed and gpu operators are separate."""
    for planned in plan.operators:
        planned.stage = 0
    plan.segments = cut_segments(plan.operators, plan.outputs, on_cuda=True)


def cut_segments(
    operators: Sequence[PlannedOperator], outputs: Sequence[int], fuse_device: bool = False, on_cuda: bool = False
) -> list[Segment]:
    """Group operators into segments.

    An operator joins the segment of its backend at the earliest possible stage. That stage is after all producers on other backends, and
    after all producers whose *contents* it reads while planning (unless these are ready after planning). A barrier is alone in its segment.
    With `fuse_device` mixed and gpu count as one backend: on the host device, whose kernels run sample by sample, a decoded image is then
    still in the cache. `on_cuda`: all operators except the CPU's run on a GPU.
    """

    def place(planned: PlannedOperator) -> str:
        return "device" if fuse_device and planned.backend != "cpu" and not planned.kind.barrier else planned.backend

    producer: dict[int, PlannedOperator] = {}
    for planned in operators:
        gpu = on_cuda and planned.backend != "cpu"
        contents = set(planned.reads_contents(gpu))
        passed_on = planned.kind.passes_on and all(producer[edge].eager for edge in planned.inputs)
        planned.eager = (planned.kind.is_eager(gpu) and not planned.is_download(gpu)) or planned.made_eager or passed_on
        for edge in [*planned.inputs, *planned.arguments.values()]:
            source = producer[edge]
            cut = (
                place(source) != place(planned)
                or source.kind.barrier
                or planned.kind.barrier
                or (edge in contents and not source.eager)
            )
            planned.stage = max(planned.stage, source.stage + int(cut))
        for edge in planned.outputs:
            producer[edge] = planned
    segments: dict[Any, Segment] = {}
    order = sorted(range(len(operators)), key=lambda k: operators[k].stage)
    home: dict[int, Segment] = {}
    for k in order:
        planned = operators[k]
        key = (planned.stage, place(planned), k if planned.kind.barrier else -1)
        segment = segments.get(key)
        if segment is None:
            segment = segments[key] = Segment(len(segments), planned.backend, planned.stage)
        segment.operators.append(planned)
        for edge in planned.outputs:
            home[edge] = segment
        for edge in [*planned.inputs, *planned.arguments.values()]:
            if home[edge] is not segment:
                segment.producers.add(home[edge].index)
                home[edge].consumed_outside.add(edge)
    for edge in outputs:
        home[edge].consumed_outside.add(edge)
        home[edge].returned.add(edge)
    if enabled("feeds"):
        for segment in segments.values():
            mark_feeds(segment)
    return list(segments.values())
