"""Templates of a GPU's uploads: the tables and arrays of all launches of an iteration are one block of words, copied to pinned memory.

On a GPU nothing runs per sample on the host. So not plans are copied but the upload of an iteration with its launches. Fed batches,
constants and uploads of other segments' batches are planned in every iteration, and first.

Kernels do not write to their tables. Pools hand out a few blocks in turn, so the addresses of an iteration repeat, and with them its upload
and its launches. The last uploads stay in device memory, and are used again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import Batch, Extents
from ...compiled.addresses import address_of
from ...compiled.tables import Handle, table_of
from ...device.cuda.device import CudaDevice, Tables
from ...device.cuda.fusion import fused
from ...device.cuda.memory import DeviceBuffer
from ...device.launch import Launch
from ...operators.base import Trait
from ..work.built import Built
from .keys import edges_of, has_key
from .outlines import Outline, PlannedOutput
from .tables import Templates
from .views import overlaps
from .whole import TooLargeOutput

if TYPE_CHECKING:
    from ...device.buffers import PooledBuffer
    from ...device.cuda.commands import Commands, RecordedCommands

_MOST_WORDS = 1 << 15
"""Segments with a larger upload are planned in every iteration: copying it would take longer than 50 us."""
_UPLOADS = 16
"""Uploads that a template keeps: with the default depth, about four blocks of inputs and four of outputs are in use."""
_WORD = 8
_IN_UPLOAD, _IN_SCRATCH, _OUTPUTS = range(3)
"""Numbers of the first bases of addresses; outputs and inputs follow."""
_NOWHERE = 1 << 60
_ROOM = 1 << 32
"""Addresses of outputs while their launches are made: no number, and no address of a machine. Output `k` begins at ``_NOWHERE + (k + 1) *
_ROOM``, so that an address within a sample, or before it, is found too. The range is small: bytes of a table of numbers must not lie in it
by chance."""


def device_templates(operators: Sequence[Built], kept: Iterable[int], returned: Iterable[int], fuses: bool) -> DeviceTemplates | None:
    """The templates of a segment of a GPU. None if one of its operators must be planned in every iteration, or an output may have to be
    gathered.

    kept, returned: edges that other segments read, and outputs of the pipeline;  fuses: whether launches may be left out
    """
    heads: list[Built] = []
    for built in operators:
        uploads = built.planned.is_transfer and built.output_device == "gpu"
        if not uploads and (built.sources or not built.operator.instant):
            break
        heads.append(built)
    rest = operators[len(heads) :]
    made = {edge for built in rest for edge in built.outputs}
    if not rest or not all(has_key(built, True) for built in rest) or not made.issuperset(returned):
        return None
    return DeviceTemplates(rest, heads, kept, fuses, _views(rest, made, set(returned)))


def _views(rest: Sequence[Built], made: Collection[int], returned: Collection[int]) -> dict[int, int]:
    """Outputs of the pipeline that view a batch from outside of `rest`, and that no operator of `rest` reads; and that batch. Where its
    memory is the user's, the output is a copy."""
    read = {edge for built in rest for edge in edges_of(built)}
    return {
        built.outputs[0]: built.inputs[0]
        for built in rest
        if Trait.VIEWS in built.operator.traits and built.inputs[0] not in made and built.outputs[0] in returned
        and built.outputs[0] not in read
    }  # fmt: skip


class DeviceTemplates(Templates):
    """The templates of a segment of a GPU."""

    __slots__ = ("_device", "_fuses", "_kept", "_kept_memory", "_readers")

    def __init__(self, rest: Sequence[Built], heads: Sequence[Built], kept: Iterable[int], fuses: bool, copies: Mapping[int, int]):
        super().__init__(rest, heads, on_gpu=True)
        self._copies = copies
        device = rest[0].operator.environment.gpu
        assert device is not None
        self._device: CudaDevice = device
        self._kept_memory = KeptMemory(device)
        self._kept, self._fuses = set(kept), fuses
        edges = [edge for built in rest for edge in set(built.inputs)]
        self._readers = {edge: edges.count(edge) for edge in edges}

    def find(self, edges: Sequence[Any], batch_size: int) -> Any:
        if self._copies and not all(edges[source].reused_memory is True for source in self._copies.values()):
            return None
        return super().find(edges, batch_size)

    def _template(self, outline: Outline) -> DeviceTemplate:
        return DeviceTemplate(outline, self._launches(outline), self._device, self._kept_memory)

    def _launches(self, outline: Outline) -> list[tuple[Built, Launch]]:
        """The launches of the steps, with handles in place of address arrays. TypeError if a step is none for the GPU."""
        handles = outline.handles
        for k, output in enumerate(outline.outputs):
            output.batch.addresses[:] = _NOWHERE + (k + 1) * _ROOM
        made = []
        for built, step in outline.steps:
            if step.launches is None:
                raise TypeError("a step has no launches")
            for launch in step.launches():
                if type(launch) is not Launch:
                    raise TypeError("a launch has no table")
                made.append((built, _declared(launch, handles)))
        stored = {id(handle) for handle in handles.values() if handle.of in self._kept or self._readers.get(handle.of, 0) != 1}
        return [(built, _declared(launch, handles)) for built, launch in (fused(made, stored) if self._fuses else made)]


