"""A deprecated name of an operator gives the same operator, with a warning. The names are DALI's."""

from __future__ import annotations

import numpy as np
import pytest

from asyncdali import Pipeline, fn, ops
from asyncdali.operators import load_registry

ALIASES = [(old, operator.schema) for operator in load_registry().values() for old in operator.schema.aliases]


def lookup(root, path):
    for part in path.split("."):
        root = getattr(root, part)
    return root


@pytest.mark.parametrize("old, schema", ALIASES, ids=[old for old, _ in ALIASES])
def test_every_deprecated_name_is_the_operator(old, schema):
    assert lookup(fn, old).schema is schema
    module, _, last = old.rpartition(".")
    assert old not in load_registry()
    home = lookup(ops, module) if module else ops
    name = next(name for name in dir(home) if name.lower() == last.replace("_", ""))
    assert getattr(home, name)._schema is schema


def build(make):
    pipeline = Pipeline(batch_size=3, num_threads=1, seed=7)
    with pipeline:
        node = make()
    pipeline.set_outputs(node)
    return pipeline, node


def test_a_call_warns_and_draws_the_same_stream():
    with pytest.warns(DeprecationWarning, match=r"fn\.uniform is deprecated; use fn\.random\.uniform"):
        old, node = build(lambda: fn.uniform(range=[0.0, 1.0]))
    new, _ = build(lambda: fn.random.uniform(range=[0.0, 1.0]))
    assert node.name == "__Uniform_0"
    np.testing.assert_array_equal(old.run()[0].as_array(), new.run()[0].as_array())


def test_classes_warn_when_they_are_made():
    with pytest.warns(DeprecationWarning, match=r"ops\.TransformTranslation is deprecated; use ops\.transforms\.Translation"):
        operator = ops.TransformTranslation(offset=[1.0, 2.0])
    _, node = build(operator)
    assert node.name == "__TransformTranslation_0"


def test_serialized_and_checkpointed_under_the_new_name():
    with pytest.warns(DeprecationWarning):
        old, _ = build(lambda: fn.normal_distribution(seed=4, name="draw"))
    new, _ = build(lambda: fn.random.normal(seed=4, name="draw"))
    copy = Pipeline.deserialize(old.serialize())
    np.testing.assert_array_equal(copy.run()[0].as_array(), new.run()[0].as_array())
    assert old.serialize() == new.serialize()
