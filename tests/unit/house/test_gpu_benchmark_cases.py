"""Cases of ``benchmarks.gpu operators --all`` whose arguments depend on the shape or the number of the inputs, on the host device."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.marks import slow

import asyncdali
from benchmarks import gpu_operators

CASES = {case.name: case for case in gpu_operators.registry_cases()}


OTHERS = ("reinterpret", "permute_batch", "numba_function")


@pytest.mark.parametrize(
    "name, large", [("reshape", False), ("reshape", True), *((name, False) for name in OTHERS), *slow(*((name, True) for name in OTHERS))]
)
def test_a_case_runs_at_both_sizes(name, large, monkeypatch):
    """The batches are larger than the eight samples of ``benchmarks.operators``, and large pictures have another shape."""
    monkeypatch.setenv("ASYNCDALI_BENCH_DATA", str(Path(asyncdali.__file__).parent / "data" / "pictures"))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=np.asarray))
    fed = gpu_operators._fed(CASES[name], large)
    assert fed is not None
    pipe = gpu_operators._case_pipeline(asyncdali, CASES[name], fed)
    (output,) = pipe.run()
    given, made = fed[0][0], output.as_cpu()
    assert len(made) == len(given) > 8
    assert [np.array(sample).size for sample in made] == [sample.size for sample in given]
    pipe.close()


def test_a_row_without_dali(monkeypatch, capsys):
    """Where DALI refuses a case, the row has our numbers and DALI's reason."""
    table = gpu_operators._Table.__new__(gpu_operators._Table)
    table._libraries = {"ours": "ours", "dali": "dali"}
    table._iterations, table._bandwidth, table._ratios = 1, 1.0, []

    class Pipe:
        _core = SimpleNamespace(session=SimpleNamespace(wait_all=lambda: None))

        def run(self):
            return [SimpleNamespace(_batch=SimpleNamespace(sizes=lambda: np.array([1])))]

        def close(self):
            pass

    class Last:
        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

        def milliseconds(self):
            return 1.0

    def make(library):
        if library == "dali":
            raise ValueError("no kernel for this")
        return Pipe()

    table._last = Last()
    nothing = SimpleNamespace(deviceSynchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=nothing)))
    table.row("name", make, 1)
    printed = capsys.readouterr().out
    assert "1.000" in printed
    assert "DALI: ValueError: no kernel for this" in printed
