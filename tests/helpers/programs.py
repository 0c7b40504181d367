"""One graph program, run by this library and by DALI with the same text and the same data; and the comparison of the results."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

OURS, DALI = "asyncdali", "nvidia.dali"


@dataclass
class Feed:
    """An input: arrays, one per sample, and their layout."""

    samples: list[np.ndarray]
    layout: str | None = None


@dataclass
class Modules:
    """The modules that a program may use."""

    fn: Any
    math: Any
    types: Any
    newaxis: Any


def modules(library: str) -> Modules:
    parts = [importlib.import_module(f"{library}.{name}") for name in ("fn", "math", "types")]
    return Modules(*parts, importlib.import_module(library).newaxis)


Program = Callable[..., Any]
"""``program(modules, *nodes) -> node``."""


def run(library: str, programs: Sequence[Program], feeds: Sequence[Feed], gpu: bool = False) -> list[tuple[list[np.ndarray], str]]:
    """Samples and layout of each program's result, all computed by one pipeline. Raises the errors of building and running."""
    package, used = importlib.import_module(library), modules(library)

    @package.pipeline_def(batch_size=max(1, len(feeds[0].samples)), num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        nodes = [used.fn.external_source(_source(feed), layout=feed.layout) for feed in feeds]
        nodes = [node.gpu() for node in nodes] if gpu else nodes
        return tuple(program(used, *nodes) for program in programs)

    built = pipeline()
    built.build()
    try:
        outputs = [output.as_cpu() if gpu else output for output in built.run()]
        return [([np.array(output.at(i)) for i in range(len(output))], output.layout()) for output in outputs]
    finally:
        if library == OURS:
            built.close()


def _source(feed: Feed) -> Callable[[], list[np.ndarray]]:
    return lambda: feed.samples


def outcome(library: str, program: Program, feeds: Sequence[Feed]) -> Any:
    """The result of one program, or the type of the error."""
    try:
        return run(library, [program], feeds)[0]
    except Exception as error:  # any exception: its type is compared
        return type(error)


def assert_same(ours: Any, theirs: Any, told: str) -> None:
    """Equal to the last bit (any NaN equals any other), type, shapes and layout included.

    Alternatively both failed, ours with an error of DALI's type.
    """
    if isinstance(ours, type) or isinstance(theirs, type):
        both = isinstance(ours, type) and isinstance(theirs, type)
        assert both and issubclass(ours, theirs), f"{told}: {ours} and {theirs}"
        return
    assert ours[1] == theirs[1], f"{told}: layouts {ours[1]!r} and {theirs[1]!r}"
    assert len(ours[0]) == len(theirs[0])
    for a, b in zip(ours[0], theirs[0]):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{told}: {a.dtype} {a.shape} and {b.dtype} {b.shape}"
        different = a.view(f"V{a.itemsize}") != b.view(f"V{b.itemsize}") if a.ndim else a.tobytes() != b.tobytes()
        if a.dtype.kind == "f":
            different &= ~(np.isnan(a) & np.isnan(b))
        assert not np.any(different), f"{told}: {np.sum(different)} of {a.size} differ: {a[different][:4]} and {b[different][:4]}"


def compare(programs: dict[str, Program], feeds: Sequence[Feed]) -> int:
    """Compare programs (by name). Returns how many of them failed in both libraries."""
    told = describe(feeds)
    try:
        theirs: list[Any] = run(DALI, list(programs.values()), feeds)
    except Exception:  # one of them failed: run each one alone
        theirs = [outcome(DALI, program, feeds) for program in programs.values()]
    if any(isinstance(item, type) for item in theirs):
        ours: list[Any] = [outcome(OURS, program, feeds) for program in programs.values()]
    else:
        ours = run(OURS, list(programs.values()), feeds)
    for text, a, b in zip(programs, ours, theirs):
        assert_same(a, b, f"{text}\nwith {told}\n")
    return sum(isinstance(item, type) for item in theirs)


def describe(feeds: Sequence[Feed]) -> str:
    return "; ".join(f"{feed.layout!r} {feed.samples!r}" for feed in feeds)
