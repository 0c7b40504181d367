"""Nodes for torchdata: readers, functions on entries of dictionaries, conversion to torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torchdata.nodes as tn

from .devices import Device
from .readers import DynamicReader
from .values import Batch, Tensor

_USUAL = ("data", "label")


class Reader(tn.BaseNode):  # type: ignore[misc]  # torchdata has no types
    """The items of a reader as dictionaries. Each ``reset()`` begins an epoch; a state continues one in its middle.

    Args:
        reader_type: a class such as ``ndd.readers.File``.
        batch_size: samples in a Batch; None: items of Tensors.
        output_names: names of the outputs; by default ("data", "label") for two of them, and the reader's own names if it has names.
        kwargs: arguments of the reader.

    Raises:
        TypeError: `reader_type` is no class of readers, or an argument that does not exist.
        ValueError: no names, or another number of names than outputs.
        Others: errors of the reader's constructor.
    """

    def __init__(
        self, reader_type: type[DynamicReader], *, batch_size: int | None, output_names: Iterable[str] | None = None, **kwargs: object
    ):  # fmt: skip
        super().__init__()
        if not isinstance(reader_type, type) or not issubclass(reader_type, DynamicReader):
            raise TypeError(f"reader_type is a class such as ndd.readers.File, got {reader_type!r}")
        self._make: Callable[[], DynamicReader] = lambda: reader_type(**kwargs)  # type: ignore[arg-type]
        self._reader = self._make()
        self._size = batch_size
        self._reader.next_epoch(batch_size)  # checks the batch size
        self._names = _names(self._reader, output_names)
        self._items: Iterator[Any] | None = None
        self._device = Device.current()

    def reset(self, initial_state: Mapping[str, str] | None = None) -> None:
        """Begin an epoch, or continue the one of a state."""
        super().reset(initial_state)
        self._device = Device.current()
        if initial_state is not None:
            if not isinstance(initial_state, Mapping) or not isinstance(initial_state.get("reader"), str):
                raise ValueError(f"this is not the state of a Reader node: {initial_state!r:.100}")
            fresh = self._make()
            fresh.go_to(initial_state["reader"])
            self._reader = fresh
        self._items = self._reader.next_epoch(self._size)

    def next(self) -> dict[str, Any]:
        """The next item. RuntimeError before :meth:`reset`."""
        if self._items is None:
            raise RuntimeError("call reset() before next()")
        with self._device:
            item = next(self._items)
        values = item.values() if isinstance(item, dict) else item
        return dict(zip(self._names, values, strict=True))

    def get_state(self) -> dict[str, str]:
        """The position of the reader."""
        return {"reader": str(self._reader.state_now())}

    def get_metadata(self) -> dict[str, int]:
        """See :meth:`readers.DynamicReader.get_metadata`."""
        return self._reader.get_metadata()


def _names(reader: DynamicReader, given: Iterable[str] | None) -> Sequence[str]:
    own, count = reader.output_names, reader.output_count
    if given is None:
        if own is not None:
            return own
        if count != len(_USUAL):
            raise ValueError(f"{type(reader).__name__} has {count} outputs; give output_names, one for each")
        return _USUAL
    names = [given] if isinstance(given, str) else list(given)
    if len(names) != count or not all(isinstance(name, str) for name in names) or len(set(names)) < count:
        raise ValueError(f"{type(reader).__name__} has {count} outputs; output_names are {names!r}, which must be as many different names")
    return names


class _Following(tn.BaseNode):  # type: ignore[misc]  # torchdata has no types
    """A node behind another one, whose state it has."""

    def __init__(self, source: tn.BaseNode):
        super().__init__()
        if not isinstance(source, tn.BaseNode):
            raise TypeError(f"the source of a node is another node of torchdata, got {type(source).__name__}")
        self._source = source
        self._device = Device.current()

    def reset(self, initial_state: Mapping[str, object] | None = None) -> None:
        """Reset the source, or bring it to a state."""
        super().reset(initial_state)
        self._device = Device.current()
        self._source.reset(None if initial_state is None else initial_state["source"])

    def get_state(self) -> dict[str, Any]:
        """The state of the source."""
        return {"source": self._source.state_dict()}

    def _item(self) -> dict[str, Any]:
        item = next(self._source)
        if not isinstance(item, dict):
            raise TypeError(f"the source of a {type(self).__name__} gives dictionaries, got a {type(item).__name__}")
        return item


class DictMapper(_Following):
    """Applies a function to one entry of the dictionaries of `source`.

    Args:
        source: a node whose items are dictionaries.
        map_fn: a function of the entry; its errors pass.
        key: the name of the entry. KeyError for an item without it.
    """

    def __init__(self, source: tn.BaseNode, map_fn: Callable[[Any], Any], key: str = "data"):
        super().__init__(source)
        if not callable(map_fn):
            raise TypeError(f"map_fn is a function, got {type(map_fn).__name__}")
        self._function, self._key = map_fn, key

    def next(self) -> dict[str, Any]:
        """The next item."""
        item = self._item()
        if self._key not in item:
            raise KeyError(self._key)
        with self._device:
            return {**item, self._key: self._function(item[self._key])}


class ToTorch(_Following):
    """The values of the dictionaries of `source` as a tuple of torch tensors, in the order of the dictionary.

    Samples of a Batch are stacked: ValueError for different shapes. If a value is on a GPU, the others are moved there.

    Args:
        source: a node whose items are dictionaries of Tensors and Batches.
        output_stream: the stream of torch on which tensors on a GPU are used; by default the current one when the node is made.
    """

    def __init__(self, source: tn.BaseNode, output_stream: torch.cuda.Stream | None = None):
        super().__init__(source)
        if output_stream is None and torch.cuda.is_available():
            output_stream = torch.cuda.current_stream()
        self._stream = output_stream

    def next(self) -> tuple[Any, ...]:
        """The next item."""
        values = list(self._item().values())
        wrong = next((value for value in values if not isinstance(value, (Tensor, Batch))), None)
        if wrong is not None:
            raise TypeError(f"ToTorch converts Tensors and Batches, got a {type(wrong).__name__}")
        with self._device:
            gpus = {value.device.device_id for value in values if value.device.device_type == "gpu"}
            if len(gpus) > 1:
                raise ValueError(f"the values of an item are on several GPUs: {', '.join(map(str, sorted(gpus)))}")
            if gpus:
                values = [value.gpu(*gpus) for value in values]
            with torch.cuda.stream(self._stream) if gpus and self._stream is not None else nullcontext():
                return tuple(value.torch() for value in values)
