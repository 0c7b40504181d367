"""Mixed decoders on the CUDA device over stand-ins: the GPU's engines and the CPU's threads share a batch."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg
from PIL import Image

from asyncdali import fn, pipeline_def, types
from asyncdali.device import select
from asyncdali.device.cuda import nvjpeg_library

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


@pytest.fixture
def nvjpeg(monkeypatch):
    """Stand-ins for CUDA and nvJPEG, as the machine's own."""
    driver = StandIn()
    library = StandInNvjpeg(driver)
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    monkeypatch.setattr(select, "_driver", driver)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    return library


def jpeg(seed, size=None, **options):
    rng = np.random.default_rng(seed)
    width, height = rng.integers(70, 120, 2).tolist() if size is None else size
    small = rng.integers(0, 255, (8, 8, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize((width, height)).save(out, "JPEG", quality=90, **options)
    return np.frombuffer(out.getvalue(), np.uint8)


def files(info):
    k = info.idx_in_epoch
    if k % 7 == 3:
        return jpeg(k, progressive=True)
    return jpeg(k, (20, 30)) if k % 7 == 5 else jpeg(k)


def run(source, device="mixed", iterations=3, crop=False, **arguments):
    @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5)
    def graph():
        data = fn.external_source(source, batch=False)
        decode = fn.decoders.image_random_crop if crop else fn.decoders.image
        return decode(data, device=device, **arguments)

    pipe = graph()
    pipe.build()
    results = []
    for _ in range(iterations):
        (images,) = pipe.run()
        images = images.as_cpu() if device == "mixed" else images
        results.append([np.array(images[i]) for i in range(len(images))])
    pipe.close()
    return results


@pytest.mark.parametrize("crop", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"hw_decoder_load": 0.5}, {"decoder": "hardware"}, {"decoder": "hybrid"}, {"decoder": "cpu", "output_type": types.BGR}],
)
def test_lanes_share_a_batch(nvjpeg, crop, arguments):
    expected = run(files, "cpu", crop=crop, **{k: v for k, v in arguments.items() if k == "output_type"})
    found = run(files, crop=crop, **arguments)
    for a, b in zip(expected, found, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    batches = nvjpeg.driver.calls["nvjpegDecodeBatched"]
    assert (batches == 0) == (arguments.get("decoder") == "cpu")
    assert not nvjpeg.open  # states and handles were given back


def test_a_broken_file_in_a_hardware_batch(nvjpeg):
    def source(info):
        data = files(info)
        if info.idx_in_epoch == 9:
            data = np.concatenate([data[:400], data[-2:]])  # the end marker is there, most of the picture is not
        return data

    @pipeline_def(batch_size=8, num_threads=2, device_id=0)
    def graph():
        return fn.decoders.image(fn.external_source(source, batch=False), device="mixed", decoder="hardware")

    pipe = graph()
    pipe.build()
    assert len(pipe.run()[0]) == 8
    nvjpeg.driver.calls.clear()
    with pytest.raises(RuntimeError, match=r"sample 1\b"):
        pipe.run()
    expected = run(files, "cpu")[2]
    (images,) = pipe.run()
    for x, y in zip(expected, images.as_cpu(), strict=True):
        np.testing.assert_array_equal(x, np.array(y))


def test_without_the_library(nvjpeg, monkeypatch):
    monkeypatch.setattr(nvjpeg_library, "load", lambda: None)
    from asyncdali.device.cuda import nvjpeg as lane

    monkeypatch.setattr(lane, "_warned", set())
    with pytest.warns(RuntimeWarning, match="nvJPEG was not found"):
        found = run(files, iterations=1)
    np.testing.assert_array_equal(found[0][0], run(files, "cpu", iterations=1)[0][0])
    with pytest.raises(RuntimeError, match="decoder='hardware'"):
        run(files, decoder="hardware")


def test_wrong_arguments(nvjpeg):
    with pytest.raises(ValueError, match="'turbo'"):
        run(files, decoder="turbo")
    with pytest.raises(ValueError, match="hw_decoder_load"):
        run(files, hw_decoder_load=1.5)


def test_decoders_in_branches(nvjpeg):
    """Each decodes its part of the batch, in both lanes."""

    def body(device):
        @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5, enable_conditionals=True)
        def graph():
            data = fn.external_source(files, batch=False)
            if fn.external_source(lambda info: np.bool_(info.idx_in_epoch % 3 > 0), batch=False):
                images = fn.decoders.image_random_crop(data, device=device, hw_decoder_load=0.5)
            else:
                images = fn.decoders.image(data, device=device, hw_decoder_load=0.5)
            return images

        pipe = graph()
        pipe.build()
        batches = [pipe.run()[0] for _ in range(3)]
        pipe.close()
        return [np.array(sample) for batch in batches for sample in (batch.as_cpu() if device == "mixed" else batch)]

    for expected, found in zip(body("cpu"), body("mixed"), strict=True):
        np.testing.assert_array_equal(expected, found)
    assert nvjpeg.driver.calls["nvjpegDecodeBatched"] > 3