def _declared(launch: Launch, handles: Mapping[int, Handle]) -> Launch:
    """The launch with handles in place of the address arrays of outputs."""
    offers = launch.offers
    if offers is not None:
        target: Any = offers.target
        offers = dataclasses.replace(offers, target=handles.get(id(target), target))
    context = tuple(handles.get(id(entry), entry) for entry in launch.context)
    return dataclasses.replace(launch, context=context, offers=offers)


class _Copied:
    """An output of a template, without memory."""

    __slots__ = ("batch", "built", "edge", "extents", "origins")

    def __init__(self, output: PlannedOutput):
        self.edge, self.built, self.batch, _ = output
        self.origins = output.origins
        self.extents = Extents.of(self.batch.shapes, self.batch.dtype)


class _Uploads:
    """The last uploads of a template. `ready`: by the addresses in an upload, where it is, and the launches that read it."""

    __slots__ = ("_memory", "_size", "ready")

    def __init__(self, memory: DeviceBuffer, size: int):
        self._memory, self._size = memory, size
        self.ready: dict[tuple[object, ...], tuple[int, RecordedCommands]] = {}

    def place(self) -> int:
        """The address of the next upload. When there is no room, the oldest one is forgotten."""
        count = len(self.ready)
        if count < _UPLOADS:
            return self._memory.address + count * self._size
        return self.ready.pop(next(iter(self.ready)))[0]


class KeptMemory:
    """Device memory that the copied iterations of a segment keep: uploads by template, and scratch memory.

    One stream uses the memory, in order. So uploads are replaced, and scratch memory is used again, without waiting.

    sure   whether the commands of the last iteration have been executed. If not, the contents are not known, and all is given back
    """

    __slots__ = ("__weakref__", "_device", "_scratch", "_uploads", "sure")

    def __init__(self, device: CudaDevice):
        self._device = device
        self._uploads: dict[DeviceTemplate, _Uploads] = {}
        self._scratch: DeviceBuffer | None = None
        self.sure = True
        device.keepers.add(self)

    def begin(self) -> None:
        """Commands that use the memory will be recorded. When they have been executed, :attr:`sure` is set."""
        if not self.sure:
            self.clear()
        self.sure = False

    def clear(self) -> None:
        """Give all memory back to the pool."""
        self._uploads.clear()
        self._scratch = None

    def uploads(self, template: DeviceTemplate, size: int, commands: Commands) -> _Uploads:
        """The uploads of a template, of `size` bytes each."""
        found = self._uploads.get(template)
        if found is None:
            found = self._uploads[template] = _Uploads(self._device.pool.allocate(_UPLOADS * size, commands), size)
        return found

    def scratch(self, size: int, commands: Commands) -> int:
        """The address of `size` bytes of scratch memory."""
        if self._scratch is None or self._scratch.size < size:
            self._scratch = self._device.pool.allocate(size, commands)
        return self._scratch.address


