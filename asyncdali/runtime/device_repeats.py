"""Repeated segments of a GPU: if two iterations need the same launches except for addresses, later iterations copy these launches.

Planning an operator, its launches and their tables takes 50 to 400 us in the interpreter, however small the batch is. Where the shapes of
the inputs repeat, all of this is equal in every iteration except for addresses: of the samples of inputs, of the memory of outputs, and of
the uploaded tables. So the upload of an iteration (all tables and arrays) is kept as a template. One compiled call copies the template to
pinned memory and adds the addresses.

The template of one iteration is never trusted. Another iteration with the same shapes is planned, too, and must give an equal template.
Words of 2**32 and more that lie inside a sample of an input or inside the memory of an output are addresses. Other large words must be
equal both times, although inputs and outputs lay elsewhere: they are addresses of memory that an operator keeps. If the samples of the
inputs lay at the same addresses both times, nothing shows which sample an address belongs to. Then the template serves these addresses
only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..batch import Batch
from ..compiled.addresses import address_of
from ..device.cuda.device import CudaDevice, Tables
from ..device.cuda.memory import DeviceBuffer
from ..device.launch import Launch
from ..operators.base import Iteration, Trait
from .repeats import TooLargeOutput
from .replays import is_repeatable, key_of
from .watched import read_outside_of_key

if TYPE_CHECKING:
    from ..device.cuda.commands import Commands
    from .segment_counters import DeviceTimes
    from .segments import BuiltOperator

_MOST_SEGMENTS = 4
"""Number of templates that are kept per segment; see ``replays._MOST_PLANS``."""
_MOST_WORDS = 1 << 15
"""Segments with a larger upload are planned in every iteration: copying it would take longer than 50 us."""
_TRIALS = 64
"""Iterations without a template after which inputs that are always new are given up; and most templates that are made in vain."""
_LEAST_ADDRESS, _PAST_ADDRESSES = 1 << 32, 1 << 56
_WORD = 8


def device_repeats_of(operators: Sequence[BuiltOperator]) -> DeviceRepeats | None:
    """The repeats of a segment of a GPU. None if one of its operators must be planned in every iteration.

    Fed batches, constants and uploads of other segments' batches are planned in every iteration, and first."""
    heads: list[BuiltOperator] = []
    for built in operators:
        uploads = built.planned.is_transfer and built.output_device == "gpu"
        if not uploads and (built.sources or not built.operator.instant):
            break
        heads.append(built)
    rest = list(operators[len(heads) :])
    if not rest or not all(map(_may_repeat, rest)):
        return None
    return DeviceRepeats(heads, rest)


def _may_repeat(built: BuiltOperator) -> bool:
    """Whether the operator's plan depends on constants, and on shapes and contents of inputs only."""
    operator, spec = built.operator, built.operator.spec
    kind = type(operator)
    known = operator.stateful or kind.is_eager(True) or operator.passes_on or operator.barrier or Trait.HANDS_OUT_SAMPLES in operator.traits
    known = known or kind.prepares(spec) or built.planned.is_transfer
    return is_repeatable(kind) and not known and spec.device == "gpu" and bool(built.inputs)


def _reads(built: BuiltOperator) -> list[int]:
    """Numbers of the edges of `_edges_of` whose contents decide."""
    kind, spec, count = type(built.operator), built.operator.spec, len(built.inputs)
    read = [k for k in kind.inputs_read(spec, True) if k < count and k not in kind.waits_for]
    return [*read, *range(count, count + len(built.planned.arguments))]


def _depends_on_key(built: BuiltOperator, edges: Sequence[Any], iteration: Iteration) -> bool:
    """Whether the plan of an operator reads nothing that the key does not cover."""
    inputs, named = [edges[edge] for edge in built.inputs], {name: edges[edge] for name, edge in built.arguments}
    leader = inputs[0] if inputs else next(iter(named.values()))
    return not read_outside_of_key(built.operator, inputs, named, _reads(built), iteration, len(leader))


def _edges_of(built: BuiltOperator) -> list[int]:
    """The edges of the inputs and then of the argument inputs."""
    return [*built.inputs, *built.planned.arguments.values()]


class Queueable(NamedTuple):
    """An iteration that is copied: its clock, its marks so far, and the objects that must stay alive."""

    times: DeviceTimes | None
    marks: list[Any]
    keep: list[object]


