"""expand_dims and squeeze: axes and names."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of, pipeline_of

from asyncdali import fn


def test_expand_dims_and_squeeze_are_inverse():
    def graph():
        source = fn.external_source(lambda: [np.arange(6).reshape(2, 3)] * 3, layout="HW")
        wide = fn.expand_dims(source, axes=[0, 3], new_axis_names="FC")
        return wide, fn.squeeze(wide, axis_names="F"), fn.squeeze(wide, axes=[-1])

    with pipeline_of(graph) as pipeline:
        wide, without_frames, without_channels = pipeline.run()
        assert (wide.layout(), without_frames.layout(), without_channels.layout()) == ("FHWC", "HWC", "FHW")
        assert np.asarray(wide[0]).shape == (1, 2, 3, 1)
        np.testing.assert_array_equal(np.asarray(without_frames[2])[..., 0], np.arange(6).reshape(2, 3))


def test_only_axes_of_one_element_are_squeezed():
    with pytest.raises((RuntimeError, ValueError)):
        outputs_of(lambda: fn.squeeze(fn.external_source(lambda: [np.zeros((2, 3))] * 3), axes=[0]))
