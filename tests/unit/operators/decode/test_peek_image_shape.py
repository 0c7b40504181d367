"""peek_image_shape: the shape that the decoder gives, and damaged headers."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers.pipelines import outputs_of, pipeline_of
from PIL import Image

from asyncdali import fn


def test_peek_image_shape_agrees_with_the_decoder():
    files = []
    for kind, size in (("JPEG", (31, 17)), ("PNG", (5, 9)), ("BMP", (8, 4))):
        data = io.BytesIO()
        Image.new("RGB", size).save(data, kind)
        files.append(np.frombuffer(data.getvalue(), np.uint8))

    def graph():
        encoded = fn.external_source(lambda: files)
        return fn.peek_image_shape(encoded), fn.shapes(fn.decoders.image(encoded))

    peeked, decoded = outputs_of(graph)[0]
    np.testing.assert_array_equal(peeked, decoded)
    cut = [files[0][:20]] * 3
    with (
        pipeline_of(lambda: fn.peek_image_shape(fn.external_source(lambda: cut))) as pipeline,
        pytest.raises(RuntimeError, match="sample 0"),
    ):
        pipeline.run()
