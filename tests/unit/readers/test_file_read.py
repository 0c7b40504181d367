"""io.file.read: each sample names the file that is read."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_files_by_name(tmp_path):
    names = [str(tmp_path / name) for name in ("a", "b", "a long name")]
    for name, content in zip(names, (b"one", b"2", b"three"), strict=True):
        with open(name, "wb") as file:
            file.write(content)
    [[found]] = outputs_of(lambda: fn.io.file.read(fn.external_source(lambda: [np.frombuffer(name.encode(), np.uint8) for name in names])))
    assert [sample.tobytes() for sample in found] == [b"one", b"2", b"three"]


def test_a_missing_file_names_its_sample(tmp_path):
    name = np.frombuffer(f"{tmp_path}/missing".encode(), np.uint8)
    with pytest.raises(RuntimeError, match=r"(?s)sample 0.*missing|missing.*sample 0"):
        outputs_of(lambda: fn.io.file.read(fn.external_source(lambda: [name] * 3)))
