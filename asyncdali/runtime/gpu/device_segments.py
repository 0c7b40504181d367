"""One segment on a GPU: planned as on the CPU, then queued on its stream. The host does not wait for the device.

Every planned batch gets its device memory, so the parts of a batch that a condition splits are addresses in this memory. Contents that
operators know while planning (draws, constants), and inputs of `.gpu()`, are uploaded. The launches of the steps follow, with one upload of
all their tables. An event behind them signals that the outputs are complete. If a mixed operator's steps have no launches, worker threads
make its pixels in pinned memory, and the result is uploaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.places import lay_out, to_addresses
from ...device.cuda.arrays import buffers_of
from ...device.cuda.device import CudaStream
from ...device.cuda.driver import DriverError
from ...device.cuda.fusion import fused
from ...device.cuda.gather import copy_launch
from ...device.cuda.memory import CudaEvent, DeviceBuffer
from ...device.cuda.nvjpeg import AllDecoded
from ...device.joint import Joint
from ...device.launch import Launch
from ...graph.plan import Segment
from ...operators.base import Arguments, Iteration, Operator, Planned, Step, Trait
from ..order.record import Record
from ..templates import Templates
from ..templates.device import device_templates
from ..templates.whole import TooLargeOutput
from ..work.jobs import CompiledSamples, Jobs, Timed, Waiting
from ..work.segments import BuiltOperator, BuiltSegment, Fresh, Host, SegmentRun, Slots, Steps
from .device_decoding import SplitDecode

if TYPE_CHECKING:
    from ..counting.segment_counters import DeviceTimes, Lap
    from ..templates.device import KeptMemory

_ANY_SIZE = 1 << 62

Launches: TypeAlias = "list[tuple[BuiltOperator | None, Launch]]"
"""Launches, and the operators that errors name."""


_READ_TOGETHER = 6
"""Most batches of files that are read together for a GPU. Each job of reading is one more entry into the interpreter."""


class DeviceSegment(BuiltSegment):
    """A mixed or gpu segment. Its plans are copied in a built pipeline only (:func:`segment_beside_gpu`)."""

    stream: CudaStream

    def __init__(self, segment: Segment, operators: list[BuiltOperator], stream: CudaStream | None = None):
        """`stream`: None: the executor sets it."""
        super().__init__(segment, operators)
        if stream is not None:
            self.stream = stream
        self.instant = False  # the deciding thread must not make calls that can block
        self.anywhere = all(Trait.ACTS_OUTSIDE not in built.operator.traits and not built.operator.barrier for built in operators)
        self.templates = None

    def new_run(self, record: Record, host: Host) -> SegmentRun:
        return DeviceSegmentRun(self, record, host, self.stream)

    def times(self) -> DeviceTimes:
        return self.stream.times()


def segment_beside_gpu(segment: Segment, operators: list[BuiltOperator]) -> BuiltSegment:
    """A segment of a built pipeline with a GPU."""
    if segment.backend != "cpu":
        on_gpu = DeviceSegment(segment, operators)
        on_gpu.templates = device_templates(operators, on_gpu.kept, on_gpu.returned, on_gpu.fuses_launches)
        return on_gpu
    made = BuiltSegment(segment, operators)
    if not segment.in_engines:
        made.anywhere = all(_only_plans(built.operator) for built in operators)
        for built in operators:
            built.following = _READ_TOGETHER - 1 if Trait.READS_TOGETHER in built.operator.traits else 0
    return made


def _only_plans(operator: Operator) -> bool:
    """Whether an operator on the CPU has little to do on the thread that plans it: a few draws, or files that worker threads read."""
    return operator.instant or (Trait.READS_TOGETHER in operator.traits and not operator.may_wait)


class Queueable(NamedTuple):
    """An iteration that is copied: its clock, its marks so far, the objects that must stay alive, and the memory that it uses again."""

    times: DeviceTimes | None
    marks: list[Any]
    keep: list[object]
    kept: KeptMemory


class DeviceSegmentRun(SegmentRun):
    """Runs a mixed or gpu segment for one iteration record."""

    def __init__(self, segment: BuiltSegment, record: Record, executor: Host, stream: CudaStream):
        super().__init__(segment, record, executor, stream)
        self._stream = stream
        self._device = stream.device
        self._commands = stream.commands()  # recorded first, and executed together
        self._direct = segment.operators[0].operator.barrier  # the operator may queue work on the stream itself
        # Empty tuples in place of lists, and of a set: most iterations have none of these.
        self._uploads: Sequence[tuple[Batch, Batch]] = ()  # (in device memory, on the host)
        self._downloads: Sequence[tuple[Batch, Batch]] = ()  # (on the host, in device memory)
        self._by_host: Sequence[Batch] = ()  # batches that the worker threads make
        self._decoded: Sequence[SplitDecode] = ()  # batches of which the GPU's engines decode a part
        self._made: list[DeviceBuffer] = []
        self._passing: list[DeviceBuffer] = []  # buffers that only this object knows
        self._read: list[DeviceBuffer] = []  # buffers of others that this iteration's commands use
        self._ordered: set[object] = set()  # buffers and events that the stream already waits for
        self._joint: Joint | None = None  # joins the decoders' parts; the worker threads' part is added last
        self._queueable: Queueable | None = None  # the copied plan of the iteration, if there is one
        self._split: Sequence[int] = ()  # address arrays (by id) whose samples also belong to other batches

    def phases(self) -> Jobs:
        self._device.enter()
        self._stream.throttle()
        self._order_inputs()
        if self._direct:
            self._commands.perform()
        yield from super().phases()

    def abandon(self) -> None:
        """Wait for everything that was begun, because neither buffers nor the stream need to know of it."""
        AllDecoded([images for decode in self._decoded for images in decode.images]).wait()
        self._stream.settle()

    # --- copied iterations

    def _templates(self, lap: Lap | None) -> Templates | None:
        return self.segment.templates if self._is_plain() else None

    def _copied(self, templates: Templates, steps: Steps, fresh: Fresh, produced: dict[int, int], lap: Lap | None) -> bool:
        """Make the outputs of an iteration that is copied, and record its commands."""
        edges = self.record.edges
        template = None if fresh or steps else templates.find(edges, self.record.batch_size)
        if template is None:
            return False
        times, marks = (None, []) if lap is None else self._marks(lap.timed)
        keep: list[object] = [self._uploads, template]
        for batch, source in self._uploads:
            keep.extend(self._copy(batch, source))
        try:
            keep.append(template.queue(edges, self._device, self._commands, self._made))
        except TooLargeOutput as error:
            raise self._wrap(error.built, error.error) from error.error
        if lap is not None:
            for built in templates.rest:
                lap.planned(built.counters)
        self._queueable = Queueable(times, marks, keep, template.kept)
        return True

    # --- planning

    def _plan(self, built: BuiltOperator, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        if built.is_transfer:
            return Planned([self._moved(inputs[0], built.operator.output_device)])
        planned, by_decoders = super()._plan(built, inputs, arguments, iteration), False
        if built.hands_out_samples:
            self._split = (*self._split, *[id(batch.addresses) for batch in inputs])
        if planned.steps and any(step.launches is None for step in planned.steps):
            if built.planned.spec.device != "mixed":
                raise NotImplementedError(
                    f"{built.planned.spec.schema.name} has no CUDA kernel for these arguments or this input; give it CPU inputs, or set "
                    "ASYNCDALI_DEVICE=host"
                )
            split = [step for step in planned.steps if step.hardware is not None]
            by_decoders = any(step.hardware is not None and step.hardware.lanes for step in split)
            if split:
                self._decoded = (*self._decoded, SplitDecode(built, split[0], planned.outputs[0], self._rows(built)))
            else:
                self._by_host = (*self._by_host, *[batch for batch in planned.outputs if batch.owner is None])
        planned.outputs = [self._on_device(batch) for batch in planned.outputs]
        for batch in planned.outputs:
            if batch.owner is None and batch.alias_of is None:
                self._find_place(batch, by_decoders)
        if built.is_input:
            self._order(planned.outputs[0])
        return planned

    def _fed(self, batch: Batch) -> Batch:
        if type(batch.owner) is not DeviceBuffer:
            batch = self._on_device(batch)
            if batch.owner is None and batch.alias_of is None:
                self._find_place(batch, False)
        self._order(batch)
        return batch

    def _moved(self, source: Batch, to: str) -> Batch:
        if _is_on_device(source) == (to == "gpu"):
            return Batch.alias(source, source.shapes, source.dtype, source.layout)
        moved = Batch(source.shapes, source.dtype, source.layout, source_info=source.source_info)
        if to == "gpu":
            self._uploads = (*self._uploads, (moved, source))
            self._to_device(moved)
        else:
            self._downloads = (*self._downloads, (moved, source))
            moved.reserve(self._device.staging.allocate)
        return moved

    def _on_device(self, batch: Batch) -> Batch:
        """The batch itself; or, if its contents are known on the host, a batch that will be uploaded."""
        if (batch.alias_of or batch).owner is None or _is_on_device(batch) or not len(batch):
            return batch
        return self._moved(batch, "gpu")

    def _find_place(self, batch: Batch, by_decoders: bool) -> None:
        if any(batch is made for made in self._by_host):
            batch.reserve(self._device.staging.allocate)
        else:
            self._to_device(batch, by_decoders)

    def _place(self, fresh: Fresh) -> tuple[Slots, int]:
        return [], 0  # device memory was assigned before

    def _to_device(self, batch: Batch, at_once: bool = False) -> None:
        """Device memory for a batch. The addresses are written into the batch's own array. `at_once`: see ``DevicePool.allocate``."""
        extents, addresses = batch.extents, address_of(batch.addresses)
        if extents is None:
            shapes = np.ascontiguousarray(batch.shapes, np.int64)
            given = address_of(shapes), len(shapes), shapes.shape[1], batch.itemsize
            size = lay_out(*given, limits.CHECKED, addresses)
            if size < 0:
                batch.checked_sizes(on_gpu=True)
                size = lay_out(*given, _ANY_SIZE, addresses)
        else:
            size = extents.total
        buffer = self._device.pool.allocate(size, self._commands, at_once)
        self._made.append(buffer)
        to_addresses(addresses if extents is None else address_of(extents.offsets), len(batch), buffer.address, addresses)
        batch.owner, batch.contiguous = buffer, True

    # --- queueing

    def _pixels(self, steps: Steps, fresh: Fresh, slots: Slots, scratch: int, timed: Timed) -> Jobs:
        if self._queueable is not None:
            copied = self._queueable
            self._ran(copied.times, copied.marks, copied.keep)
            copied.kept.sure = True
            return
        compiled = [(built, step) for built, step in steps if isinstance(step, Step)]  # addresses of partial batches are known by now
        by_host: Steps = [(built, step) for built, step in compiled if step.launches is None and step.hardware is None]
        self._device.enter()  # this may be a worker thread, after Python work of an operator
        self._joint = joint = self._new_joint()
        try:
            for decode in self._decoded:
                by_host.extend(decode.start(self._device, joint))
            yield from super()._pixels(by_host, fresh, slots, scratch, timed)
        finally:
            self._leave_joint()
            for decode in self._decoded:
                decode.host_over()
        for decode in self._decoded:
            decoded = AllDecoded(decode.images)
            if not decoded.is_over():
                yield Waiting(decoded)
            if decode.failed:  # a broken file fails its batch on the engines; the CPU decodes the batch, or names the broken file
                yield from super()._pixels(decode.all_by_host(self._device), fresh, slots, scratch, Timed.NO)
                decode.judge()
        self._device.enter()  # this thread finished the work last, or waited for it
        times, marks = self._marks(timed)
        keep: list[object] = [self._uploads, self._downloads, compiled]
        for batch in self._by_host:
            host = Batch(batch.shapes, batch.dtype, batch.layout)
            host.place(batch.owner)
            self._to_device(batch)
            keep.extend(self._copy(batch, host, pinned=True))
        for batch, source in self._uploads:
            keep.extend(self._copy(batch, source))
        for batch, source in self._downloads:
            keep.extend(self._copy(batch, source, pinned=True))
        launches: Launches = []
        for decode in self._decoded:
            launches += decode.gather(self._device, self._commands, self._passing, keep)
        for built, step in compiled:
            if step.launches is not None:
                launches += [(built, launch) for launch in step.launches()]
        self._launch(launches + self._gathered(keep), keep)
        told = [(built, step.afterwards) for built, step in compiled if step.afterwards is not None]
        event = self._ran(times, marks, keep)
        if self._downloads or told:
            yield Waiting(event)
        for built, afterwards in told:
            try:
                afterwards()
            except Exception as error:
                raise self._wrap(built, error) from error

    def _new_joint(self) -> Joint | None:
        """Reports the parts of the decoders and of the worker threads together. None: each part is reported alone.

        A trace, a measured balance, and a search for a sample need the end of each part."""
        counters = self.segment.counters
        traced = self.record.careful or (counters is not None and counters.recorder is not None)
        return Joint() if self._decoded and not traced and not any(decode.measures for decode in self._decoded) else None

    def _begins(self, job: CompiledSamples) -> None:
        if self._joint is not None:
            self._joint.replace(job)
            self._joint = None

    def _leave_joint(self) -> None:
        """The worker threads have no part."""
        joint, self._joint = self._joint, None
        if joint is not None:
            joint.leave()

    def _launch(self, launches: Launches, keep: list[object]) -> None:
        """Queue the launches, for operators or on behalf of none. An error of the compiler names the operator."""
        if self.segment.fuses_launches and any(launch.offers is not None for _, launch in launches):
            launches = fused(launches, self._stored(launches))
        ready = []
        for built, launch in launches:
            try:
                ready.append((built, launch, self._device.function(launch.kernel)))
            except Exception as error:
                raise (error if built is None else self._wrap(built, error)) from error
        if ready:
            keep.append(self._device.launch_all(ready, self._commands, self._passing))

    def _marks(self, timed: Timed) -> tuple[DeviceTimes | None, list[object]]:
        """The clock of the device's work, and the mark before this work. An untimed iteration has neither."""
        counters = self.segment.counters
        times = None if counters is None or timed is not Timed.PROCESSOR else counters.times
        return times, [] if times is None else [times.mark(self._commands)]

    def _ran(self, times: DeviceTimes | None, marks: list[Any], keep: list[object]) -> CudaEvent:
        """Queue everything, and count it. Returns the event behind it."""
        if times is not None:
            marks.append(times.mark(self._commands))
        event = self._queue(keep)
        for decode in self._decoded:
            decode.queued(event)
        if self.segment.counters is not None:
            self.segment.counters.ran_on_device(marks)
        return event

    def _queue(self, keep: list[object]) -> CudaEvent:
        """Queue all commands on the stream and return the event behind them."""
        try:
            event: CudaEvent = self._device.events.last(self._commands)
        except DriverError as error:
            self._stream.settle()
            raise (error if error.owner is None else self._wrap(error.owner, error)) from None
        handle = self._stream.handle
        for buffer in self._read:
            buffer.used(handle, event)
        for buffer in self._made:
            buffer.ready = event
            buffer.passed(handle, event)
        for buffer in self._passing:
            buffer.passed(handle, event)
        self._passing.clear()
        self._read.clear()
        self._ordered.clear()
        self._stream.keep(event, keep)
        return event

    def _stored(self, launches: Launches) -> set[int]:
        """The address arrays, by id, of batches that are needed in memory: other segments, or several operators, read them."""
        readers = self._readers()
        offered = [id(launch.offers.target) for _, launch in launches if launch.offers is not None]
        shared = {target for target in offered if readers.get(target) != 1}
        return shared.union([id(self.record.edges[edge].addresses) for edge in self.segment.kept], self._split)

    def _readers(self) -> dict[int, int]:
        """The number of operators that read each batch, by the id of its address array. A launch need not name what it reads: it may have
        addresses of parts of samples. Operators that only view the batch do not count, their readers do."""
        edges = self.record.edges
        readers: dict[int, int] = {}
        for built in self.segment.operators:
            made = [id(edges[edge].addresses) for edge in built.outputs]
            for target in {id(edges[edge].addresses) for edge in built.inputs}.difference(made):
                readers[target] = readers.get(target, 0) + 1
        return readers

    def _order_inputs(self) -> None:
        """The stream waits for the work of other streams. Other streams wait for this stream before they reuse the memory."""
        for edge in self.segment.read:
            batch = self.record.edges[edge]
            if batch is not None:
                self._order(batch)

    def _order(self, batch: Batch) -> None:
        ordered, stream = self._ordered, self._stream.handle
        for buffer in buffers_of(batch.memory_owner):
            if buffer in ordered:
                continue
            ordered.add(buffer)
            if self._direct:
                buffer.readers.add(stream)
            else:
                self._read.append(buffer)
            ready = buffer.ready
            if ready is not None and buffer.stream != stream and ready not in ordered:
                ordered.add(ready)
                self._commands.wait(ready)

    def _copy(self, target: Batch, source: Batch, pinned: bool = False) -> list[object]:
        """Queue the copy of a contiguous batch to `target`. Returns the object that must stay alive until then.

        `pinned`: the memory on the host is the device's staging memory.
        """
        owner = (target.alias_of or target).owner
        size = owner.size if isinstance(owner, DeviceBuffer) and target.alias_of is None else int(target.sizes().sum())
        commands = self._commands
        if not size:
            return []
        start = int(target.addresses[0])
        if source.values is not None:
            values = np.ascontiguousarray(source.values)
            commands.copy(start, address_of(values), size)
            return [values]
        if source.contiguous:
            commands.copy(start, int(source.addresses[0]), size, pinned)
            return [source.memory_owner]
        self._device.copy_samples(start, source, commands, self._passing, pinned=pinned)
        return [source.memory_owner]

    def _gathered(self, keep: list[object]) -> Launches:
        """Gather outputs whose samples are parts of several batches but could be one tensor, or that are in the user's memory.

        Gathering now is cheap; later the host would have to wait. Returns the launches; `keep` receives the objects that they need."""
        launches: Launches = []
        for edge in self.segment.returned:
            batch = self.record.edges[edge]
            if batch is None or not len(batch) or not _is_on_device(batch):
                continue
            lent = batch.reused_memory is not False and batch.reused_samples().any()  # the memory is the user's: the output is a copy
            if not lent and (batch.contiguous or (batch.shapes != batch.shapes[0]).any()):
                continue
            dense = Batch(batch.shapes, batch.dtype, batch.layout, device=batch.device, source_info=batch.source_info)
            dense.rows = batch.rows
            self._to_device(dense)
            sources, targets, sizes = map(np.ascontiguousarray, (batch.addresses, dense.addresses, batch.sizes()))
            launches.append((None, copy_launch(sources, targets, sizes)))
            keep.append(batch.memory_owner)
            self.record.edges[edge] = dense
        return launches


def _is_on_device(batch: Batch) -> bool:
    return bool(buffers_of(batch.memory_owner))
