"""dump_image beside DALI's: equal outputs, and files that are equal byte for byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.parity import dali_outputs, our_outputs, same
from helpers.pipelines import pipeline_of

from asyncdali import fn

pytest.importorskip("nvidia.dali")


@pytest.mark.parametrize("case", range(50))
def test_random_cases(case, tmp_path, monkeypatch):
    rng = np.random.default_rng(case)
    images = [rng.integers(0, 256, (*rng.integers(1, 20, 2), int(rng.choice([1, 3]))), np.uint8) for _ in range(int(rng.integers(1, 5)))]
    layout, constants = str(rng.choice(["", "HWC", "CHW"])), {} if case % 2 else {"suffix": f"s{case}"}
    results = []
    for name, outputs in (("dali", dali_outputs), ("ours", our_outputs)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        made = outputs("dump_image", [images], [layout], **constants)[0]
        results.append((made, {path.name: path.read_bytes() for path in Path().iterdir()}))
    (theirs, their_files), (ours, our_files) = results
    same(theirs, ours)
    assert our_files == their_files and len(our_files) == len(images)


@pytest.mark.parametrize(
    "shape, dtype, arguments",
    [((4, 4), np.uint8, {}), ((4, 4, 2), np.uint8, {}), ((4, 4, 3), np.int16, {}), ((4, 4, 3), np.uint8, {"input_layout": "CHW"})],
)
def test_both_refuse(shape, dtype, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for outputs in (dali_outputs, our_outputs):
        with pytest.raises((RuntimeError, ValueError)):
            outputs("dump_image", [[np.zeros(shape, dtype)]], [""], **arguments)


def test_the_host_device(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def graph():
        # One batch and then the end: iterations run ahead would write the same files again while they are read below.
        data = fn.external_source([[np.uint8([[[1]], [[20]]])]], layout="HWC")
        return fn.dump_image(data.gpu(), suffix="g"), fn.dump_image(data.gpu(), suffix="h", device="gpu")

    with pipeline_of(graph, batch_size=1, device_id=0) as pipeline:
        for dumped in pipeline.run():
            assert type(dumped).__name__ == "TensorListGPU" and dumped.layout() == "HWC"
        for name in "gh":
            assert (tmp_path / f"0-{name}-0.ppm").read_text() == "P2\n1 2\n255\n1 \n20 \n"
