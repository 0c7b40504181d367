"""The examples of docs/dynamic.md run."""

import re

import numpy as np
import pytest
from helpers.places import PROJECT
from PIL import Image

PAGE = PROJECT / "docs" / "dynamic.md"
TEXTS = dict(re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture
def names(tmp_path):
    for k in range(6):
        (tmp_path / "pictures" / str(k % 2)).mkdir(parents=True, exist_ok=True)
        picture = np.random.default_rng(k).integers(0, 256, (24 + k, 30, 3), np.uint8)
        Image.fromarray(picture).save(tmp_path / "pictures" / str(k % 2) / f"{k}.jpg")
    return {"pictures": str(tmp_path / "pictures"), "folder": str(tmp_path)}


def test_the_page_has_examples():
    assert list(TEXTS) == ["Readers", "Lists of bytes", "Data from Python", "Checkpoints", "Captured loops"]


@pytest.mark.parametrize("title", TEXTS)
def test_examples_run(title, names):
    exec(compile(TEXTS[title], f"{PAGE.name}: {title}", "exec"), names)
    if title == "Readers":
        assert names["images"].shape == [(32, 32, 3)] * 4
    elif title == "Lists of bytes":
        assert names["batch"].shape == names["windows"].shape == [(16, 16, 3)] * 6
    elif title == "Data from Python":
        assert names["repeated"].batch_size == 4
    elif title == "Checkpoints":
        assert [labels.batch_size for labels in names["rest"]] == [2, 2]
    else:
        assert names["reader"].captured_calls > 0