class DeviceRepeats:
    """The repeats of one segment. One thread at a time plans a segment, so there is no lock.

    heads   operators that are planned in every iteration;  rest  the other operators
    """

    __slots__ = ("_attempts", "_contents", "_edges", "_key", "_made", "_pending", "_plans", "_trials", "heads", "rest")

    def __init__(self, heads: list[BuiltOperator], rest: list[BuiltOperator]):
        self.heads, self.rest = heads, rest
        self._made = [(edge, built) for built in rest for edge in built.outputs]
        made = {edge for edge, _ in self._made}
        self._edges = list(dict.fromkeys(edge for built in rest for edge in _edges_of(built) if edge not in made))
        places = {edge: k for k, edge in enumerate(self._edges)}
        read = {_edges_of(built)[k] for built in rest for k in _reads(built)}
        self._contents = sorted(places[edge] for edge in read if edge in places)
        self._plans: dict[Any, DeviceRepeat] = {}
        self._trials = _TRIALS if not read & made else 0
        self._attempts = _TRIALS
        self._key: Any = None  # of the present iteration, if it is planned and may be learned
        self._pending: dict[Any, DeviceRepeat | None] = {}
        """Of the last keys without a repeat: the template, from the second iteration on."""

    def find(self, edges: Sequence[Any], batch_size: int) -> DeviceRepeat | None:
        """The repeat for the inputs of an iteration of `batch_size` samples. None: the iteration must be planned."""
        self._key = None
        if not self._trials:
            return None
        inputs = [edges[edge] for edge in self._edges]
        key = key_of(inputs, self._contents)
        if key is None:
            return None
        key = key, batch_size
        found = self._plans.get(key)
        if found is not None and found.serves(inputs):
            return found
        self._key = key
        self._trials -= found is None and not self._plans
        return None

    def learn(
        self, edges: Sequence[Any], launches: Sequence[tuple[Any, Launch]], device: CudaDevice, own: Sequence[DeviceBuffer],
        uploaded: Sequence[Batch], iteration: Iteration,
    ) -> None:  # fmt: skip
        """The present `iteration` was planned and needs these `launches`, given as (operator, launch), and nothing else.

        own: buffers made for its outputs;  uploaded: batches whose contents the host has made
        """
        key, self._key = self._key, None
        if key is None or not self._attempts:
            return
        known = self._plans.get(key)
        if known is None and key not in self._pending:  # usually inputs are new each time, and then nothing is kept
            self._pending[key] = None
            if len(self._pending) > _MOST_SEGMENTS:
                del self._pending[next(iter(self._pending))]
            return
        inputs, outputs = [edges[edge] for edge in self._edges], [(edge, built, edges[edge]) for edge, built in self._made]
        if any(batch is moved for _, _, batch in outputs for moved in uploaded):
            return
        if any(batch.values is not None and k not in self._contents for k, batch in enumerate(inputs)):
            return
        seen = _seen(inputs, outputs, launches, device, own)
        pending = self._pending.pop(key, None)
        if seen is None:
            return
        if (known is not None and seen.confirmed_by(known)) or (pending is not None and seen.confirmed_by(pending)):
            if known is None and not all(_depends_on_key(built, edges, iteration) for built in self.rest):
                self._trials = 0  # no iteration is copied
                return
            if known is not None or len(self._plans) < _MOST_SEGMENTS:
                self._plans[key] = seen
            return
        self._pending[key] = seen
        self._attempts -= 1

    def queue(
        self, repeat: DeviceRepeat, edges: list[Any], device: CudaDevice, commands: Commands, made: list[DeviceBuffer],
        passing: list[DeviceBuffer],
    ) -> Any:  # fmt: skip
        """:meth:`DeviceRepeat.queue` for the inputs of an iteration."""
        return repeat.queue(edges, [edges[edge] for edge in self._edges], device, commands, made, passing)


class _Output:
    """An output without its memory. `info`: number of the input whose source info it has; -1: it has none."""

    __slots__ = ("built", "dtype", "edge", "info", "layout", "offsets", "shapes", "size")

    def __init__(self, edge: int, built: BuiltOperator, batch: Batch, buffer: DeviceBuffer, info: int):
        self.edge, self.built, self.info = edge, built, info
        self.shapes, self.dtype, self.layout = batch.shapes, batch.dtype, batch.layout
        self.offsets, self.size = batch.addresses - buffer.address, buffer.size

    def agrees(self, other: _Output) -> bool:
        same = (self.edge, self.dtype, self.layout, self.info, self.size) == (other.edge, other.dtype, other.layout, other.info, other.size)
        return same and np.array_equal(self.shapes, other.shapes) and np.array_equal(self.offsets, other.offsets)


