"""docs/engines.md agrees with the code: all options with their defaults, and constants."""

from __future__ import annotations

import dataclasses
import re

import pytest
from helpers.places import PROJECT

from asyncdali.engines.parent import faults, source_requests
from asyncdali.options import PipelineOptions

PAGE = PROJECT / "docs" / "engines.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


def test_every_option_is_in_the_table(page):
    rows = dict(re.findall(r"^\| `(engine\w*)` \| (\S+) \|", page, re.MULTILINE))
    options = {item.name: item.default for item in dataclasses.fields(PipelineOptions) if item.name.startswith("engine")}
    assert {name: text.strip("`\"") for name, text in rows.items()} == {name: str(default) for name, default in options.items()}


def test_constants_equal_those_of_the_code(page):
    text = " ".join(page.split())
    words = {2: "two", 3: "three"}
    assert f"An engine that ends {words[faults.STARTS]} times before it is ready ends the pipeline" in text
    assert f"If {words[source_requests.SOURCE_DEATHS]} engines end in the same call of a source" in text
