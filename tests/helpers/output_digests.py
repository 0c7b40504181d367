"""A pytest plugin (``-p helpers.output_digests``) that writes a digest of the outputs of each test, for comparisons of two runs.

``OUTPUT_DIGESTS`` names a file: JSON with the digests by test, and the number of kernels that this process compiled. ``PACK_KERNELS`` names
a folder for a file with all kernels of the run, in the form of a release; ``SHIPPED_KERNELS`` a folder with such a file, to be used.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncdali import Pipeline
from asyncdali.compiled import cache, shipped, step, target
from helpers import operators

_digests: dict[str, Any] = {}
_current: list[str] = []
_entries: dict[str, cache.Entry] = {}
_came: Counter[str] = Counter()


def _hashed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function. What it returns goes into the digest of the test: outputs of samples, or the samples of one output."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kws: Any) -> Any:
        outputs = function(*args, **kws)
        if _current:
            digest = _digests.setdefault(_current[-1], hashlib.sha256())
            for output in outputs:
                for sample in [output] if isinstance(output, np.ndarray) else output:
                    array = np.ascontiguousarray(np.asarray(sample))
                    digest.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
        return outputs

    return wrapper


def pytest_configure() -> None:
    if "SHIPPED_KERNELS" in os.environ:
        shipped.FOLDER = Path(os.environ["SHIPPED_KERNELS"])
    Pipeline.run = _hashed(Pipeline.run)  # type: ignore[method-assign]
    operators.run_all = _hashed(operators.run_all)
    operators.run_operator = _hashed(operators.run_operator)
    make, load = cache.entry_of, shipped.Shipped.load

    def recorded(*args: Any) -> cache.Entry | None:
        entry = make(*args)
        if entry is not None:
            _entries[entry.shipped_key] = entry
        return entry

    def counted(self: shipped.Shipped, key: str) -> bytes | None:
        found = load(self, key)
        _came["found" if found is not None else "missing"] += 1
        return found

    cache.entry_of = recorded
    shipped.Shipped.load = counted  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    _current.append(item.nodeid)
    try:
        return (yield)
    finally:
        _current.pop()


def pytest_sessionfinish() -> None:
    found = {name: digest.hexdigest() for name, digest in _digests.items()}
    result = {"digests": found, "compiled": len(step.history), "used": len(_entries), "shipped": dict(_came)}
    Path(os.environ["OUTPUT_DIGESTS"]).write_text(json.dumps(result))
    if "PACK_KERNELS" in os.environ:
        kept = {key: bytes(contents) for key, entry in _entries.items() if (contents := entry.kept()) is not None}
        path = Path(os.environ["PACK_KERNELS"], f"{target.chosen_level()}{shipped.SUFFIX}")
        path.write_bytes(shipped.packed(kept))
