"""The generated stubs agree with the declarations of operators."""

from __future__ import annotations

import ast
import os

import pytest

from asyncdali import Pipeline, fn
from asyncdali.graph import reference
from asyncdali.operators import load_registry
from asyncdali.operators.base import REQUIRED
from asyncdali.types import DALIDataType

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(reference.__file__)))


@pytest.mark.parametrize("path", sorted(reference.stub_files()))
def test_stub_is_current_and_valid(path):
    with open(os.path.join(PACKAGE, path)) as file:
        text = file.read()
    assert text == reference.stub_files()[path], "run `python -m asyncdali.graph.reference`"
    ast.parse(text)


@pytest.mark.parametrize(
    "value, shown",
    [(1, "1"), (0.5, "0.5"), (True, "True"), (None, "None"), ("HW", '"HW"'), ([0.0], "(0.0,)"), ([], "()"), ((1, 2), "(1, 2)"),
     (float("inf"), "..."), ([float("nan")], "..."), ('a"b', "..."), (object(), "..."), (DALIDataType.FLOAT, "DALIDataType.FLOAT")],
    ids=range(13),
)  # fmt: skip
def test_defaults_that_stubs_show(value, shown):
    assert reference.shown_default(value) == shown


def test_every_default_is_one_of_the_choices_and_shown():
    found = [(operator.schema, arg) for operator in load_registry().values() for arg in operator.schema.by_name.values() if arg.choices]
    assert len({schema.name for schema, _ in found}) > 15
    text = "".join(reference.stub_files().values())
    for schema, arg in found:
        assert arg.default is REQUIRED or arg.default in arg.choices, f"{schema.name}: {arg.name}"
        assert f"{arg.name}: {reference.literal(arg.choices)}" in text


@pytest.mark.parametrize("name", ["resize_crop_mirror", "crop", "mel_filter_bank", "preemphasis_filter", "get_property"])
def test_what_is_no_choice_is_refused(name):
    """One operator of each way of checking; other tests try the others."""
    schema = load_registry()[name].schema
    (arg,) = [arg for arg in schema.by_name.values() if arg.choices]
    given = {"key": "layout"} if name == "get_property" else {"crop": (2, 2), "size": (4, 4)} if name == "resize_crop_mirror" else {}
    given |= {"crop": (2, 2)} if name == "crop" else {}
    pipe = Pipeline(1, 1, None)
    with pipe, pytest.raises((ValueError, RuntimeError), match="(?i)not supported|unsupported|supported are|unknown|invalid|property"):
        pipe.set_outputs(getattr(fn, name)(fn.zeros(shape=(4, 4, 3)), **{**given, arg.name: "no such choice"}))
        pipe.build()


def test_devices_are_literals():
    text = reference.stub_files()["fn/decoders.pyi"]
    assert 'device: Literal["cpu", "mixed"] | None = None' in text and "device: str" not in text
