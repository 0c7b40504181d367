"""The examples in the declarations of operators (`Schema.examples`) are true for steps and for GPU kernels."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.documented import registered
from helpers.twins import outputs_of

from asyncdali.batch import storage_dtype
from asyncdali.operators import load_registry
from asyncdali.operators.accepts import declared
from asyncdali.operators.base import Example
from asyncdali.types import DALIDataType


@pytest.fixture(scope="module", autouse=True)
def average_pool(tmp_path_factory):
    """The operator of docs/adding_an_operator.md."""
    with registered(tmp_path_factory.mktemp("operators"), "filters/average_pool", "AveragePool") as operator:
        yield operator


def examples():
    return [(name, example) for name, operator in sorted(load_registry().items()) for example in operator.schema.examples]


def element_type_of(value, accepted):
    """The element type of an example: FLOAT for numbers with a point, if the input accepts it, else the first accepted type."""
    floats = np.asarray(value).dtype.kind == "f" and DALIDataType.FLOAT in accepted.types
    return storage_dtype(DALIDataType.FLOAT if floats else accepted.types[0])


@pytest.mark.parametrize("gpu", [False, True], ids=["steps", "kernels"])
def test_examples(gpu):
    for name, example in examples():
        operator = load_registry()[name]
        if gpu and not operator.on_cuda:
            continue
        inputs = [[np.array(value, element_type_of(value, declared(operator.schema.accepts, k)))] for k, value in enumerate(example.inputs)]
        made = outputs_of(name, inputs, example.layout, None, gpu, **example.arguments)
        for found, wanted in zip(made, example.outputs, strict=True):
            np.testing.assert_allclose(found[0], np.asarray(wanted), rtol=1e-6, err_msg=f"{name}: {example.describe()}")


def test_examples_are_found_and_described():
    assert "average_pool" in dict(examples())
    assert Example(([1, 2],), ([2, 4],), {"factor": 2}).describe() == "Example: [1, 2] with `factor=2` gives [2, 4]"
