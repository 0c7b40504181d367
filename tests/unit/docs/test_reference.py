"""The list of modules and the reference tables agree with the declarations. test_stubs.py has the stubs."""

from __future__ import annotations

import os

import pytest

from asyncdali.graph import reference
from asyncdali.operators import load_registry

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
    docs = os.path.join(os.path.dirname(PACKAGE), "docs", "operators.md")
    if not os.path.exists(docs):
        pytest.skip("an installed package has no docs folder")
    with open(docs) as file:
        assert file.read() == reference.reference_table(), "run `python -m asyncdali.graph.reference`"


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


def test_operators_that_add_outputs_by_a_flag_are_as_declared():
    for name, flag in reference.ADDS_OUTPUTS.items():
        schema = load_registry()[name].schema
        assert schema.outputs({}) == 1 and schema.outputs({flag: True}) == 2
