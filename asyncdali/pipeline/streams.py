"""The sessions behind select, mix, batch_by and ready: one core for each part of each regrouping.

A part's core has the options of the user's pipeline, and a seed of its own: a digest of the pipeline's seed, the number of the regrouping
and the number of the part. So the draws of a part do not depend on other parts. Engines, worker processes, depth and `on_error` work in a
part as in any pipeline; each part has engines and threads of its own.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import secrets
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import checkpoint as checkpoints
from .._version import __version__
from ..dali_files import checkpoints as dali_checkpoints
from ..errors import OperatorError, OperatorKeyError, refused
from ..graph.plan import check_names, reachable
from ..operators.base import Role
from ..options import REST
from ..regrouping.batch_by import BatchBy, Batching, BatchingState
from ..regrouping.mix import Mix, Mixing
from ..regrouping.part_streams import PartStream
from ..regrouping.puller import RegroupedPuller
from ..regrouping.ready import Ready, Readying
from ..regrouping.ready_streams import ReadyStream
from ..regrouping.regrouping import DeclaredPart, Regrouping
from .front import Front

if TYPE_CHECKING:
    from ..data_node import DataNode
    from ..graph.node import OperatorInstance
    from ..options import PipelineOptions
    from ..runtime.blueprint import Calling
    from ..sources.ports import Port
    from ..sources.pullers import Puller
    from .core import Core
    from .replay.walking import StepWalk


def regroupings(order: Sequence[OperatorInstance]) -> list[Regrouping]:
    """The regroupings among the operators that will run, in order of definition."""
    found = {id(item.attachment): item.attachment for item in order if isinstance(item.attachment, Regrouping)}
    return sorted(found.values(), key=lambda group: group.number)


def refuse_to_store(outputs: Sequence[DataNode], instances: Sequence[OperatorInstance]) -> None:
    """RuntimeError for a graph with select or mix: the stored form of a pipeline has one graph."""
    for group in regroupings(reachable(outputs, instances).order):
        raise RuntimeError(
            f"Could not serialize the operator: `asyncdali.fn.{group.operator}` ({group.name}) has graphs of its own, and a stored "
            "pipeline has one graph. Store the graph function instead."
        )


class PartFront(Front):
    """Stands for a user's pipeline in the core of a part. User functions in a part see the pipeline that the part belongs to."""

    def __init__(self, whole: Core):
        self._whole = weakref.ref(whole)  # the whole keeps its parts
        self._calling_elsewhere = whole.pipeline._calling_elsewhere

    def build(self) -> None:
        """Build the part."""
        self._core.build()

    def define_graph(self) -> Any:
        """The graph is there already."""
        raise NotImplementedError

    def _calling(self, seed: int | None) -> Calling:
        calling: Calling = self._whole().calling(seed)  # type: ignore[union-attr]
        return calling


