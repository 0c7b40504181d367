"""Compile the kernels of an installed asyncdali for one level of x86-64, and write them to a file.

    python compile_kernels.py LEVEL FILE [PROCESSES [MODULE ...]]

It compiles every function of the kernel modules (or of the named ones), and the variants of factories for common element types (`PAIRS`,
`VALUES`). Kernels of other variants are compiled on the user's machine. The build of a wheel runs it (`kernels.py`), with the files of the
wheel on its path.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOMS = ("codecs", "compiled", "device", "operators", "readers", "runtime", "sampling")
"""Folders with kernels."""
NOT_IMPORTED = ("numba_function", "numba_vectors", "compiled.compiler", "llvm_compiler")
"""Modules that need Numba, or libraries of GPUs: without kernels of their own."""
PAIRS = [
    ("uint8", "uint8"), ("uint8", "float32"), ("float32", "float32"), ("float32", "uint8"), ("uint8", "float16"), ("float32", "float16"),
    ("uint8", "int16"), ("uint8", "int32"), ("float32", "int16"), ("float32", "int32"), ("float16", "float16"), ("float16", "float32"),
    ("int16", "float32"), ("int16", "int16"), ("int16", "uint8"), ("uint16", "uint16"), ("uint16", "float32"), ("float64", "float32"),
    ("int32", "int32"), ("int32", "float32"), ("int32", "uint8"), ("int32", "int64"), ("int64", "int64"), ("int64", "float32"),
    ("int64", "int32"),
]  # fmt: skip
"""Element types of inputs and outputs."""
_TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]
_STORED = ["uint8", "uint16", "uint32", "uint64"]
"""For kernels that only copy elements: they have one variant for all types of a size."""
OWN_PAIRS: dict[str, list[tuple[str, str]]] = {
    "cast_step": [*itertools.permutations(_TYPES, 2), *zip(_STORED, _STORED)],
    "one_hot_step": list(itertools.product(["uint8", "int32", "int64"], _STORED)),
}
"""Element types of one factory, by its name."""
VALUES: dict[str, list[Any]] = {
    "dtype": ["uint8", "int16", "uint16", "int32", "int64", "float16", "float32"], "greatest": [False, True], "largest": [False, True],
    "planes": [False, True],
    "exact": [False, True], "reverse": [False, True], "slicing": [True, False], "warp": ["sphere", "water"], "channels": [1, 3, 4],
    "kind": ["value", "square", "deviation"], "in_channels": [1, 3], "out_channels": [1, 3], "count": [4, 8, 16],
}  # fmt: skip
"""Values of the other parameters of factories. An impossible combination, for which the factory raises an error, is left out."""

_WITHOUT_HALVES = [name for name in VALUES["dtype"] if name != "float16"]
OWN_VALUES: dict[str, dict[str, list[Any]]] = {
    **{factory: {"dtype": _WITHOUT_HALVES, "in_dtype": _WITHOUT_HALVES} for factory in ("debayer_step", "extreme_step", "jitter_step")},
    "whole_step": {"kind": ["value", "square"], "in_dtype": ["uint8", "int32", "int64"]}, "_lookup_with_bytes": {"out_dtype": _STORED},
}  # fmt: skip
"""Values of parameters of one factory, by its name."""
_GIVEN = {"element", "compute", "function", "convert", "from_type", "volume"}
"""Parameters of factories that other factories call, or that take functions of operators."""


def modules(only: Sequence[str] = ()) -> Iterator[Any]:
    """The modules that may have kernels. `only`: their names."""
    import asyncdali

    for room in ROOMS:
        for found in pkgutil.walk_packages([str(Path(asyncdali.__file__).parent / room)], f"asyncdali.{room}."):
            if not any(part in found.name for part in NOT_IMPORTED) and (not only or found.name in only):
                try:
                    yield importlib.import_module(found.name)
                except ImportError as error:  # an optional package that is not here
                    print(f"left out: {found.name}: {error}", file=sys.stderr)


def _of_operators() -> Iterator[Any]:
    """The steps of operators that are one function of an element or of a sample (``operators/elements.py``, ``samples.py``)."""
    from asyncdali.batch import storage_name
    from asyncdali.operators import element_kernels, load_registry, sample_kernels
    from asyncdali.operators.accepts import declared
    from asyncdali.operators.elements import ElementOperator
    from asyncdali.operators.samples import SampleOperator

    for kind in load_registry().values():
        inputs = tuple(storage_name(declared(kind.schema.accepts, k).likely_type(None)) for k in range(kind.schema.inputs[0]))
        for made in ("uint8", "float32") if issubclass(kind, ElementOperator) else ():
            yield element_kernels.elements_step(kind.element, inputs[0], made, len(kind.numbers), kind.group)
        if issubclass(kind, SampleOperator):
            yield sample_kernels.samples_step(kind.sample, inputs, inputs[:1], kind.uses_scratch)


def kernels(only: Sequence[str] = ()) -> list[Any]:
    """All kernels of all modules (or of the named ones), and the variants that factories make."""
    from asyncdali.compiled.step import Compiled

    found: dict[int, Any] = {}

    def keep(value: Any) -> None:
        if isinstance(value, Compiled):
            found[id(value)] = value
        elif isinstance(value, (list, tuple)):
            for item in value:
                keep(item)
        elif isinstance(value, dict):
            keep(list(value.values()))

    for module in modules(only):
        for value in list(vars(module).values()):
            keep(value)
            if getattr(value, "__module__", "") == module.__name__ and _makes_kernels(value):
                for made in _variants(value):
                    keep(made)
    for made in [] if only else _of_operators():
        keep(made)
    return list(found.values())


def _makes_kernels(value: Any) -> bool:
    function = inspect.unwrap(value) if callable(value) else None
    return inspect.isfunction(function) and function.__annotations__.get("return") == "Compiled"


def _variants(factory: Callable[..., Any]) -> Iterator[Any]:
    names = list(inspect.signature(factory).parameters)
    if set(names) & _GIVEN:
        return
    own = inspect.unwrap(factory).__name__
    values = {**VALUES, "in_dtype": VALUES["dtype"], "out_dtype": VALUES["dtype"], **OWN_VALUES.get(own, {})}
    pairs = {"in_dtype", "out_dtype"} <= set(names)
    order = [name for name in names if pairs and name in ("in_dtype", "out_dtype")]
    order += [name for name in names if name not in order]
    choices: list[list[Any]] = [OWN_PAIRS.get(own, PAIRS)] if pairs else []
    choices += [[(value,) for value in values[name]] for name in order[2 * pairs :]]
    for chosen in itertools.product(*choices):
        try:
            yield factory(**dict(zip(order, itertools.chain(*chosen))))
        except (KeyError, ValueError, TypeError, AttributeError):  # no such variant
            continue


def callbacks() -> None:
    """Functions that C libraries call."""
    from asyncdali.codecs.jpeg import jpeg_kernels

    jpeg_kernels.callbacks()


def compile_all(first: int, processes: int, only: Sequence[str]) -> None:
    """Compile all kernels, together with other processes that begin elsewhere."""
    from asyncdali.compiled import waiting
    from asyncdali.compiled.step import collecting

    wanted = kernels(only)
    at = len(wanted) * first // processes
    failed = []
    with collecting(waiting.CompilePolicy.SHARE):
        for kernel in wanted[at:] + wanted[:at]:
            try:
                kernel.compile()
            except waiting.NotCompiled:
                continue
            except Exception as error:  # Numba's errors: all are shown together
                failed.append(f"{kernel._function.__module__}.{kernel._function.__qualname__}, variant {kernel._variant}: {error}")
    if failed:
        raise SystemExit("\n\n".join(failed))


def main(level: str, path: str, processes: int, only: Sequence[str] = ()) -> None:
    """Compile in `processes` processes, then write the file."""
    from asyncdali.compiled import cache, shipped, target

    if target.chosen_level() != level:
        with tempfile.TemporaryDirectory(prefix="asyncdali-kernels-") as folder:
            environment = {**os.environ, **target.forced(level), "ASYNCDALI_QUIET": "1"}
            environment.setdefault("NUMBA_CACHE_DIR", folder)
            subprocess.run([sys.executable, __file__, level, path, str(processes), *only], env=environment, check=True)
        return
    command = [sys.executable, __file__, "--part"]
    running = [subprocess.Popen([*command, str(k), str(processes), *only]) for k in range(processes)]
    failed = [process.wait() for process in running]
    if any(failed):
        raise SystemExit("kernels could not be compiled")
    entries: list[Any] = []
    make = cache.entry

    def recorded(*arguments: Any) -> Any:
        entries.append(make(*arguments))
        return entries[-1]

    cache.entry = recorded
    for kernel in kernels(only):
        kernel.compile()
    if not only:
        callbacks()
    found = {entry.shipped_key: bytes(entry.kept()) for entry in entries if entry is not None}
    Path(path).write_bytes(shipped.packed(found))
    print(f"{path}: {len(found)} kernels for {level}, {os.path.getsize(path) / 2**20:.1f} MiB")


if __name__ == "__main__":
    if sys.argv[1] == "--part":
        compile_all(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    else:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count() or 1, sys.argv[4:])
