"""The messages of DataLoader workers: references to outputs, together with the samples that the pipeline processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils import collate as torch_collate

_ALIGNED = 64


class Run:
    """One run of the pipeline: a column of samples for each input, and later the outcome.

    A run is sent with the batch that refers to it, through the loader's own queue. So a batch that the loader drops, or a worker that dies,
    leaves no run behind. Columns go through shared memory, as torch's tensors do.
    """

    def __init__(self, columns: Sequence[Sequence[np.ndarray]]):
        self.columns = columns
        self.collated: tuple[list[_ProxyCall], set[int]] = ([], set())  # in the worker: the calls, and the outputs that have a reference
        self.record: Any = None  # the record of its iteration
        self.wanted = True
        self.outcome: tuple[torch.Tensor, ...] | Exception | None = None

    def __reduce__(self) -> Any:
        return _arrived, ([_packed(column) for column in self.columns],)


def _arrived(columns: list[Any]) -> Run:
    return Run([_unpacked(*column) for column in columns])


def _packed(column: Sequence[np.ndarray]) -> tuple[torch.Tensor, list[tuple[str, tuple[int, ...], int]]]:
    """All samples in one block."""
    places, end = [], 0
    for sample in column:
        places.append((sample.dtype.str, sample.shape, end))
        end += -(-sample.nbytes // _ALIGNED) * _ALIGNED
    block = torch.empty(end, dtype=torch.uint8)
    for target, sample in zip(_unpacked(block, places), column, strict=True):
        target[...] = sample
    return block, places


def _unpacked(block: torch.Tensor, places: list[tuple[str, tuple[int, ...], int]]) -> list[np.ndarray]:
    return [np.ndarray(shape, dtype, block.numpy(), offset) for dtype, shape, offset in places]


@dataclass(frozen=True)
class OutputSampleReference:
    """A reference to one output (`index`) of one sample, while a batch is made in a worker. `call` is the proxy's call that made it."""

    call: _ProxyCall
    index: int


@dataclass(frozen=True)
class OutputBatchReference:
    """A reference to one output (`index`) of a run of the pipeline."""

    run: Run
    index: int


class _ProxyCall:
    """One call of a proxy: the inputs of a sample."""

    def __init__(self, inputs: tuple[np.ndarray, ...]):
        self.inputs = inputs
        self.run: Run | None = None  # the last run that contains this call


class Proxy:
    """A function that takes a sample for each input of the pipeline, in order or by name. Returns one reference per output (one, or a
    tuple).

    Samples are arrays, tensors, numbers or bytes. The proxy can be sent to worker processes of any start method. Raises ValueError if
    inputs are missing or unknown, TypeError for samples that are Python objects; both here and in workers.
    """

    def __init__(self, inputs: Sequence[str], outputs: int):
        self.inputs, self.outputs = tuple(inputs), outputs

    def __call__(self, *samples: object, **named: object) -> Any:
        call = _ProxyCall(self._bound(samples, named))
        references = tuple(OutputSampleReference(call, k) for k in range(self.outputs))
        return references[0] if self.outputs == 1 else references

    def _bound(self, samples: Sequence[object], named: Mapping[str, object]) -> tuple[np.ndarray, ...]:
        if len(samples) > len(self.inputs):
            raise ValueError(f"the pipeline has {len(self.inputs)} inputs ({', '.join(self.inputs)}), got {len(samples)} samples")
        given = dict(zip(self.inputs, samples))
        twice, unknown = given.keys() & named.keys(), named.keys() - set(self.inputs)
        if twice or unknown:
            wrong = sorted(twice or unknown)
            raise ValueError(f"inputs {wrong} were given twice" if twice else f"the pipeline has no inputs {wrong}, but {self.inputs}")
        given.update(named)
        missing = [name for name in self.inputs if name not in given]
        if missing:
            raise ValueError(f"samples for the inputs {missing} are missing")
        return tuple(_array(name, given[name]) for name in self.inputs)


def _array(name: str, sample: object) -> np.ndarray:
    if isinstance(sample, torch.Tensor):
        values: np.ndarray = sample.detach().cpu().numpy()
        return values
    if isinstance(sample, (bytes, bytearray)):
        return np.frombuffer(sample, np.uint8)
    array = np.asarray(sample)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the sample for the input {name!r} must be an array, a tensor, a number or bytes, got {type(sample).__name__}")
    return array


def _collate_references(references: Sequence[Any], *, collate_fn_map: object = None) -> OutputBatchReference:
    """Merge references to one output of each sample into one reference to a run of their calls.

    All outputs of these calls share one run.
    """
    if not all(isinstance(item, OutputSampleReference) for item in references):
        raise ValueError("only some samples of the batch have an output of the pipeline at this place: all of them must call the proxy")
    calls, index = [item.call for item in references], references[0].index
    if any(item.index != index for item in references):
        raise ValueError("the samples of a batch have different outputs of the pipeline at the same place")
    run = calls[0].run
    if run is None or index in run.collated[1] or run.collated[0] != calls:  # a new batch, possibly of samples that were used before
        run = Run(list(zip(*(call.inputs for call in calls), strict=True)))
        run.collated = calls, set()
        for call in calls:
            call.run = run
    run.collated[1].add(index)
    return OutputBatchReference(run, index)


# This registration lets torch's default_collate handle references, in any DataLoader.
torch_collate.default_collate_fn_map[OutputSampleReference] = _collate_references


def _replaced(data: object) -> Any:
    """The result of a user's collate function, with each list of sample references replaced by a batch reference."""
    if isinstance(data, (list, tuple)) and data and all(isinstance(item, OutputSampleReference) for item in data):
        return _collate_references(list(data))
    return with_items(data, _replaced)


def with_items(data: object, function: Callable[[object], Any]) -> Any:
    """A container of the same kind, with the results of a function for its items. Other data as it is."""
    if isinstance(data, Mapping):
        return {key: function(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(function, data))
    return type(data)(map(function, data)) if isinstance(data, (list, tuple)) else data


class Collate:
    """Wraps a user's collate function (None: torch's). Lists of references to one output become references to a run. Can be pickled."""

    def __init__(self, collated: Callable[[Sequence[object]], object] | None):
        self.collated = collated

    def __call__(self, batch: Sequence[Any]) -> Any:
        return default_collate(list(batch)) if self.collated is None else _replaced(self.collated(batch))