class Streams:
    """The cores of all parts of one pipeline. They are started and built before its session, and closed with it."""

    def __init__(self) -> None:
        self._cores: dict[int, list[Any]] = {}
        self._started = False
        self.seed: int | None = None
        """The seed that the parts' seeds come from. It is drawn once if the pipeline has none."""
        self.walk: StepWalk | None = None
        """How far ``Pipeline.provenance`` has walked. Only for a thread that holds `walking`."""
        self.walking = threading.Lock()

    def start(self, core: Core) -> None:
        """Make the cores and start their processes, which have to be forked before a GPU is used."""
        if self._started:
            return
        order = reachable(core.output_nodes(), core.definition.instances).order
        _check_parts(order, core.declared_part)
        if core.declared_part is None:
            _check_rules(core.options.on_error, _with_parts(order))
        groups = regroupings(order)
        if groups:
            _check_options(core, groups)
            if self.seed is None:
                self.seed = secrets.randbits(62) if core.options.seed is None else int(core.options.seed)
            core.processes.unfinished.append(self.close)
            self._cores = part_cores(core, core.options, self.seed, groups)
            for part_core in self._own():
                part_core.start_workers()
        self._started = True

    def leave_work(self, core: Core) -> bool:
        """Whether engines have work behind the parts. The batches of the parts are fed to them."""
        order = reachable(core.output_nodes(), core.definition.instances).order
        idle = (Role.INPUT, Role.CONSTANT)
        return not self._cores or any(item.device == "cpu" and item.schema.role not in idle for item in order)

    def build(self) -> None:
        """Build the parts."""
        for core in self._own():
            core.build()

    def puller(self, group: object, ports: dict[str, Port], batch_size: int) -> Puller | None:
        """The puller of a regrouping; None for other sources."""
        if not isinstance(group, Regrouping):
            return None
        parts: list[PartStream] = []
        for k, (declared, core) in enumerate(zip(group.parts, self._cores[id(group)], strict=True)):
            if isinstance(group.regrouper, Readying):
                parts.append(ReadyStream(k, core.built(), core.fill_awaited, group.operator, group.regrouper.window))
            else:
                parts.append(PartStream(k, core.built(), core.fill_awaited, declared.where is not None, group.operator))
        return RegroupedPuller(group, ports, batch_size, parts, functools.partial(self._close, group))

    def set_weights(self, core: Core, weights: Sequence[float], at: int, name: str | None) -> None:
        """See ``Pipeline.set_weights``."""
        puller = _only(core, Mixing, Mix.schema.name, "whose weights could change", name)
        regrouper: Any = puller.regrouper
        with core.built().producer.asking():  # no batch is formed meanwhile, on the thread that asks sources for `run_async`
            regrouper.change(weights, at, puller.position.state.step)
        self._end_walk()

    def part_epochs(self, core: Core, name: str | None) -> list[int]:
        """See ``Pipeline.part_epochs``."""
        return [cursor.epoch for cursor in _only(core, Mixing, Mix.schema.name, "whose parts have epochs", name).position.cursors]

    def padding(self, core: Core, name: str | None) -> float:
        """See ``Pipeline.padding``."""
        state: BatchingState = _only(core, Batching, BatchBy.schema.name, "that could have padding", name).position.state
        return state.padding

    def of(self, group: Regrouping) -> list[Core]:
        """The cores of the parts of a regrouping."""
        return self._cores[id(group)]

    def delivered(self, core: Core, name: str | None) -> bytes:
        """See ``Pipeline.delivered``."""
        puller = _only(core, Readying, Ready.schema.name, "whose order could be noted", name)
        regrouper: Any = puller.regrouper
        return bytes(regrouper.notes(puller.position.state))

    def __bool__(self) -> bool:
        """Whether the pipeline has select or mix."""
        return bool(self._cores)

    def cores(self) -> list[Core]:
        """The cores of all parts, and of their parts."""
        return [core for item in self._own() for core in (item, *item.processes.streams.cores())]

    def _own(self) -> list[Core]:
        return [core for cores in self._cores.values() for core in cores]

    def _close(self, group: Regrouping) -> None:
        self._end_walk()
        for core in self._cores.get(id(group), ()):
            core.close()

    def close(self) -> None:
        """Close all parts. Idempotent."""
        self._end_walk()
        for core in self._own():
            core.close()
        self._cores, self._started = {}, False

    def _end_walk(self) -> None:
        if not self.walking.acquire(timeout=1.0):
            return  # the thread that walks closes the walk, when it finds the pipeline closed
        try:
            walk, self.walk = self.walk, None
        finally:
            self.walking.release()
        if walk is not None:
            walk.close()


def _only(core: Core, kind: type, operator: str, what: str, name: str | None) -> RegroupedPuller:
    """The regrouping of one kind that a name of a result means, or the only one."""
    cores = [core, *core.processes.streams.cores()]
    pullers = [
        puller for item in cores for puller in item.built().producer.sources.pullers
        if isinstance(puller, RegroupedPuller) and isinstance(puller.regrouper, kind)
    ]  # fmt: skip
    if name is not None:
        known = [each for puller in pullers for each in puller.group.nodes]
        pullers = [puller for puller in pullers if name in puller.group.nodes]
        if not pullers:
            last = operator.rpartition(".")[2]
            raise refused(OperatorKeyError, operator, "name", f"no {last} is called {name!r}; known: {', '.join(known) or 'none'}")
    if not pullers:
        raise RuntimeError(f"the pipeline has no fn.{operator} {what}")
    if len(pullers) > 1:
        names = ", ".join(repr(puller.group.name) for puller in pullers)
        raise RuntimeError(f"the pipeline has {len(pullers)} fn.{operator}: give `name`, one of {names}")
    return pullers[0]


def _check_parts(order: Sequence[OperatorInstance], own: DeclaredPart | None) -> None:
    """OperatorError for an operator of a part that is used from outside; RuntimeError for two operators of one name."""
    for item in order:
        if item.part is not own and item.schema.role is not Role.CONSTANT:
            raise refused(
                OperatorError, item.schema.name, None,
                f"the operator {item.name!r} is before fn.experimental.select, mix, batch_by or ready, and its result is also used behind. "
                "There, samples are regrouped: pass the node through as a further input.",
            )  # fmt: skip
    check_names(_with_parts(order), None)


