"""Readers scan the heads of files for the decoder: the same pixels, lanes and errors as without."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg, use
from PIL import Image

from asyncdali import fn, pipeline_def
from asyncdali.batch import Heads
from asyncdali.codecs.jpeg import jpeg_kernels
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.operators.decode.image_decoder import ImageDecoder
from asyncdali.operators.decode.image_decoder_lanes import LaneChooser


def picture(seed: int, **options: object) -> bytes:
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 255, (8, 8, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).resize(tuple(rng.integers(70, 120, 2).tolist())).save(out, options.pop("format", "JPEG"), **options)
    return out.getvalue()


@pytest.fixture
def usual(tmp_path):
    """A folder of plain JPEGs."""
    for k in range(16):
        (tmp_path / f"{k:02}.jpg").write_bytes(picture(k))
    return tmp_path


@pytest.fixture
def mixture(usual):
    """The folder with a progressive file and a PNG among the JPEGs."""
    (usual / "03.jpg").write_bytes(picture(3, progressive=True))
    (usual / "05.jpg").write_bytes(picture(5, format="PNG"))
    return usual


@pytest.fixture
def nvjpeg(monkeypatch):
    """Simulators of CUDA and nvJPEG in place of the machine's libraries."""
    if kernels.COMPILER is None:
        pytest.skip("no C++ compiler to build kernels for the host")
    driver = StandIn()
    library = StandInNvjpeg(driver)
    use(driver, monkeypatch)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    return library


def without_heads(monkeypatch):
    """Let readers scan nothing, as readers of containers."""
    monkeypatch.setattr(ImageDecoder, "wanted_scan", lambda self: None)


def run(folder, device="cpu", iterations=4, crop=False, second=None):
    """Pictures of `iterations` batches. `second`: arguments of a second decoder of the same files."""

    @pipeline_def(batch_size=8, num_threads=2, device_id=0 if device == "mixed" else None, seed=5)
    def graph():
        files, _ = fn.readers.file(files=sorted(map(str, folder.iterdir())), name="Reader")
        decode = fn.decoders.image_random_crop if crop else fn.decoders.image
        decoded = decode(files, device=device)
        return decoded if second is None else (decoded, fn.decoders.image(files, **second))

    pipe = graph()
    pipe.build()
    results = []
    for _ in range(iterations):
        for images in pipe.run():
            images = images.as_cpu() if hasattr(images, "as_cpu") else images
            results.append([np.array(images[i]) for i in range(len(images))])
    pipe.close()
    return results


def assert_equal(ours, theirs):
    for mine, others in zip(ours, theirs, strict=True):
        for one, two in zip(mine, others, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.fixture
def scanned(monkeypatch):
    """A list of the scans that decoders received: None for a batch without heads."""
    found: list[Heads | None] = []
    prepare = ImageDecoder.prepare

    def noted(self, inputs, arguments, iteration):
        found.append(inputs[0].heads)
        return prepare(self, inputs, arguments, iteration)

    monkeypatch.setattr(ImageDecoder, "prepare", noted)
    return found


@pytest.mark.parametrize("crop", [False, True])
def test_on_the_cpu(mixture, monkeypatch, scanned, crop):
    ours = run(mixture, crop=crop)
    assert scanned[0] is None, "no memory is set aside for the first batch"
    assert sum(heads is not None for heads in scanned) >= 2
    without_heads(monkeypatch)
    assert_equal(ours, run(mixture, crop=crop))


@pytest.mark.parametrize("crop", [False, True])
def test_on_a_gpu(mixture, monkeypatch, scanned, nvjpeg, crop):
    """The same samples go to the GPU's decoders, because the stand-in's pixels differ from the CPU's."""
    ours = run(mixture, "mixed", crop=crop)
    assert sum(heads is not None for heads in scanned) >= 2
    without_heads(monkeypatch)
    assert_equal(ours, run(mixture, "mixed", crop=crop))


def test_marks_choose_the_lanes(usual, monkeypatch, nvjpeg):
    given = []
    choose = LaneChooser.choose

    def noted(self, files, windows, outputs):
        given.append(files.marks)
        again, _ = jpeg_kernels.read_headers(files.addresses, files.sizes)
        assert np.array_equal(again, files.headers)
        ours, theirs = (choose(self, files._replace(marks=marks), windows, outputs) for marks in (files.marks, None))
        assert ours is not None
        assert theirs is not None
        assert np.array_equal(ours.lane_of, theirs.lane_of)
        return ours

    monkeypatch.setattr(LaneChooser, "choose", noted)
    run(usual, "mixed")
    assert given[0] is None
    assert given[-1] is not None
    assert len(given[-1]) == 8


def test_two_decoders_of_the_same_files(mixture, monkeypatch, nvjpeg):
    """The reader scans for one decoder. The other one, on the CPU, scans by itself."""
    ours = run(mixture, "mixed", second={"device": "cpu"})
    without_heads(monkeypatch)
    assert_equal(ours, run(mixture, "mixed", second={"device": "cpu"}))


def test_a_broken_file_is_named(usual):
    """In the second batch, whose heads the reader has scanned."""
    (usual / "12.jpg").write_bytes((usual / "12.jpg").read_bytes()[:30])
    with pytest.raises(RuntimeError, match=r"12\.jpg"):
        run(usual)


def test_a_cache_of_pictures_needs_no_scan(usual, scanned):
    @pipeline_def(batch_size=8, num_threads=2, device_id=None, seed=5)
    def graph():
        files, _ = fn.readers.file(files=sorted(map(str, usual.iterdir())), name="Reader")
        return fn.decoders.image(files, cache_size=64, cache_threshold=0)

    pipe = graph()
    pipe.build()
    for _ in range(4):
        pipe.run()
    pipe.close()
    assert scanned == [None] * len(scanned)
