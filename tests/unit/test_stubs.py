"""The generated stubs agree with the declarations of operators."""

from __future__ import annotations

import ast
import os

import pytest

from asyncdali.graph import reference

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(reference.__file__)))


@pytest.mark.parametrize("path", sorted(reference.stub_files()))
def test_stub_is_current_and_valid(path):
    with open(os.path.join(PACKAGE, path)) as file:
        text = file.read()
    assert text == reference.stub_files()[path], "run `python -m asyncdali.graph.reference`"
    ast.parse(text)