class _Upload(NamedTuple):
    """The words of an upload, and the places of addresses among them (see :class:`DeviceRepeat`).

    doubtful: whether other words may be addresses;  tables: the layout
    """

    template: np.ndarray
    places: np.ndarray
    doubtful: bool
    tables: Tables


class _Addresses(NamedTuple):
    """The addresses of one iteration: where its inputs and the buffers of its outputs were. `apart`: no samples of inputs overlap."""

    starts: list[np.ndarray]
    buffers: list[int]
    apart: bool


class DeviceRepeat:
    """The launches of an iteration, to be copied for inputs of certain shapes.

    Word `places[k, 0]` of the template is an offset from base `places[k, 1]`. Base 0 is the upload in device memory. Then come the inputs
    (the first sample of a contiguous batch, each sample of another), and the buffers of the outputs.
    """

    def __init__(
        self, upload: _Upload, launches: Sequence[tuple[Any, Launch]], functions: list[Any], outputs: list[_Output], seen: _Addresses
    ):
        from ..compiled.relocation import relocate

        self._relocate = relocate
        self._template, self._places, self._doubtful, tables = upload
        self._starts, self._buffers, self._apart = seen
        self._outputs = outputs
        self._upload, self._total = tables.upload_bytes, tables.total_bytes
        self._launches = [
            (owner, function, launch.grid, launch.block, launch.shared, tables.start + _WORD * begin)
            for (owner, launch), function, begin in zip(launches, functions, tables.begins, strict=True)
        ]
        self._only = [False] * len(self._starts)  # whether the repeat serves only these addresses of an input

    def confirmed_by(self, other: DeviceRepeat) -> bool:
        """Whether another iteration with inputs of the same shapes needs the same. Notes which inputs may lie elsewhere."""
        if self._launches != other._launches or (self._upload, self._total) != (other._upload, other._total):
            return False
        if not all(one.agrees(two) for one, two in zip(self._outputs, other._outputs, strict=True)):
            return False
        if not np.array_equal(self._places, other._places) or not np.array_equal(self._template, other._template):
            return False
        only = []
        for one, two in zip(self._starts, other._starts, strict=True):
            moved = one != two
            if moved.any() != moved.all():
                return False
            only.append((self._doubtful or len(one) > 1) and not moved.any())
        self._only = only
        if self._doubtful and any(one == two for one, two in zip(self._buffers, other._buffers)):
            return False
        return all(only) or (self._apart and other._apart)

    def serves(self, inputs: Sequence[Batch]) -> bool:
        """Whether the inputs lie where the repeat expects them."""
        if not any(self._only):
            return True
        placed = [batch for batch in inputs if batch.values is None]
        return all(not only or np.array_equal(_origins(batch), start) for only, batch, start in zip(self._only, placed, self._starts))

    def queue(
        self, edges: list[Any], inputs: Sequence[Batch], device: CudaDevice, commands: Commands, made: list[DeviceBuffer],
        passing: list[DeviceBuffer],
    ) -> Any:  # fmt: skip
        """Make the outputs of an iteration in `edges`, and add the upload and the launches to `commands`.

        Returns the host memory that must stay alive until they are done. Buffers are appended to `made` and `passing`. TooLargeOutput if
        there is no memory for an output."""
        staged = device.staging.allocate(self._upload)
        upload = device.pool.allocate(self._total, commands)
        passing.append(upload)
        bases = [_origins(batch) for batch in inputs if batch.values is None]
        buffers = []
        for output in self._outputs:
            try:
                buffer = device.pool.allocate(output.size, commands)
            except MemoryError as error:
                raise TooLargeOutput(output.built, error) from None
            buffers.append(buffer.address)
            made.append(buffer)
            addresses = output.offsets + buffer.address
            batch = Batch(output.shapes, output.dtype, output.layout, addresses, buffer, contiguous=True, device="gpu")
            if output.info >= 0:
                batch.source_info = inputs[output.info].source_info
            edges[output.edge] = batch
        found = np.concatenate([np.array([upload.address], np.int64), *bases, np.array(buffers, np.int64)])
        at, words, places = address_of(staged), len(self._template), self._places
        self._relocate(at, words, address_of(self._template), address_of(places), address_of(found), len(places))
        commands.copy(upload.address, at, self._upload, pinned=True)
        for owner, function, grid, block, shared, begin in self._launches:
            commands.record_for(owner)
            commands.launch(function, grid, block, shared, upload.address + begin)
        commands.record_for(None)
        return staged


