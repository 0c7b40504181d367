"""dump_image: folders into which a stored graph may write, and wrong inputs. test_dump_image_parity.py compares files and outputs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import Pipeline, fn, types


def stored(suffix):
    def graph():
        return fn.dump_image(fn.constant(idata=[1, 2, 3], shape=[1, 1, 3], dtype=types.UINT8), suffix=suffix)

    return pipeline_of(graph, batch_size=1).serialize()


@pytest.mark.parametrize("suffix", ["a", "/../../a"])
def test_a_stored_graph_writes_only_to_allowed_places(suffix, tmp_path, monkeypatch):
    inner = tmp_path / "inner"
    (inner / "0-").mkdir(parents=True)
    monkeypatch.chdir(inner)
    data = stored(suffix)
    with pytest.raises(RuntimeError, match=r"Refused to write .*dump_image.*allow_write"):
        Pipeline.deserialize(data, allow_write=[tmp_path / "elsewhere"]).build()
    assert not list(tmp_path.rglob("*.ppm"))
    if suffix != "a":  # a file name that leads out of the folder is always refused
        with pytest.raises(RuntimeError, match="Refused to write"):
            Pipeline.deserialize(data, allow_write=[tmp_path]).build()
        return
    in_step = {"exec_pipelined": False, "exec_async": False}  # no later iteration may write the file before this check
    with Pipeline.deserialize(data, allow_write=[tmp_path], **in_step) as pipeline:
        pipeline.build()
        pipeline.run()
    (written,) = tmp_path.rglob("*.ppm")
    assert written.read_text() == "P3\n1 1\n255\n1 2 3 \n"


def test_wrong_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for data, text in ((np.zeros((2, 2, 3), np.int16), "Unsupported input type INT16"), (np.zeros((2, 2, 2), np.uint8), "1 or 3 channels")):
        with (
            pipeline_of(lambda data=data: fn.dump_image(types.Constant(data)), batch_size=1) as pipeline,
            pytest.raises(RuntimeError, match=text),
        ):
            pipeline.run()
    assert not list(tmp_path.iterdir())
