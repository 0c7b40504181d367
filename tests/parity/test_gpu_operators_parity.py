"""Operators that DALI has for GPUs have kernels here, or are read on the CPU and uploaded."""

from __future__ import annotations

import pytest

from asyncdali import backend
from asyncdali.operators import load_registry

pytest.importorskip("nvidia.dali.fn")
theirs = pytest.importorskip("nvidia.dali.backend")


def kernels():
    """Whether a GPU runs an operator, by DALI's names and by those of deprecated aliases."""
    found = {}
    for kind in load_registry().values():
        for name in (kind.schema.name, *kind.schema.aliases):
            found[name.replace(".", "__").replace("_", "").lower()] = kind.on_cuda or kind.schema.uploads
    return found


@pytest.mark.parametrize("device", ["GPU", "Mixed"])
def test_every_operator_of_gpus_has_kernels(device):
    """Internal operators have other names here, and conditions are on the CPU in both libraries."""
    names = [name for name in getattr(theirs, f"Registered{device}Ops")() if not name.startswith("_")]
    assert len(names) > 5
    assert sorted(set(names) - set(getattr(backend, f"Registered{device}Ops")())) == []
    known = kernels()
    assert [name for name in names if not known[name.replace("_", "").lower()]] == []