def _with_parts(order: Sequence[OperatorInstance]) -> list[OperatorInstance]:
    """These operators, and those of all parts before them."""
    whole = list(order)
    for group in regroupings(order):
        for part in group.parts:
            whole += _with_parts(reachable(part.outputs, part.definition.instances).order)
    return list({id(item): item for item in whole}.values())


def _check_rules(on_error: object, operators: Sequence[OperatorInstance]) -> None:
    """ValueError if `on_error` names an operator that the pipeline does not have."""
    known = {REST}.union(*((item.name, item.schema.name) for item in operators if item.schema.role is not Role.CONSTANT))
    for name in on_error if isinstance(on_error, Mapping) else ():
        if name not in known:
            text = ", ".join(sorted(known))
            raise ValueError(f"on_error names {name!r}, which is no operator of this pipeline. Its operators: {text}")


def _check_options(core: Core, groups: Sequence[Regrouping]) -> None:
    operator = groups[0].operator
    if core.elsewhere is not None:
        raise refused(
            OperatorError, operator, None,
            f"fn.{operator} does not run with engines on other machines: they make iterations from positions, and its batches depend on "
            "all batches before. Use engines of this machine (engines=2).",
        )  # fmt: skip
    timed = "" if core.part is None else ready_name(groups)
    if timed:
        raise refused(
            OperatorError, operator, None,
            f"{timed!r} gives batches as they are finished, so ranks of a fleet would divide different batches. Give the reader of each "
            "rank its shard (num_shards, shard_id), and build the pipeline without the fleet.",
        )  # fmt: skip
    if core.options.engine_cut is not None:
        raise refused(OperatorError, operator, None, f"engine_cut cannot be combined with fn.{operator}: each part has a cut of its own")


def _saved(options: PipelineOptions) -> dict[str, Any]:
    """The body of the checkpoint to be restored."""
    data = options.checkpoint
    if data is None or dali_checkpoints.is_checkpoint(data):
        return {}
    return checkpoints.decode(data)


def _checkpoint_of(saved: dict[str, Any], group: Regrouping, number: int) -> bytes | None:
    """The checkpoint of a part. None: it has none, and the pipeline says whether that is an error."""
    try:
        operators = saved["graph"]["operators"]
        used = next(name for name in group.nodes if "parts" in operators.get(name, ()))  # the first output that the graph uses
        graph = operators[used]["parts"][number]
        state = checkpoints.State(**saved["operators"][group.name]["parts"][number]["at"])
    except (KeyError, IndexError, TypeError, StopIteration):
        return None
    return checkpoints.encode(checkpoints.graph_json(graph), state, __version__)


def _seed_of(seed: int, regrouping: int, part: int) -> int:
    digest = hashlib.blake2b(f"{seed} {regrouping} {part}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def ready_name(groups: Sequence[Regrouping]) -> str:
    """The name of a ``fn.experimental.ready`` among these regroupings and those before them; empty if there is none."""
    for group in groups:
        inner = [ready_name(regroupings(reachable(part.outputs, part.definition.instances).order)) for part in group.parts]
        if isinstance(group.regrouper, Readying) or any(inner):
            return next(filter(None, inner), group.name)
    return ""


def part_cores(whole: Core, options: PipelineOptions, seed: int, groups: Sequence[Regrouping]) -> dict[int, list[Core]]:
    """The cores of the parts of the pipeline whose core is `whole`, by the id of the regrouping. They have these `options`."""
    saved = _saved(options)
    return {
        id(group): [
            _core_of(whole, options, group, k, _seed_of(seed, number, k), _checkpoint_of(saved, group, k)) for k in range(len(group.parts))
        ]
        for number, group in enumerate(groups)
    }


def _core_of(whole: Core, given: PipelineOptions, group: Regrouping, number: int, seed: int, checkpoint: bytes | None) -> Core:
    part, options = group.parts[number], copy.copy(given)
    options.seed, options.checkpoint = seed, checkpoint
    options.output_dtype = options.output_ndim = options.output_layout = None
    front: Any = PartFront(whole)  # it has what a core calls
    core = front._core = type(whole)(front, options, part.definition)
    core.access, core.declared_part, core.front = whole.access, part, front
    core.set_outputs(list(part.outputs))
    if isinstance(group.regrouper, Readying):
        core.beside = options.exec_pipelined = True  # batches that may overtake each other are made at the same time
        if not options.exec_separated:
            options.prefetch_queue_depth = max(2, options.prefetch_queue_depth)
    return core