class DeviceTemplate:
    """The launches of a segment for inputs with one key. The bases of addresses are the upload, scratch memory, the memory of outputs, and
    inputs (the samples of those that are not contiguous)."""

    __slots__ = (
        "_apart", "_copied", "_dense", "_launches", "_outputs", "_places", "_relocate", "_scratch", "_template", "_upload", "kept",
    )  # fmt: skip

    def __init__(self, outline: Outline, launches: Sequence[tuple[Built, Launch]], device: CudaDevice, kept: KeptMemory):
        """TypeError if the tables are too large, or have addresses that are not declared."""
        from ...compiled.relocation import relocate

        self._relocate = relocate.entry
        tables = Tables([launch for _, launch in launches])
        if tables.upload_bytes > _WORD * _MOST_WORDS:
            raise TypeError("the tables are large")
        self._outputs = [_Copied(output) for output in outline.outputs]
        bases: dict[int, int] = {}  # by edge: the number of the first base
        self._dense: list[int] = []
        self._apart: list[int] = []
        count = _OUTPUTS + len(self._outputs)
        read = dict.fromkeys(entry.of for _, launch in launches for entry in launch.context if isinstance(entry, Handle))
        picked = {entry.of for _, launch in launches for entry in launch.context if isinstance(entry, Handle) and entry.samples is not None}
        if not picked.isdisjoint(output.edge for output in self._outputs):
            raise TypeError("a launch picks samples that this segment makes")  # a launch may be left out for its only reader
        for edge, view in sorted(outline.inputs.items(), key=lambda item: not item[1].contiguous):
            if edge in read:
                if view._elements is not None or not len(view):
                    raise TypeError("an input is in the host's memory, or empty")
                bases[edge] = count
                (self._dense if view.contiguous else self._apart).append(edge)
                count += 1 if view.contiguous else len(view)
        bases.update((output.edge, number) for number, output in enumerate(self._outputs, _OUTPUTS))
        block, places = self._block(tables, outline, bases)
        self._template, self._places = block, np.array(places, np.int64).reshape(-1, 2)
        self._copied = len(block), address_of(self._template), address_of(self._places)
        self._upload, self._scratch = tables.upload_bytes, tables.total_bytes - tables.upload_bytes
        functions = [device.function(launch.kernel) for _, launch in launches]
        self._launches = [
            (owner, function, launch.grid, launch.block, launch.shared, _WORD * begin)
            for (owner, launch), function, begin in zip(launches, functions, tables.begins, strict=True)
        ]
        self.kept = kept

    def _block(self, tables: Tables, outline: Outline, bases: dict[int, int]) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """The words of the upload, and (word, base) of the addresses among them."""
        block = np.zeros(tables.upload_bytes // _WORD, np.int64)
        raw, places = block.view(np.uint8), []
        extents = {output.edge: output.extents for output in self._outputs}
        nowhere = np.array([(_NOWHERE, _NOWHERE + (len(self._outputs) + 2) * _ROOM)])
        for at, array in zip(tables.places, tables.arrays):
            first = at // _WORD
            if isinstance(array, Handle):
                edge, words = array.of, slice(first, first + len(array))
                view = outline.inputs.get(edge)
                apart = view is not None and not view.contiguous
                samples = range(len(array)) if array.samples is None else array.samples.tolist()
                if not apart:
                    offsets = extents[edge].offsets if view is None else Extents.of(view.shapes, view.dtype).offsets
                    block[words] = offsets if array.samples is None else offsets[array.samples]
                places += [(first + k, bases[edge] + (sample if apart else 0)) for k, sample in enumerate(samples)]
                continue
            if overlaps(array, nowhere):
                raise TypeError("a word is an address that no table declares")
            dense = np.ascontiguousarray(array)
            raw[at : at + dense.nbytes] = dense.reshape(-1).view(np.uint8)
        words_of_tables = block[: len(tables.words)]
        words_of_tables[:] = tables.words
        if overlaps(words_of_tables, nowhere):
            raise TypeError("a word is an address that no table declares")
        begin = tables.upload_bytes if tables.total_bytes > tables.upload_bytes else _NOWHERE  # of scratch memory
        for k in tables.addresses:
            in_scratch = block[k] >= begin
            block[k] -= begin if in_scratch else 0
            places.append((k, _IN_SCRATCH if in_scratch else _IN_UPLOAD))
        return block, places

    def queue(
        self, edges: list[Any], device: CudaDevice, commands: Commands, made: list[DeviceBuffer]
    ) -> PooledBuffer | None:  # fmt: skip
        """Make the outputs of an iteration in `edges`, and add the upload, unless it is there, and the launches to `commands`.

        Returns the host memory that must stay alive until the commands are done. Buffers are appended to `made`. TooLargeOutput if there is
        no memory for an output."""
        kept = self.kept
        kept.begin()
        uploads = kept.uploads(self, self._upload, commands)
        known = [kept.scratch(self._scratch, commands) if self._scratch else 0]
        for output in self._outputs:
            of, extents = output.batch, output.extents
            try:
                buffer = device.pool.allocate(extents.total, commands)
            except MemoryError as error:
                raise TooLargeOutput(output.built, error) from None
            known.append(buffer.address)
            made.append(buffer)
            batch = Batch(of.shapes, of.dtype, of.layout, extents.offsets + buffer.address, buffer, contiguous=True, device="gpu")
            if output.origins is not None:
                batch.source_info = edges[output.origins].source_info
            edges[output.edge] = batch
        for edge in self._dense:
            known.append(edges[edge].first_address)
        apart = [edges[edge].addresses for edge in self._apart]
        key = (*known, *[addresses.tobytes() for addresses in apart])
        found, staged = uploads.ready.get(key), None
        if found is None:
            address = uploads.place()
            staged = device.staging.lend(self._upload)
            bases = np.concatenate([table_of([address, *known]), *apart])
            words, template, places = self._copied
            self._relocate(staged.address, words, template, places, address_of(bases), len(self._places))
            commands.copy(address, staged.address, self._upload, pinned=True)
            found = uploads.ready[key] = address, self._launched(commands, address)
        commands.add(found[1])
        return staged

    def _launched(self, like: Commands, upload: int) -> RecordedCommands:
        """The launches with tables at `upload`, for lists like this one."""
        commands = like.another()
        for owner, function, grid, block, shared, begin in self._launches:
            commands.record_for(owner)
            commands.launch(function, grid, block, shared, upload + begin)
        commands.record_for(None)
        return commands.recorded()
