"""All external inputs of a built pipeline: pulled, fed and checked together, and returned one iteration at a time.

The problem. An iteration needs a batch of every source. A source may fail, end, or give data that cannot be used; the caller may be
interrupted between two sources. The sources must stay in step: sample i of one source belongs to sample i of the others.

What does not work:

- Asking one source after another and giving up at the first error: the sources before the failed one have lost a batch.
- Asking again after an interrupt: a generator cannot give the same batch twice.
- Raising the error of a source at once: good batches before it are still in flight, and their order would change.

The solution. Feeding is all or nothing: every source is asked, every batch is checked, and only then an iteration gets its data. If one
source fails, the batches of the others are held (``_held``) for the next attempt, together with the iteration that they belong to. A source
does not advance until its batch is in a queued iteration. Errors are not raised here: the producer keeps them until the good batches before
them are delivered. Requests to sources stay until they are answered, so an interrupted call does not ask twice.

Batches are copied into pooled memory. Batches of worker processes are used where the worker wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from asyncdali_workers import WorkerCallbackError, WorkerError
from asyncdali_workers.interrupts import raised_by_signal, uninterrupted

from ..batch import Batch
from ..data_node import DataNode
from ..errors import (
    OperatorError,
    OperatorKeyError,
    OperatorTypeError,
    OperatorValueError,
    PipelineClosed,
    operator_error,
    place,
    refused,
)
from ..messages.notices import warn
from .awaited import AwaitedPuller
from .group import Group
from .ports import Port
from .pullers import DirectPuller, Puller
from .samples import Answer
from .snapshots import Snapshots

if TYPE_CHECKING:
    from ..device.cuda.device import CudaDevice
    from ..graph.plan import PlannedOperator
    from .parallel import Parallel

Fed = dict[str, "Batch | Exception"]
"""Node -> its batch, or the error that is raised instead."""


Kind = TypeVar("Kind", bound=Answer)


MakePuller: TypeAlias = Callable[[Group, dict[str, Port], int], Puller | None]
"""Makes the puller of a source from its group, the ports and the batch size. None for sources of other kinds."""


def no_puller(group: object, ports: dict[str, Port], batch_size: int) -> Puller | None:
    """Without engines, no source is called elsewhere; without a regrouping, no batch comes from one."""
    return None


class Sources:
    """All external inputs; see the module. Made in ``build()``.

    `planned` are the external inputs of the plan, in order.
    """

    def __init__(
        self,
        planned: Sequence[PlannedOperator],
        batch_size: int,
        allocate: Callable[[int], object],
        checkpointing: bool,
        parallel: Parallel | None,
        gpu: CudaDevice | None = None,
        elsewhere: MakePuller = no_puller,
    ):
        """`elsewhere` makes the puller of a source that engines call; None for the others."""
        self.batch_size = batch_size
        self.epoch = 0
        self.iteration = 0
        self.ports: dict[str, Port] = {}
        arrays = None if gpu is None else gpu.fed_arrays()
        for item in planned:
            try:
                self.ports[item.spec.name] = item.kind.port()(item, batch_size, allocate, arrays)  # type: ignore[attr-defined]  # of external inputs
            except Exception as error:
                raise operator_error(item, error, None) from error
        self.pullers = [
            elsewhere(group, self.ports, batch_size) or self._puller(group, parallel) for group in _groups(planned)
        ]
        self._coroutines = [puller for puller in self.pullers if type(puller).awaited_here is not Puller.awaited_here]
        pulled = {name for puller in self.pullers for name in puller.group.nodes}
        self.pushed = [port for name, port in self.ports.items() if name not in pulled]
        self._held: dict[int, Answer] = {}
        self._held_for: tuple[int, int] | None = None  # the pipeline's iteration that batches are held for, and its number in the epoch
        self._stopped = False
        self._here: dict[int, Puller] = {}  # by number of the puller: see `here`
        self.counters: Sequence[Any] = ()
        """For statistics: one counter per puller, whose ``pull(ask)`` times the call. Empty: no counters."""
        self.stateful: dict[str, Snapshots | Any] = {}
        """By node: sources with a state, and inputs that hand out their fed batches in parts."""
        self._warn_unused()
        if checkpointing:
            self._prepare_checkpoints()
            self.stateful.update({port.name: port for port in self.pushed if port.stateful})

    def _puller(self, group: Group, parallel: Parallel | None) -> Puller:
        if group.parallel:
            from .parallel import ParallelPuller

            assert parallel is not None
            return ParallelPuller(group, self.ports, self.batch_size, parallel)
        return self._puller_here(group)

    def _puller_here(self, group: Group) -> Puller:
        return puller_here(group, self.ports, self.batch_size)

    def here(self, k: int) -> Puller:
        """A puller that asks source `k`, which is asked by position, in this process."""
        puller = self.pullers[k]
        if not puller.elsewhere:
            return puller
        if k not in self._here:
            self._here[k] = self._puller_here(puller.group)
            self._here[k].keeps_errors = puller.keeps_errors
        return self._here[k]

    def _warn_unused(self) -> None:
        for puller in self.pullers:
            unused = [k for k, name in enumerate(puller.group.nodes) if name not in self.ports]
            if unused and isinstance(puller.group, Group):
                warn(
                    f"The external source {puller.port.name!r} has {len(puller.group.nodes)} outputs, but the pipeline does not "
                    f"use these: {', '.join(map(str, unused))}. The source computes them nevertheless.",
                    Warning,
                )

    def _prepare_checkpoints(self) -> None:
        for puller in self.pullers:
            what = puller.description
            if what.resumable:
                if what.snapshots:
                    warn(
                        f"The source of {puller.group.name!r} has state_dict(), but it takes the position as its argument, so its state "
                        "is no part of a checkpoint: a restored pipeline asks it for the next positions. Compute its data from the "
                        "position alone, or remove the argument; then the state is saved.",
                        UserWarning,
                    )
                continue
            if what.snapshots:
                self.stateful[puller.group.name] = puller.keep_snapshots()
                continue
            warn(
                f"The pipeline has checkpointing enabled, but the source of {puller.group.name!r} is an {what}: its state is not part of a "
                "checkpoint, and a restored pipeline starts it from the beginning. Use a callable with one argument (the position), or "
                "give the source state_dict() and load_state_dict().",
                UserWarning,
            )


    # --- position

    def seek(self, iteration: int, epoch: int) -> None:
        """Go to batch `iteration` of `epoch`, in all sources that are asked by position."""
        self.iteration, self.epoch = iteration, epoch
        for puller in self.pullers:
            puller.seek(iteration, epoch)

    def next_epoch(self) -> None:
        """Go to the start of the next epoch."""
        self.epoch += 1
        self.iteration = 0
        for puller in self.pullers:
            puller.restart(self.epoch)

    # --- pull

    def start(self) -> None:
        """Let sources that work ahead begin. Called before the first batch of an epoch is requested."""
        for puller in self.pullers:
            puller.start()

    def pull(self, index: int) -> Fed:
        """The data of all sources for iteration `index` of the pipeline. Called until an iteration with this index is queued.

        StopIteration if a source has ended (the others are still asked). An error is raised before an end; of several errors, the first in
        order of definition. Batches of the other sources are kept, and the next call asks only the sources that failed.
        """
        self.commit(index)
        if not self.pullers:
            self._held_for = index, self.iteration
            return {}
        error: Exception | None = None
        for k, puller in enumerate(self.pullers):
            if k in self._held:
                continue
            try:
                ask = partial(self._checked, index, k, puller)
                self._held[k] = self.counters[k].pull(ask) if self.counters else ask()
            except StopIteration:
                with uninterrupted():  # otherwise the next call would ask a source that has ended
                    self._held[k] = {}
                    self._stopped = True
                    puller.ended()
                puller.tell_left_over()
            except Exception as failure:
                if raised_by_signal(failure):  # no error of the source
                    raise
                with uninterrupted():
                    puller.failed()
                error = failure if error is None else error
        self._held_for = index, self.iteration
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        if self._stopped:  # until :meth:`drop`
            raise StopIteration
        fed: Fed = {name: batch for held in self._held.values() for name, batch in held.items()}
        try:
            check_sizes(fed)
        except RuntimeError:
            self.drop()
            raise
        return fed

    def _checked(self, index: int, k: int, puller: Puller) -> Answer:
        """The batches of a source for iteration `index`. Exceptions of the source are raised unchanged; wrong data are an OperatorError."""
        puller.index = index
        try:
            batches = puller.pull()
        except Exception as error:
            if isinstance(error, (WorkerError, OperatorError)):
                place(error, puller.port.planned, index)
            if not puller.keeps_errors or not _raised_elsewhere(puller, error):
                raise
            batches = self._sample_by_sample(k, puller)
        return self.checked(batches, index)

    def _sample_by_sample(self, k: int, puller: Puller) -> Answer:
        """The answer of a source that has failed in another process. It is asked here, which tells the bad samples from the others."""
        iteration = puller.iteration
        with uninterrupted():
            puller.failed()
        here = self.here(k)
        here.index = puller.index
        return here.again(iteration, puller.epoch)

    def checked(self, batches: Kind, index: int) -> Kind:
        """Batches of a source, if each fits its input. OperatorError for others."""
        for name, batch in batches.items():
            if not isinstance(batch, Batch):
                continue
            port = self.ports[name]
            try:
                port.check(batch)
            except RuntimeError as error:
                raise operator_error(port.planned, error, index) from error
        return batches

    def commit(self, index: int) -> None:
        """Move the positions past the iterations before `index`. These iterations are queued, so their batches are used.

        After an interrupt the next call repeats each step.
        """
        if self._held_for is not None and self._held_for[0] < index:
            following = self._held_for[1] + 1
            for puller in self.pullers:
                puller.advance(following)
            self.iteration = following
            self._held, self._held_for = {}, None

    def drop(self) -> None:
        """Discard the batches that are held for the next iteration."""
        for puller in self.pullers:
            puller.drop()
        self._held, self._held_for, self._stopped = {}, None, False

    def settle(self) -> None:
        """Note that the consumer has received all errors and ends so far."""
        for snapshots in self.stateful.values():
            snapshots.settle()

    def positions(self) -> dict[str, object]:
        """Positions of the sources with a state, for a consumer that has received every queued iteration."""
        return {name: snapshots.position for name, snapshots in self.stateful.items()}

    def fed_positions(self) -> dict[str, object]:
        """Positions of the inputs that hand out their fed batches in parts."""
        return {port.name: port.position for port in self.pushed if port.name in self.stateful}

    def before(self) -> dict[str, object]:
        """Positions of the sources with a state, before the batches that are held."""
        return {name: snapshots.before for name, snapshots in self.stateful.items()}

    # --- fed inputs

    def port(self, node: object) -> Port:
        """The input for a node or a name. TypeError or KeyError if there is none; RuntimeError if it has a source."""
        if not isinstance(node, (str, DataNode)):
            message = f"an external input is given by its name or node, got {type(node).__name__}"
            raise refused(OperatorTypeError, "external_source", "name", message)
        name = node if isinstance(node, str) else node.name
        if any(name in puller.group.nodes for puller in self.pullers):
            message = f"Cannot feed the external input {name!r}: it has a `source` of its own"
            raise refused(OperatorError, "external_source", "source", message)
        if name not in self.ports:
            known = ", ".join(repr(port.name) for port in self.pushed) or "none"
            raise refused(
                OperatorKeyError, "external_source", "name",
                f"the pipeline has no external input named {name!r} that its outputs depend on (inputs to be fed: {known})",
            )
        return self.ports[name]

    def waits(self) -> bool:
        """Whether the next iteration must wait for data."""
        return any(port.blocking and not port.has_data() for port in self.pushed)

    def take_fed(self, pulled: Fed) -> Fed:
        """`pulled` and the next fed batches. If their sizes differ, an error for each of them."""
        fed = {**pulled, **{port.name: port.take() for port in self.pushed}}
        try:
            check_sizes(fed)
        except RuntimeError as error:
            return dict.fromkeys(fed, error.with_traceback(None))  # the errors wait with their iteration and must not keep frames alive
        return fed

    def awaited_here(self) -> bool:
        """Whether the running coroutine is a callback of one of these sources."""
        return bool(self._coroutines) and any(puller.awaited_here() for puller in self._coroutines)

    # --- the end

    def close(self) -> None:
        """Nothing more will be pulled."""
        for puller in self.pullers:
            puller.close()


def puller_here(group: Group, ports: dict[str, Port], batch_size: int) -> Puller:
    """A puller that asks a source in this process."""
    kind = AwaitedPuller if group.description.is_async else DirectPuller
    return kind(group, ports, batch_size)


def _raised_elsewhere(puller: Puller, error: Exception) -> bool:
    """Whether an indexed source that another process calls has raised this error. Ended processes and wrong data are other errors."""
    if not puller.indexed or not puller.elsewhere or raised_by_signal(error):
        return False
    return isinstance(error, WorkerCallbackError) or not isinstance(error, (WorkerError, OperatorError, PipelineClosed, StopIteration))


def _groups(planned: Sequence[PlannedOperator]) -> list[Group]:
    """The sources of the external inputs, in order of definition."""
    found = {id(item.attachment): item.attachment for item in planned if item.attachment is not None}
    return sorted(found.values(), key=lambda group: group.number)


def check_sizes(fed: Fed) -> None:
    """Raise RuntimeError unless all batches have the same number of samples."""
    if len(fed) < 2:
        return
    sizes = {name: len(batch) for name, batch in fed.items() if isinstance(batch, Batch)}
    if len(set(sizes.values())) > 1:
        first, *others = sizes
        other = next(name for name in others if sizes[name] != sizes[first])
        raise refused(
            OperatorValueError, "external_source", None,
            f"Batch size clash: {first!r} has {sizes[first]} samples, {other!r} has {sizes[other]}. "
            "All external inputs of an iteration must have the same number of samples."
        )


def batch_size_of(fed: Fed, default: int) -> int:
    """Number of samples of an iteration."""
    for batch in fed.values():
        if isinstance(batch, Batch):
            return len(batch.shapes)
    return default


