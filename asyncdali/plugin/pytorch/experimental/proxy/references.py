"""What travels from the workers of a DataLoader: samples in one direction, references to outputs in the other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate as torch_collate

Run = tuple[int, int]
"""Names one run of the pipeline: (process id, count)."""


@dataclass(frozen=True)
class OutputSampleReference:
    """Stands for one output (`index`) of one sample, while a batch is made in a worker. `call` is the call of the proxy that made it."""

    call: _Call
    index: int


@dataclass(frozen=True)
class OutputBatchReference:
    """Stands for one output (`index`) of a run of the pipeline."""

    run: Run
    index: int


@dataclass(eq=False)
class _Call:
    """One call of a proxy: the inputs of a sample."""

    proxy: Proxy
    inputs: tuple[np.ndarray, ...]
    batch: _Batch | None = field(default=None, repr=False)
    slot: int = -1


@dataclass(eq=False)
class _Batch:
    """Calls that were collated together: one run."""

    run: Run
    calls: list[_Call]


class Proxy:
    """Called with a sample for each input of the pipeline, in their order or by name; returns a reference per output (one, or a tuple).

    Samples are arrays, tensors, numbers or bytes. It can be sent to worker processes; ValueError there and here if inputs are missing or
    unknown.
    """

    def __init__(self, inputs: Sequence[str], outputs: int, queue: Any):
        self.inputs, self.outputs = tuple(inputs), outputs
        self._queue = queue

    def __call__(self, *samples: Any, **named: Any) -> Any:
        call = _Call(self, self._bound(samples, named))
        references = tuple(OutputSampleReference(call, k) for k in range(self.outputs))
        return references[0] if self.outputs == 1 else references

    def _bound(self, samples: Sequence[Any], named: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
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
        return tuple(_array(given[name]) for name in self.inputs)

    def send(self, run: Run, calls: list[_Call]) -> None:
        """Give the server the data of a run."""
        self._queue.put((run, [list(column) for column in zip(*(call.inputs for call in calls), strict=True)]))


def _array(sample: Any) -> np.ndarray:
    if isinstance(sample, torch.Tensor):
        return sample.detach().cpu().numpy()
    if isinstance(sample, (bytes, bytearray)):
        return np.frombuffer(sample, np.uint8)
    return np.asarray(sample)


_counter = itertools.count()


def collate(batch: Sequence[Any], collated: Callable[[Sequence[Any]], Any] | None) -> Any:
    """As torch's collate functions; references become one reference per output. The calls of the batch are one run, in the order of its
    samples (`collated`: the user's own collate function, which sees lists of references at the places of outputs)."""
    calls: list[_Call] = []
    seen: set[int] = set()
    for reference in _references(batch):
        if id(reference.call) not in seen:
            seen.add(id(reference.call))
            calls.append(reference.call)
    if not calls:
        return torch_collate.default_collate(batch) if collated is None else collated(batch)
    run = (os.getpid(), next(_counter))
    made = _Batch(run, calls)
    for slot, call in enumerate(calls):
        call.batch, call.slot = made, slot
    kinds: dict[Any, Any] = {OutputSampleReference: _collate_references, **torch_collate.default_collate_fn_map}
    result = torch_collate.collate(batch, collate_fn_map=kinds) if collated is None else _replaced(collated(batch))
    calls[0].proxy.send(run, calls)
    return result


def _references(data: Any) -> Any:
    if isinstance(data, OutputSampleReference):
        yield data
    elif isinstance(data, Mapping):
        for value in data.values():
            yield from _references(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _references(value)


def _collate_references(references: Sequence[OutputSampleReference], *, collate_fn_map: Any = None) -> OutputBatchReference:
    first = references[0]
    batch = first.call.batch
    assert batch is not None
    if any(item.index != first.index for item in references):
        raise ValueError("different outputs of the pipeline stand at the same place of the samples of a batch")
    if [item.call.slot for item in references] != list(range(len(batch.calls))):
        raise ValueError("the samples of a batch call the proxy more than once, or not all of them do: one call per sample makes one run")
    return OutputBatchReference(batch.run, first.index)


def _replaced(data: Any) -> Any:
    """What a collate function of the user's made, with batch references for lists of sample references."""
    if isinstance(data, (list, tuple)) and data and all(isinstance(item, OutputSampleReference) for item in data):
        return _collate_references(list(data))
    if isinstance(data, Mapping):
        return {key: _replaced(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(_replaced, data))
    if isinstance(data, (list, tuple)):
        return type(data)(map(_replaced, data))
    return data


class Collate:
    """:func:`collate` as the collate function of a DataLoader; can be pickled."""

    def __init__(self, collated: Callable[[Sequence[Any]], Any] | None):
        self.collated = collated

    def __call__(self, batch: Sequence[Any]) -> Any:
        return collate(batch, self.collated)
