"""Indexing beside DALI's: random selections of integers, slices, nodes and new axes."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from helpers.programs import DALI, OURS, Feed, Program, assert_same, compare, outcome
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncdali.operators.expressions import subscript

pytest.importorskip("nvidia.dali")

TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64"]
PROGRAMS = 5
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@dataclass
class Node:
    """In a selection: the value of input number `index`."""

    index: int

    def __repr__(self) -> str:
        return f"n{self.index}"


@dataclass
class Axis:
    """In a selection: ``newaxis`` with or without a name."""

    name: str | None


@dataclass
class Literal:
    """In a selection: ``types.Constant(value)``."""

    value: int


def resolved(item: Any, used: Any, nodes: Any) -> Any:
    """A selection in which `Node`, `Axis` and `Literal` are replaced by the objects of a library."""
    if isinstance(item, Node):
        return nodes[item.index]
    if isinstance(item, Axis):
        return used.newaxis if item.name is None else used.newaxis(item.name)
    if isinstance(item, Literal):
        return used.types.Constant(item.value)
    if isinstance(item, slice):
        return slice(*[resolved(part, used, nodes) for part in (item.start, item.stop, item.step)])
    return item


def program(selection: tuple[Any, ...]) -> Program:
    def make(used: Any, *nodes: Any) -> Any:
        items = tuple(resolved(item, used, nodes) for item in selection)
        return nodes[0][items[0] if len(items) == 1 else items]

    return make


def stops_dali(item: slice, axis: int, feeds: list[Feed]) -> bool:
    """Whether a slice crashes DALI: its step leads away from its end. The result is empty in NumPy and asyncdali."""
    for number, sample in enumerate(feeds[0].samples):
        if axis >= sample.ndim:
            continue
        bounds = [item.start, item.stop, item.step]
        bounds = [int(feeds[part.index].samples[number]) if isinstance(part, Node) else getattr(part, "value", part) for part in bounds]
        if bounds[2] == 0:
            continue
        start, stop, step = slice(*bounds).indices(sample.shape[axis])
        if abs(step) > 1 and (stop - start) * step < 0:
            return True
    return False


@st.composite
def selections(draw, feeds, named):
    """A random selection from the first of `feeds`. The other feeds serve as indices."""
    samples, node_count = feeds[0].samples, len(feeds) - 1
    ndim = samples[0].ndim
    extents = [min(lengths) for lengths in zip(*[sample.shape for sample in samples])]

    def bound(low, high):
        choice = draw(st.integers(0, 9))
        if choice < 2 and node_count:
            return Node(1 + draw(st.integers(0, node_count - 1)))
        if choice == 2:
            return draw(st.sampled_from([2**31, -(2**33), 10**12]))
        return Literal(draw(st.integers(low, high))) if choice == 3 else draw(st.integers(low, high))

    items: list[Any] = []
    for axis in range(draw(st.integers(0, ndim + (draw(st.integers(0, 19)) == 0)))):
        if draw(st.integers(0, 7)) == 0:
            items.append(Axis(draw(st.sampled_from("QRST")) if named else None))
        extent = int(extents[axis]) if axis < ndim else 1
        kind = draw(st.integers(0, 9))
        if kind < 3 and extent:
            outside = draw(st.integers(0, 24)) == 0
            items.append(bound(-extent, extent - 1) if outside else draw(st.integers(-extent, extent - 1)))
        elif kind < 4:
            items.append(None)
        else:
            parts = [bound(-extent - 2, extent + 2) if draw(st.booleans()) else None for _ in range(2)]
            step = draw(st.sampled_from([None, None, 1, -1, 2, -2, 3, -7, 100, 2**40, -(2**40)]))
            if node_count and draw(st.integers(0, 9)) == 0:
                step = Node(1 + draw(st.integers(0, node_count - 1)))
            made = slice(*parts, step)
            items.append(slice(None) if stops_dali(made, sum(not isinstance(item, Axis) for item in items), feeds) else made)
    if draw(st.integers(0, 5)) == 0 or not items:
        items.append(Axis(draw(st.sampled_from("UVW")) if named else None))
    return tuple(items)


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, ndim = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    chances = [0.03, 0.12, 0.2, 0.2, 0.25, 0.2]
    shapes = [tuple(int(extent) for extent in rng.choice([0, 1, 2, 3, 5, 8], ndim, p=chances)) for _ in range(count)]
    if draw(st.booleans()):
        shapes = [shapes[0]] * count
    dtype = draw(st.sampled_from(TYPES))
    layout = "ABCD"[:ndim] if draw(st.booleans()) and ndim else None
    feeds = [Feed([rng.integers(0, 100, shape).astype(dtype) for shape in shapes], layout)]
    nodes = draw(st.integers(0, 2))
    for _ in range(nodes):
        kind = draw(st.sampled_from(INTEGERS))
        feeds.append(Feed([np.array(rng.integers(-3, 4), kind) for _ in range(count)]))
    named = draw(st.booleans())
    return feeds, [draw(selections(feeds, named)) for _ in range(PROGRAMS)]


def check(case: Any, planned: bool) -> None:
    """Compare a selection. With `planned`, small batches may be indexed while planning."""
    feeds, made = case
    before = subscript.SMALL
    subscript.SMALL = before if planned else -1
    try:
        compare({f"{number}: {selection}": program(selection) for number, selection in enumerate(made)}, feeds)
    finally:
        subscript.SMALL = before


@settings(max_examples=62, deadline=None, derandomize=True, suppress_health_check=RELAXED, database=None)
@given(cases(), st.booleans())
def test_random_selections(case, planned):
    check(case, planned)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=RELAXED, database=None, print_blob=True)
@given(cases(), st.booleans())
def test_many_random_selections(case, planned):
    check(case, planned)


class Any_:
    """Returns the selection in brackets: ``any_[1, ::2]``."""

    def __getitem__(self, selection: Any) -> Any:
        return selection if isinstance(selection, tuple) else (selection,)


s = Any_()
SELECTIONS = [
    s[0], s[-1], s[:, 1:3], s[::-1], s[:, ::-2], s[None], s[()], s[1:0], s[5:9], s[-1:-9:-1], s[0, 0, 0], s[True], s[np.int64(1)],
    s[np.array(1)], s[np.array([1])], s[Literal(1)], s[1 : np.int8(2)], s[Literal(0) : Literal(1)], s[: 2**40], s[-(2**40) :],
    s[None, None], s[:, 0, :], s[::None], s[Axis(None)], s[Axis("F")], s[0, Axis(None)], s[Axis(None), 0], s[:, Axis("Q"), 1],
    s[:, :, :, Axis("Z")], s[:, :, :, Axis(None)], s[0, 0, 0, Axis(None)], s[0, 0, 0, Axis("X")], s[Axis("A"), :, Axis("B")],
    s[Axis(None), :, Axis(None)], s[Axis("H")], s[0, Axis("H"), :, Axis("H")], s[Node(1)], s[Node(1) :], s[: Node(1), Node(2)],
    s[:, :: Node(2)], s[Node(1) : Node(2)], s[0:2, Axis(None), Node(1)],
]  # fmt: skip
REFUSED: list[Program] = [
    *[program(selection) for selection in (
        s[5], s[-3], s[::0], s[...], s[1.5], s["a"], s[[0, 1]], s[:, :, :, :], s[None, None, None, None], s[2**40],
        s[Axis("A"), Axis(None)],
        s[Axis("AB")], s[Axis("")], s[:, :, :, :, Axis(None)], s[Node(3)], s[Node(4)], s[Node(5)], s[: Node(3)], s[:: Node(6)], s[Node(7)],
        s[1j],
    )],
    lambda used, x, *nodes: x[0][0][0][0],
    lambda used, x, *nodes: x[0][0][0][:],
    lambda used, x, *nodes: x[used.newaxis(3)],
    lambda used, x, *nodes: nodes[0][0],
    lambda used, x, *nodes: len(x),
]  # fmt: skip


def feeds(layout: str | None = "HWC") -> list[Feed]:
    samples = [np.arange(24, dtype=np.int32).reshape(2, 3, 4), np.arange(40, dtype=np.int32).reshape(2, 4, 5)]
    scalars = [(1, -1), (-2, 2), (1.0, 0.0), (True, False), ([1], [0]), (0, 0), (7, -9)]
    kinds = ["int64", "int8", "float32", "bool", "int32", "int16", "int32"]
    return [Feed(samples, layout), *[Feed([np.array(value, kind) for value in pair]) for pair, kind in zip(scalars, kinds)]]


@pytest.mark.parametrize("layout", ["HWC", None])
def test_selections(layout):
    named = [selection for selection in SELECTIONS if layout or not any(isinstance(item, Axis) and item.name for item in selection)]
    assert compare({str(selection): program(selection) for selection in named}, feeds(layout)) == 0


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_both_refuse(number):
    theirs, ours = (outcome(library, REFUSED[number], feeds()) for library in (DALI, OURS))
    assert isinstance(theirs, type)
    assert_same(ours, theirs, str(number))


def test_index_of_an_index():
    programs: dict[str, Program] = {
        "twice": lambda used, x, *nodes: x[1][:, 2],
        "scalar": lambda used, x, *nodes: x[0][0][0],
        "named scalar": lambda used, x, *nodes: x[0][0][0][used.newaxis("B")],
        "shape": lambda used, x, *nodes: x.shape()[1],
        "shapes": lambda used, x, *nodes: x.shape()[:2],
        "arithmetic": lambda used, x, *nodes: x[nodes[0] : nodes[0] + 1] * x[operator.neg(nodes[0])],
    }
    compare(programs, feeds())
