"""The kernel of box_encoder, compiled for the host, equals the compiled step. Offsets may differ by the rounding of a logarithm."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import assert_near, outputs_of

from asyncdali import fn, pipeline_def

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


def corners(rng, count):
    return np.sort(rng.random((count, 2, 2)), axis=1).reshape(count, 4).astype(np.float32)


@pytest.mark.parametrize("constants", [
    {}, {"criteria": 0.2}, {"offset": True}, {"offset": True, "scale": 300.0, "means": [0.1, 0.2, 0.3, 0.4], "stds": [0.1, 0.1, 0.2, 0.2]},
])  # fmt: skip
def test_encoded(constants):
    rng = np.random.default_rng(3)
    anchors = corners(rng, 300)
    boxes = [corners(rng, count) for count in (0, 1, 3, 40, 700)]
    boxes[3][:9] = boxes[3][9]  # both match the same anchor, and the last box gets it
    boxes[2][0] = 2.0  # overlaps no anchor
    labels = [rng.integers(1, 90, len(rows)).astype(np.int32) for rows in boxes]
    named = {"anchors": [float(x) for x in anchors.ravel()], **constants}
    by_step, by_kernels = (outputs_of("box_encoder", [boxes, labels], "", None, gpu, **named) for gpu in (False, True))
    assert_near(by_step[0], by_kernels[0], relative=1e-6 if constants.get("offset") else 0.0)
    assert_near(by_step[1], by_kernels[1])
    assert sum((classes != 0).any() for classes in by_step[1]) >= 4


def test_the_last_of_equal_overlaps_wins():
    anchors = [(0.2, 0.2, 0.5, 0.5), (0.2, 0.2, 0.5, 0.51), (0, 0, 0.1, 0.1)]
    boxes = [np.array(rows, np.float32) for rows in ([(0.2, 0.2, 0.5, 0.5)] * 2, [(0.8, 0.8, 0.9, 0.9)], [(0.3, 0.3, 0.4, 0.4)] * 3)]
    labels = [np.arange(1, len(rows) + 1, dtype=np.int32) for rows in boxes]
    named = {"anchors": [float(x) for x in np.ravel(anchors)]}
    by_step, by_kernels = (outputs_of("box_encoder", [boxes, labels], "", None, gpu, **named) for gpu in (False, True))
    assert [row.tolist() for row in by_step[1]] == [[2, 2, 0], [0, 0, 1], [3, 0, 0]]
    assert_near(by_step[0], by_kernels[0])
    assert_near(by_step[1], by_kernels[1])


def test_in_a_pipeline(cuda):
    """The pipeline gives the same on the CUDA simulator and on the CPU."""

    def boxes(info):
        return corners(np.random.default_rng(info.idx_in_epoch), info.idx_in_epoch % 5)

    def labels(info):
        return np.arange(1, info.idx_in_epoch % 5 + 1, dtype=np.int32)

    anchors = [float(x) for x in corners(np.random.default_rng(9), 50).ravel()]

    @pipeline_def(batch_size=4, num_threads=2, device_id=0)
    def graph(gpu):
        inputs = [fn.external_source(source, batch=False) for source in (boxes, labels)]
        return tuple(fn.box_encoder(*[data.gpu() if gpu else data for data in inputs], anchors=anchors))

    made = []
    for gpu in (True, False):
        pipe = graph(gpu)
        pipe.build()
        outputs = [output for _ in range(3) for output in pipe.run()]
        made.append([np.array(sample) for output in outputs for sample in (output.as_cpu() if gpu else output)])
        pipe.close()
    assert len(made[0]) == 24
    for found, expected in zip(*made, strict=True):
        np.testing.assert_array_equal(found, expected)