def _seen(
    inputs: list[Batch], outputs: list[tuple[int, BuiltOperator, Batch]], launches: Sequence[tuple[Any, Launch]], device: CudaDevice,
    own: Sequence[DeviceBuffer],
) -> DeviceRepeat | None:  # fmt: skip
    """The launches of an iteration as a template; None if they cannot be one."""
    if any(type(launch) is not Launch for _, launch in launches) or not all(_is_plain(batch, own) for _, _, batch in outputs):
        return None
    known = []
    for edge, built, batch in outputs:
        info = next((k for k, source in enumerate(inputs) if source.source_info is batch.source_info), -1) if batch.source_info else -1
        if info < 0 and batch.source_info is not None:
            return None
        known.append(_Output(edge, built, batch, batch.owner, info))
    tables = Tables([launch for _, launch in launches])
    if tables.upload_bytes > _WORD * _MOST_WORDS:
        return None
    placed = [batch for batch in inputs if batch.values is None]
    if not all(map(len, placed)):
        return None
    starts = [_origins(batch).copy() for batch in placed]
    ends = [start + (batch.sizes() if len(start) > 1 else batch.sizes().sum()) for start, batch in zip(starts, placed)]
    first, last = np.concatenate([*starts, *_NO_ADDRESSES]), np.concatenate([*ends, *_NO_ADDRESSES])
    order = np.argsort(first, kind="stable")
    apart = bool((last[order][:-1] <= first[order][1:]).all())
    buffers = [batch.owner for _, _, batch in outputs]
    starts_of_all = np.append(first, np.array([buffer.address for buffer in buffers], np.int64))
    ends_of_all = np.append(last, np.array([buffer.address + max(buffer.size, 1) for buffer in buffers], np.int64))
    made = _template(tables, starts_of_all, ends_of_all)
    if made is None:
        return None
    functions = [device.function(launch.kernel) for _, launch in launches]
    return DeviceRepeat(made, launches, functions, known, _Addresses(starts, [buffer.address for buffer in buffers], apart))


_NO_ADDRESSES = (np.zeros(0, np.int64),)


def _origins(batch: Batch) -> np.ndarray:
    """The addresses from which those of all samples are known: of the first sample if the batch is contiguous."""
    return batch.addresses[:1] if batch.contiguous else batch.addresses


def _is_plain(batch: Batch, own: Sequence[DeviceBuffer]) -> bool:
    """Whether an output is a batch in a buffer of its own."""
    if batch.values is not None or batch.alias_of is not None or batch.links or batch.feed is not None or batch.rows is not None:
        return False
    return batch.reused is False and batch.contiguous and any(batch.owner is buffer for buffer in own)


def _template(tables: Tables, starts: np.ndarray, ends: np.ndarray) -> _Upload | None:
    """The upload with addresses as offsets. None if an array of other elements than words may contain addresses."""
    block = np.zeros(tables.upload_bytes // _WORD, np.int64)
    raw = block.view(np.uint8)
    places: list[tuple[int, int]] = []
    order = np.argsort(starts, kind="stable")
    doubtful = False

    def resolve(first: int, words: np.ndarray) -> int:
        """Replace the addresses among the words of the template from word `first` on, and return their number."""
        nonlocal doubtful
        large = np.flatnonzero((words >= _LEAST_ADDRESS) & (words < _PAST_ADDRESSES))
        if not len(large):
            return 0
        found = order[np.maximum(np.searchsorted(starts[order], words[large], "right") - 1, 0)]
        inside = (starts[found] <= words[large]) & (words[large] < ends[found])
        doubtful = doubtful or not inside.all()
        large, found = large[inside], found[inside]
        words[large] -= starts[found]
        places.extend(zip((first + large).tolist(), (1 + found).tolist()))
        return len(large)

    for at, array in tables.arrays:
        dense = np.ascontiguousarray(array)
        raw[at : at + dense.nbytes] = dense.reshape(-1).view(np.uint8)
        first = at // _WORD
        if resolve(first, block[first : first + -(-dense.nbytes // _WORD)]) and dense.dtype != np.int64:
            return None
    first = tables.start // _WORD
    words = block[first : first + len(tables.words)]
    words[:] = tables.words
    resolve(first, words)
    for k in tables.addresses:
        places.append((first + k, 0))
    for k in tables.scratches:
        words[k] += tables.upload_bytes
        places.append((first + k, 0))
    return _Upload(block, np.array(places, np.int64).reshape(-1, 2), doubtful, tables)
