"""Messages of a fixed form: requests and answers of whole iterations. All other messages are JSON (``channel``).

A fixed message begins with four zero bytes. A JSON message begins with the length of its header. A fixed message needs one call of
`struct` instead of five calls. A template holds the properties that all batches of an output share; each template is sent once.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from time import perf_counter_ns as now
from typing import Any, NamedTuple

import numpy as np

from ..batch import Batch, dense_shapes, storage_dtype
from ..types import DALIDataType
from .blocks import VALID, ForeignBlocks, Lease
from .encoding import Form, Frame, SourceInfo

MARK = b"\0\0\0\0"

REQUEST = struct.Struct("<4xiqqqqq")
"""A request: the fields of :class:`Wanted`. Leases to give back follow, each as a `q`."""
ANSWER = struct.Struct("<4xiqqqqq")
"""The head of an answer: number of outputs, index, generation, nanoseconds that the engine took, the time when the engine was done (of the
clock that all processes of a machine share), and the length of the answer."""
_OUTPUT = struct.Struct("<qqqqqq")
_NO_INFO = 0, -1
_MOST = 64
"""Largest number of templates of an engine. Outputs that need further templates are sent as JSON."""


class Wanted(NamedTuple):
    """A request for a whole iteration, `steps` iterations after a base that the engine knows. `report`: also send the positions."""

    report: int
    record: int
    generation: int
    number: int
    samples: int
    steps: int


def request(wanted: tuple[int, ...], returned: deque[int]) -> bytes:
    """Pack a :class:`Wanted` and the leases to give back. The packed leases are removed from `returned`."""
    data = REQUEST.pack(*wanted)
    count = len(returned)
    return data if not count else data + struct.pack(f"<{count}q", *[returned.popleft() for _ in range(count)])


def requested(data: bytes) -> tuple[Wanted, memoryview]:
    """The fields that :func:`request` packed."""
    return Wanted(*REQUEST.unpack_from(data)), memoryview(data)[REQUEST.size :].cast("q")


class Template:
    """The common properties of an output's batches: everything but the contents and the origins of the samples."""

    __slots__ = ("_dtype", "_form", "_inline", "_layout", "_shape", "_shapes", "_storage", "_total")

    def __init__(self, dtype: int, layout: str, count: int, extents: list[int], form: int):
        self._dtype, self._layout, self._form = DALIDataType(dtype), layout, Form(form)
        self._inline = self._form in (Form.VALUES, Form.BYTES)  # the contents are in the message
        self._storage = storage_dtype(self._dtype)
        self._shape = (count, *extents)
        self._shapes = dense_shapes(count, tuple(extents))
        self._total = int(np.prod(self._shape, dtype=np.int64)) * self._storage.itemsize

    def batch(
        self, first: int, second: int, lease: int, data: memoryview, blocks: ForeignBlocks, returned: deque[int],
        valid: Sequence[bool] = VALID,
    ) -> Batch:  # fmt: skip
        """The batch whose contents are in the message or in a block. `valid`: see :class:`Lease`. ValueError if the named place does not
        exist."""
        batch = Batch(self._shapes, self._dtype, self._layout)
        if self._inline:
            if first < 0 or second != self._total or first + second > len(data):
                raise ValueError(f"a batch of {self._total} bytes came with {second} at {first} of {len(data)}")
            if self._form is Form.VALUES:
                batch.hold(np.ndarray(self._shape, self._storage, data, first).copy())
            else:
                batch.place(np.frombuffer(data, np.uint8, second, first).copy())
            return batch
        address, mapping = blocks.at(first, second, self._total)
        batch.place_dense(Lease(mapping, lease, returned, self._total, valid), address)
        return batch


class Templates:
    """An engine's side: the templates that the training process knows, and answers made of them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}

    def answer(self, header: dict[str, Any], frame: Frame) -> bytes | None:
        """An answer in fixed form. None if the answer must be sent as JSON; new templates are then added to `header`."""
        found = []
        for dtype, layout, count, _ndim, extents, _places, info, rows, form, first, second, *more in header["out"]:
            if extents is None or rows is not None or form == Form.SCATTERED:
                return None
            found.append(((dtype, layout, count, tuple(extents), form), first, second, more[0] if more else 0, *(info or _NO_INFO)))
        new = [key for key, *_ in found if key not in self._numbers]
        if new and len(self._numbers) + len(new) <= _MOST:
            new = list(dict.fromkeys(new))
            for key in new:
                self._numbers[key] = len(self._numbers)
            header["templates"] = new
        if new:
            return None
        outputs = [_OUTPUT.pack(self._numbers[key], *places) for key, *places in found]
        size = ANSWER.size + _OUTPUT.size * len(outputs) + frame.size
        return b"".join((ANSWER.pack(len(outputs), *header["a"], header["took"], now(), size), *outputs, frame.joined()))


def batches(data: bytes, count: int, templates: list[Template], blocks: ForeignBlocks, returned: deque[int]) -> list[Batch]:
    """The `count` batches of an answer. ValueError if the contents of a batch are not at the place that the answer names."""
    whole = memoryview(data)
    at = ANSWER.size + count * _OUTPUT.size
    return contents(whole[at:], _OUTPUT.iter_unpack(whole[ANSWER.size : at]), templates, blocks, returned)


def contents(
    body: memoryview, outputs: Iterable[tuple[int, ...]], templates: list[Template], blocks: ForeignBlocks, returned: deque[int],
    valid: Sequence[bool] = VALID,
) -> list[Batch]:  # fmt: skip
    """The batches of `outputs` as an answer lists them. `body` is what follows the list. `valid`: see :class:`Lease`."""
    found = []
    infos: dict[int, SourceInfo] = {}
    for number, first, second, lease, info, size in outputs:
        batch = templates[number].batch(first, second, lease, body, blocks, returned, valid)
        if size >= 0:
            text = infos.get(info)
            if text is None:
                text = infos[info] = SourceInfo(bytes(body[info : info + size]), len(batch.shapes))
            batch.source_info = text
        found.append(batch)
    return found


def answer_length(data: bytes | bytearray) -> int:
    """The length of the answer at the begin of a buffer."""
    return int(ANSWER.unpack_from(data)[5])


def drop(data: bytes, returned: deque[int]) -> None:
    """Return the leases of an answer that no caller waits for."""
    count = ANSWER.unpack_from(data)[0]
    at = ANSWER.size
    returned.extend(item[3] for item in _OUTPUT.iter_unpack(memoryview(data)[at : at + count * _OUTPUT.size]) if item[3])
