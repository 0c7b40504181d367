"""Every operator that runs on a GPU in DALI has a kernel here, or its CPU results are uploaded."""

from __future__ import annotations

import pytest

from asyncdali.compat import backend
from asyncdali.operators import load_registry

pytest.importorskip("nvidia.dali.fn")
theirs = pytest.importorskip("nvidia.dali.backend")


def kernels():
    """For each operator name, deprecated names included: whether a GPU runs the operator."""
    found = {}
    for kind in load_registry().values():
        for name in (kind.schema.name, *kind.schema.aliases):
            found[name.replace(".", "__").replace("_", "").lower()] = kind.on_cuda or kind.schema.uploads
    return found


@pytest.mark.parametrize("device", ["GPU", "Mixed"])
def test_every_operator_of_gpus_has_kernels(device):
    """Two groups are left out: internal operators, which have other names here, and conditions, which run on the CPU in both libraries."""
    names = [name for name in getattr(theirs, f"Registered{device}Ops")() if not name.startswith("_")]
    assert len(names) > 5
    assert sorted(set(names) - set(getattr(backend, f"Registered{device}Ops")())) == []
    known = kernels()
    assert [name for name in names if not known[name.replace("_", "").lower()]] == []
