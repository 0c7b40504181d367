"""Attributes of ``ops`` objects that programs written for DALI read. test_ops_attributes_parity.py has all of DALI's attributes."""

from __future__ import annotations

import copy

import pytest

from asyncdali import Pipeline, fn, ops, types
from asyncdali.compat.ops_attributes import ABSENT


def test_attributes_with_an_effect():
    resize = ops.Resize(size=[3, 3], name="small", preserve=True)
    assert (resize._name, resize._device, resize._preserve) == ("small", "cpu", True)
    assert resize._init_args == {"size": [3, 3], "preserve": True} and resize._call_args == {}
    assert resize._schema is resize._original_schema is resize.schema is fn.resize.schema
    assert resize._spec.constants == resize.spec.constants and resize._operator_name() == "asyncdali.ops.Resize"
    with Pipeline(2, 1, None):
        resize(fn.external_source(lambda: None, layout="HWC"), mag_filter=types.INTERP_NN)
    assert resize._call_args == {"mag_filter": types.INTERP_NN}
    assert ops.Flip(device="gpu")._device == "gpu" and ops.Flip()._name is None
    assert ops.random.Uniform._operator_name() == "asyncdali.ops.random.Uniform"


def test_functions_and_sources():
    function = ops.PythonFunction(function=abs, num_outputs=2, output_layouts="HW")
    assert (function.function, function.num_outputs, function._output_layouts, function._preserve) == (abs, 2, "HW", True)
    source = ops.ExternalSource(source=[[1]], name="numbers", layout="HW", cycle=True)
    assert (source._name, source._layout, source._device, source._repeat_last, source._batch) == ("numbers", "HW", "cpu", False, None)
    assert source._schema is source.schema


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_refused_attributes(name):
    for made in (ops.Resize(size=[3, 3]), ops.ExternalSource(), ops.PythonFunction(function=abs)):
        with pytest.raises(AttributeError, match=rf"asyncdali\.ops\.\w+\.{name} is not in asyncdali: "):
            getattr(made, name)


def test_unknown_attributes_are_refused():
    with pytest.raises(AttributeError, match="'Resize' object has no attribute 'sizes'"):
        _ = ops.Resize(size=[3, 3]).sizes
    assert not hasattr(ops.Resize(size=[3, 3]), "_layout") and not hasattr(ops.Resize(size=[3, 3]), "function")


def test_objects_are_copied():
    assert copy.copy(ops.Resize(size=[3, 3]))._init_args == copy.deepcopy(ops.Resize(size=[3, 3]))._init_args == {"size": [3, 3]}
