"""Messages of a connection, which are read whole before anything changes. Each function returns checked values, or raises WrongMessage.

A message that is wrong in any field is the failure of the end that sent it: the connection is closed, and another engine is asked.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..batch import Batch, storage_dtype
from ..engines.wire.encoding import Form, Payloads, unpack
from ..engines.wire.failures import unpacked
from ..types import DALIDataType

MOST = 1 << 62
"""Largest number of a message."""
_MOST_AXES = 64
_MOST_TEXT = 10_000
_DTYPES = {int(dtype): dtype for dtype in DALIDataType}


class WrongMessage(ValueError):
    """A message that the other end of a connection must not send."""


class ExpectedAnswer(NamedTuple):
    """The request that an answer has to fit.

    samples  number of samples;  whole  those of the whole iteration, or 0;  outputs  number of outputs
    names    operators that have positions
    """

    samples: int
    whole: int
    outputs: int
    names: Collection[str]


class Answer(NamedTuple):
    """A finished iteration: its `batches`, or its `error`."""

    took: int
    produced: dict[str, int]
    spans: list[list[Any]]
    batches: list[Batch]
    error: Exception | None


def number(value: object, what: str, least: int = 0, most: int = MOST) -> int:
    """An integer of a message."""
    if type(value) is not int or not least <= value <= most:
        raise WrongMessage(f"{what} is {_shown(value)}, an integer from {least} to {most} is expected")
    return value


def key(value: object) -> tuple[int, int]:
    """The index and the generation of a request."""
    index, generation = _list(value, "the key", 2)
    return number(index, "the index"), number(generation, "the generation")


def produced(header: dict[str, Any], names: Collection[str], most: int) -> dict[str, int]:
    """By how many samples the positions of operators move, if not by the batch. `names`: the operators that have positions.

    A lost entry would mean "by the batch", and the next iterations would be other data. So a message counts its entries."""
    found = _dictionary(header.get("produced", {}), "`produced`")
    if number(header.get("moves"), "`moves`") != len(found):
        raise WrongMessage(f"`produced` has {len(found)} entries, and should have {header['moves']}")
    for name, samples in found.items():
        if name not in names:
            raise WrongMessage(f"`produced` names {_shown(name)}, which is no operator with a position")
        number(samples, f"`produced` of {name}", 0, most)
    return found


def answer(
    header: dict[str, Any], body: memoryview, payloads: list[np.ndarray], expected: ExpectedAnswer, wanted: bool = True
) -> Answer:  # fmt: skip
    """An answer to a request. `wanted`: make the batches. Those of an answer that came too late are not needed."""
    took = number(header.get("took"), "`took`")
    moved = produced(header, expected.names, max(expected.whole, expected.samples))
    spans = [_span(item) for item in _list(header.get("spans", []), "`spans`")]
    if ("error" in header) == ("out" in header):
        raise WrongMessage("an answer has outputs or an error, one of them")
    if "error" in header:
        try:
            return Answer(took, moved, spans, [], unpacked(header["error"], local=False))
        except ValueError as error:
            raise WrongMessage(f"the error of an answer cannot be read: {error}") from None
    entries = _list(header["out"], "`out`", expected.outputs)
    return Answer(took, moved, spans, [batch(entry, body, payloads, expected.samples) for entry in entries] if wanted else [], None)


def batch(entry: object, body: memoryview, payloads: Sequence[np.ndarray], samples: int | None = None) -> Batch:
    """The batch of an entry (``engines.wire.encoding``). `samples`: those of the iteration. None: any number."""
    fields = _list(entry, "an entry")
    if len(fields) < 11:
        raise WrongMessage(f"an entry has {len(fields)} fields")
    dtype, layout, count, ndim, extents, places, info, rows, kind, first, second, *more = fields
    if type(dtype) is not int or dtype not in _DTYPES:
        raise WrongMessage(f"{_shown(dtype)} is no element type")
    number(count, "the number of samples", 0, 1 << 31)
    if dtype < 0 and count:  # NO_TYPE: of a batch without samples
        raise WrongMessage("samples have an element type")
    number(ndim, "the number of dimensions", 0, _MOST_AXES)
    if type(layout) is not str or len(layout) > _MOST_AXES:
        raise WrongMessage(f"{_shown(layout)} is no layout")
    itemsize = storage_dtype(_DTYPES[dtype]).itemsize
    if extents is not None and places is not None:
        raise WrongMessage("an entry has both a shape for all samples and a shape for each; one of them is allowed")
    if extents is not None:
        shape = [number(extent, "an extent") for extent in _list(extents, "the shape", ndim)]
        total = count * math.prod(shape) * itemsize
    else:
        total = _total(_part(body, places), count, ndim, itemsize)
    _sized(kind, total, first, second, more, body, payloads)
    if info is not None and bytes(_part(body, info)).count(0) + 1 < count:
        raise WrongMessage("samples have an origin each")
    if rows is None:
        if samples is not None and count != samples:
            raise WrongMessage(f"a batch has {count} samples, {samples} were requested")
    else:
        _check_rows(_part(body, rows), count, samples)
    try:
        return unpack(fields, body, Payloads(payloads), None)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise WrongMessage(f"an entry cannot be read: {error}") from None


def _sized(
    kind: object, total: int, first: object, second: object, more: list[Any], body: memoryview, payloads: Sequence[np.ndarray]
) -> None:  # fmt: skip
    """Check that contents of `total` bytes are where the entry says."""
    if kind in (Form.VALUES, Form.BYTES) and type(kind) is int:
        room = len(_part(body, [first, second]))
        if room != total:
            raise WrongMessage(f"a batch of {total} bytes came with {room}")
        return
    if kind not in (Form.PLACED, Form.PLACED_VALUES) or type(kind) is not int:
        raise WrongMessage(f"{_shown(kind)} is no form of contents")
    place = number(first, "the number of a payload", 0, max(len(payloads) - 1, 0))
    begin = number(second, "an offset")
    if len(more) != 1 or not payloads or begin + total > len(payloads[place]):
        raise WrongMessage(f"payload {place} does not hold {total} bytes at {begin}")


def _total(data: memoryview, count: int, ndim: int, itemsize: int) -> int:
    """The bytes of samples whose shapes are `data`."""
    if len(data) != 8 * count * ndim:
        raise WrongMessage(f"{count} shapes of {ndim} dimensions came in {len(data)} bytes")
    shapes = np.frombuffer(data, np.int64).reshape(count, ndim)
    if shapes.size and int(shapes.min()) < 0:
        raise WrongMessage("a shape has a negative extent")
    if float(shapes.prod(1, dtype=np.float64).sum()) * itemsize > MOST:  # 64-bit products would overflow
        raise WrongMessage("the samples of a batch are too large")
    return int(shapes.prod(1).sum()) * itemsize


def _check_rows(data: memoryview, count: int, samples: int | None) -> None:
    """The rows of a partial batch: for each sample of the iteration its index in the batch, or -1."""
    if len(data) % 8 or (samples is not None and len(data) != 8 * samples):
        raise WrongMessage(f"the rows of a batch have {len(data)} bytes")
    rows = np.frombuffer(data, np.int64)
    if not np.array_equal(rows[rows != -1], np.arange(count)):
        raise WrongMessage("the rows of a batch do not name its samples")


def _span(value: object) -> list[object]:
    what, began, ended, iteration, lane = _list(value, "a span", 5)
    times = number(began, "a time"), number(ended, "a time")
    return [_text(what, "a span"), *times, number(iteration, "an iteration", -1), _text(lane, "a lane")]


def counters(value: object, names: Collection[str]) -> dict[str, Any]:
    """The counters `names` of an actor; unknown ones are left out."""
    found = {name: item for name, item in _dictionary(value, "`statistics`").items() if name in names}
    for name, item in found.items():
        if name != "operators":
            _amount(item, f"the counter {name}")
            continue
        for operator, entry in _dictionary(item, "`operators`").items():
            *values, counted = _list(entry, f"the counters of {operator}", 7)
            for single in values:
                _amount(single, f"a counter of {operator}")
            for pair in _list(counted, f"the counts of {operator}"):
                name_of, many = _list(pair, "a count", 2)
                _text(name_of, "a count"), number(many, "a count")
    return found


def _amount(value: Any, what: str) -> None:
    if type(value) not in (int, float) or not 0 <= value <= MOST:
        raise WrongMessage(f"{what} is {_shown(value)}, a number from 0 to {MOST} is expected")


def request(header: dict[str, Any], samples: int) -> None:
    """Check what a request says of its iteration. `samples`: the largest number of samples of an iteration."""
    number(header.get("k"), "the iteration")
    n = number(header.get("n"), "the number of samples", 0, samples)
    first, stop = _list(header.get("slice"), "the slice", 2)
    first, stop = number(first, "the first sample", 0, n), number(stop, "the last sample", 0, n)
    number(header.get("from"), "the first fed sample", 0, first)
    if stop < first:
        raise WrongMessage(f"the slice is {first} to {stop}")
    _dictionary(header.get("at"), "`at`")
    _dictionary(header.get("fed"), "`fed`")


def _part(body: memoryview, place: object) -> memoryview:
    at, size = _list(place, "a place", 2)
    number(at, "an offset", 0, len(body))
    number(size, "a size", 0, len(body) - at)
    return body[at : at + size]


def _list(value: object, what: str, length: int | None = None) -> list[Any]:
    if type(value) is not list or (length is not None and len(value) != length):
        raise WrongMessage(f"{what} is {_shown(value)}, a list{'' if length is None else f' of {length}'} is expected")
    return value


def _dictionary(value: object, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise WrongMessage(f"{what} is {_shown(value)}, an object is expected")
    return value


def _text(value: object, what: str) -> str:
    if type(value) is not str or len(value) > _MOST_TEXT:
        raise WrongMessage(f"{what} is {_shown(value)}, a text is expected")
    return value


def _shown(value: Any) -> str:
    """A received value for an error's text. An integer of thousands of digits cannot be shown."""
    if type(value) is int and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if isinstance(value, (int, float, str, type(None))) else f"{type(value).__name__} of {len(value)}"
    return text if len(text) <= 80 else text[:80] + "..."