@pytest.fixture
def sizes(nvjpeg, monkeypatch):
    """Which lane took which file sizes: a list of (hybrid, sizes) in the order of calls."""
    from asyncdali.device.cuda.nvjpeg import BatchDecoder

    calls = []
    start = BatchDecoder.start

    def noted(self, sources, sizes, *rest):
        calls.append((self.engines == 0, sizes.tolist()))
        return start(self, sources, sizes, *rest)

    monkeypatch.setattr(BatchDecoder, "start", noted)
    return calls


def large_batch(load=None, **arguments):
    """Runs two batches of 128 files of many sizes; returns them."""
    names = {} if load is None else {"hw_decoder_load": load}

    @pipeline_def(batch_size=128, num_threads=2, device_id=0, prefetch_queue_depth=1)
    def graph():
        data = fn.external_source(lambda info: jpeg(info.idx_in_epoch % 40), batch=False)
        return fn.decoders.image(data, device="mixed", **names, **arguments)

    pipe = graph()
    pipe.build()
    batches = [[np.array(image) for image in pipe.run()[0].as_cpu()] for _ in range(2)]
    pipe.close()
    return batches


def test_the_smallest_files_go_to_the_multiprocessors(nvjpeg, sizes):
    """Their batch takes as long as its largest file; the engines and the CPU share the rest."""
    first, second = large_batch()
    files = sorted(len(jpeg(k % 40)) for k in range(128))
    hybrid = [taken for is_hybrid, taken in sizes if is_hybrid]
    engines = [taken for is_hybrid, taken in sizes if not is_hybrid]
    assert len(hybrid) >= 2 and len(engines) >= 2
    assert sorted(hybrid[0]) == files[: len(hybrid[0])] and len(hybrid[0]) >= 52
    assert 0 < len(engines[0]) < 128 - len(hybrid[0]) + 1
    for k in (0, 52, 127):
        np.testing.assert_array_equal(first[k], np.asarray(Image.open(io.BytesIO(jpeg(k % 40).tobytes())).convert("RGB")))
        np.testing.assert_array_equal(second[k], np.asarray(Image.open(io.BytesIO(jpeg((k + 128) % 40).tobytes())).convert("RGB")))


@pytest.mark.parametrize("fewer", ["files", "connections"])
def test_no_hybrid_lane_where_it_would_be_in_the_way(nvjpeg, sizes, monkeypatch, fewer):
    """A process that began to use CUDA with few connections, or batches of fewer files than the multiprocessors are worth."""
    if fewer == "connections":
        monkeypatch.setattr(nvjpeg.driver, "connections", 8, raising=False)
    large_batch(load=0.9 if fewer == "files" else None)
    assert sizes and not any(is_hybrid for is_hybrid, _ in sizes)
