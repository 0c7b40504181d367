"""The list of modules and the reference tables agree with the declarations. test_stubs.py has the stubs."""

from __future__ import annotations

import ast
import itertools
import os

import pytest
from helpers.places import PROJECT

from asyncdali import fn, tfrecord, types
from asyncdali.graph import reference
from asyncdali.operators import load_registry
from asyncdali.tfrecord import FixedLenFeature

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(reference.__file__)))


def test_the_list_of_modules_is_current():
    with open(os.path.join(PACKAGE, "operators", "modules.py")) as file:
        text = file.read()
    assert text == reference.modules_file(reference.operator_modules(PACKAGE)), "run `python -m asyncdali.graph.reference`"


def test_modules_are_found_by_what_they_declare(tmp_path):
    texts = {"operators/new.py": "@register\nclass New: ...\n", "operators/base.py": "def register(cls): ...\n", "plugin/a.py": "@register"}
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert reference.operator_modules(str(tmp_path)) == ["operators.new"]


def test_reference_table_is_current():
    text = (PROJECT / "docs" / "operators.md").read_text()
    assert text == reference.reference_table(), "run `python -m asyncdali.graph.reference`"


def test_deprecated_names_work_and_warn():
    from asyncdali import Pipeline, fn, ops

    with Pipeline(batch_size=1, num_threads=1):
        for make in (fn.uniform, fn.coin_flip, fn.normal_distribution, fn.experimental.decoders.image, fn.image_decoder, fn.file_reader):
            inputs = (fn.constant(idata=[1], dtype=0),) if "decoder" in make.__module__ + make.__name__ or make.__name__ == "image" else ()
            with pytest.warns(DeprecationWarning, match="deprecated"):
                make(*inputs)
    assert ops.Uniform and ops.ImageDecoderRandomCrop and ops.experimental.decoders.ImageSlice


def test_every_argument_is_documented():
    from asyncdali.operators import load_registry

    missing = [
        f"{name}.{arg.name}" for name, cls in load_registry().items() if not name.startswith("_") for arg in cls.schema.args if not arg.doc
    ]
    assert not missing


NAMES = {"str": "x", "int": 3, "DALIDataType": types.UINT8, "bool": True}


def values_of(annotation):
    """Values of a type in a stub: all literals, and one value of each other type. "None" stands for the default."""
    for part in annotation.split(" = ")[0].split(" | "):
        if part.startswith("Literal["):
            yield from ast.literal_eval(f"[{part[8:-1]}]")
        elif part.startswith(("tuple[", "Sequence[")):
            yield [NAMES[name.strip()] for name in part.partition("[")[2][:-1].split(",")]
        elif part != "None":
            yield [NAMES[part]] if part in ("int", "DALIDataType") else NAMES[part]


LISTS = {"element_extract": {"element_map": [0]}, "readers.webdataset": {"ext": ["x"]}, "readers.tfrecord": None,
         "experimental.numba_function": {"out_types": [types.UINT8]}}  # fmt: skip
"""The arguments that decide the number of outputs and have no default; None: the result is a dictionary."""


@pytest.mark.parametrize("name", sorted(reference.RESULTS))
def test_results_in_stubs_have_the_number_of_outputs(name):
    schema = load_registry()[name].schema
    if LISTS.get(name, {}) is None:
        features = {"a": FixedLenFeature([], tfrecord.int64, 0)}
        assert schema.results({"features": features}, (1,)) == {"a": 1} and reference.RESULTS[name][0][1] == "dict[str, DataNode]"
        return
    *cases, last = reference.RESULTS[name]
    assert last[1] == reference.UNKNOWN or not cases, "calls that fit no other case"
    for narrower, result in cases or [last]:
        given = {arg: list(values_of(text)) for arg, text in narrower.items()}
        assert set(given) <= set(schema.by_name)
        for values in itertools.product(*(found or [None] for found in given.values())):
            constants = {arg: value for arg, value in zip(given, values) if value is not None}
            constants = {**LISTS.get(name, {}), **constants}
            for arg in ("element_map", "ext", "out_types", "hdu_indices"):  # the library makes lists of single values
                if arg in constants and not isinstance(constants[arg], list):
                    constants[arg] = [constants[arg]]
            assert (schema.outputs(constants) == 1) == (result == reference.NODE), (narrower, constants)
    if len(cases) > 1 and reference.RESULTS[name][0][1] == reference.NODE and not LISTS.get(name):
        assert schema.outputs({}) == 1, "a call without the arguments has the first result"


def test_every_operator_with_a_varying_number_of_outputs_has_results():
    varying = {name for name, kind in load_registry().items() if callable(kind.schema.outputs) and not name.startswith("_")}
    hand_written = {name for name in varying if load_registry()[name].schema.hand_written}
    assert varying - hand_written == set(reference.RESULTS)


def test_defaults_are_shown_as_a_program_writes_them():
    text = (PROJECT / "docs" / "operators.md").read_text()
    assert "default `types.INTERP_LINEAR`" in text and "<DALI" not in text
    assert "default types.FLOAT" in (fn.crop_mirror_normalize.__doc__ or "") and "<DALI" not in (fn.resize.__doc__ or "")
