"""Mixed decoders on the CUDA simulator: GPU engines and CPU threads share a batch."""

from __future__ import annotations

import functools
import io
import itertools
import json
import math
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg, use
from helpers.marks import slow
from PIL import Image

from asyncdali import fn, pipeline_def, types
from asyncdali.__main__ import main
from asyncdali.codecs.jpeg import jpeg_kernels, progressive, window_decoding
from asyncdali.codecs.jpeg.jpeg_tables import CPU
from asyncdali.device.cuda import memory, nvjpeg_library
from asyncdali.operators.decode import image_decoder, image_decoder_lanes
from asyncdali.operators.decode.image_decoder_lanes import Encoded
from asyncdali.operators.decode.lane_balance import Balance
from asyncdali.runtime.work.jobs import PythonSamples
from asyncdali.tooling import doctor_checks, doctor_decoders
from asyncdali.tooling.doctor_setup import MachineSetup

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


@pytest.fixture
def nvjpeg(monkeypatch):
    """Simulators of CUDA and nvJPEG in place of the machine's libraries."""
    driver = StandIn()
    library = StandInNvjpeg(driver)
    use(driver, monkeypatch)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    return library


@functools.cache
def jpeg(seed, size=None, **options):
    """A picture as a file, which cannot be written to."""
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
    assert not nvjpeg.open  # states and handles were destroyed


@pytest.mark.parametrize("decoder", ["", "cpu"])
def test_our_decoder_serves_the_cpus_lane(nvjpeg, decoder):
    """Our decoder decodes all files of the CPU's lane, and uses block positions of earlier epochs. libjpeg-turbo decodes none."""
    for kernel in (window_decoding.decode_window, progressive.decode_scans):
        kernel.compile()  # with an empty cache libjpeg-turbo would decode until the kernel is compiled
    files = [jpeg(seed, (200, 150)) for seed in range(6)] + [jpeg(seed, progressive=True) for seed in range(2)]
    load = {} if decoder else {"hw_decoder_load": 0.5}

    @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5, prefetch_queue_depth=1)
    def graph():
        encoded = fn.external_source(source=lambda: files, batch=True)
        return fn.decoders.image_random_crop(encoded, random_area=[0.1, 0.3], device="mixed", decoder=decoder, name="decode", **load)

    with graph() as pipe:
        for _ in range(4):
            pipe.run()
        ours, turbos, known, fed, *_ = (number for _, number in pipe.statistics().operator("decode").counted)
    assert turbos == 0 and ours >= 4 * (8 if decoder else 4) and known > 0 and fed == 0


def test_crops_on_the_cpu_of_a_gpu_pipeline(nvjpeg):
    """The CPU decodes only the windows of the crop, and the result is uploaded."""
    window_decoding.decode_window.compile()
    files = [jpeg(seed, (200, 150)) for seed in range(4)]

    def made(whole: bool) -> list[np.ndarray]:
        @pipeline_def(batch_size=4, num_threads=2, device_id=0, seed=5, prefetch_queue_depth=1)
        def graph():
            images = fn.decoders.image(fn.external_source(source=lambda: files, batch=True), name="decode")
            resized = fn.resize(fn.crop(images, crop=(60, 70), crop_pos_x=0.2), size=[40, 50]).gpu()
            return (resized, images) if whole else resized

        with graph() as pipe:
            samples = [np.array(sample) for sample in pipe.run()[0].as_cpu()]
            counted = dict(pipe.statistics().operator("decode").counted)
        assert (counted["JPEGs decoded in part for a crop"] >= 4) != whole
        return samples

    for ours, expected in zip(made(False), made(True), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("crop", [False, True])
def test_pictures_that_python_decodes_beside_the_engines(nvjpeg, monkeypatch, crop):
    """The iteration continues on a worker thread that may have no current device. Calls with streams need one."""
    work = PythonSamples.work

    def by_workers(job, thread):
        if "worker" in threading.current_thread().name:
            nvjpeg.driver.restore(0)
            work(job, thread)

    monkeypatch.setattr(PythonSamples, "work", by_workers)

    def mixture(info):
        if info.idx_in_batch != 2:
            return jpeg(info.idx_in_epoch)
        out = io.BytesIO()
        Image.open(io.BytesIO(jpeg(info.idx_in_epoch).tobytes())).save(out, "PNG")
        return np.frombuffer(out.getvalue(), np.uint8)

    found = run(mixture, iterations=12, crop=crop, decoder="hardware")
    assert nvjpeg.driver.calls["nvjpegDecodeBatched"] >= 12
    for a, b in zip(run(mixture, "cpu", iterations=12, crop=crop), found, strict=True):
        np.testing.assert_array_equal(a[2], b[2])
        assert [x.shape for x in a] == [y.shape for y in b]


def test_a_broken_file_in_a_hardware_batch(nvjpeg):
    def source(info):
        data = files(info)
        if info.idx_in_epoch == 9:
            data = np.concatenate([data[:400], data[-2:]])  # the file has its end marker, but not most of the picture
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
    """The decoder of each branch decodes the samples of the branch, both with engines and on the CPU."""

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
    """The file sizes of each call of a lane, as (whether the lane is hybrid, sizes)."""
    from asyncdali.device.cuda.nvjpeg import BatchDecoder

    calls = []
    start = BatchDecoder.start

    def noted(self, files, *rest):
        calls.append((self.engines == 0, files.lengths.tolist()))
        return start(self, files, *rest)

    monkeypatch.setattr(BatchDecoder, "start", noted)
    return calls


def large_batch(load=None, depth=5, **arguments):
    """Two batches of 128 files of many sizes."""
    names = {} if load is None else {"hw_decoder_load": load}

    @pipeline_def(batch_size=128, num_threads=2, device_id=0, prefetch_queue_depth=depth)
    def graph():
        data = fn.external_source(lambda info: jpeg(info.idx_in_epoch % 40), batch=False)
        return fn.decoders.image(data, device="mixed", **names, **{"decoder": "all", **arguments})

    pipe = graph()
    pipe.build()
    batches = [[np.array(image) for image in pipe.run()[0].as_cpu()] for _ in range(2)]
    pipe.close()
    return batches


def test_the_smallest_files_go_to_the_multiprocessors(nvjpeg, sizes):
    """The multiprocessors decode the smallest files, because engines take as long as their largest file. Engines and CPU share the rest."""
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


@pytest.mark.parametrize("fewer", ["files", "connections", "iterations"])
def test_conditions_without_a_hybrid_lane(nvjpeg, sizes, monkeypatch, fewer):
    """There is no hybrid lane with few CUDA connections, with few files per batch, or with few batches in flight."""
    if fewer == "connections":
        monkeypatch.setattr(nvjpeg.driver, "connections", 8, raising=False)
    large_batch(load=0.9 if fewer == "files" else None, depth=2 if fewer == "iterations" else 5)
    assert sizes and not any(is_hybrid for is_hybrid, _ in sizes)


def test_the_hybrid_lane_must_be_requested(nvjpeg, sizes):
    """The hybrid lane must be requested, because it takes time of the multiprocessors from a training step."""
    large_batch(decoder="")
    assert sizes and not any(is_hybrid for is_hybrid, _ in sizes)


OF_FILES = (3, 4, 9, 10)


@pytest.mark.parametrize("name", ["DecodeBatchedInitialize", "DecodeBatched"])
@pytest.mark.parametrize("decoder", ["", "hardware"])
def test_every_status_of_a_batch(nvjpeg, name, decoder):
    """The CPU decodes files that the GPU could not decode, with one warning. If only the GPU may decode, an error that is not about files
    is the iteration's error. The pipeline continues."""
    expected = run(files, "cpu", iterations=12)

    @pipeline_def(batch_size=8, num_threads=2, device_id=0, prefetch_queue_depth=1)
    def graph():
        return fn.decoders.image(fn.external_source(files, batch=False), device="mixed", decoder=decoder)

    pipe = graph()
    pipe.build()
    said = 0
    for status in range(1, 11):
        nvjpeg.fails[name] = status
        if status == 5:
            with pytest.raises(MemoryError, match="out of memory on GPU 0: .*allocator failure.*this pipeline holds"):
                pipe.run()
        elif decoder and status not in OF_FILES:
            with pytest.raises(RuntimeError, match=rf"JPEG engines did not decode a batch of JPEGs: nvjpeg{name}: .* \({status}\)"):
                pipe.run()
        else:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                (images,) = pipe.run()
            said += len(caught)
            for x, y in zip(expected[status - 1], images.as_cpu(), strict=True):
                np.testing.assert_array_equal(x, np.array(y))
    assert said == 1
    del nvjpeg.fails[name]
    before = nvjpeg.driver.calls["nvjpegDecodeBatched"]
    (images,) = pipe.run()
    for x, y in zip(expected[10], images.as_cpu(), strict=True):
        np.testing.assert_array_equal(x, np.array(y))
    assert nvjpeg.driver.calls["nvjpegDecodeBatched"] > before
    pipe.close()
    assert not nvjpeg.open


OTHER_CALLS = ("JpegStateCreate", "GetHardwareDecoderInfo", "SetDeviceMemoryPadding")


@pytest.mark.parametrize(("name", "status"), [("CreateEx", k) for k in range(1, 11)] + [(name, 5) for name in OTHER_CALLS])
def test_every_status_of_build(nvjpeg, monkeypatch, name, status):
    """One warning (none for a GPU without engines), and the CPU decodes. If the engines were requested: an error."""
    from asyncdali.device.cuda import nvjpeg as lane

    monkeypatch.setattr(lane, "_warned", set())
    nvjpeg.fails[name] = status
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [run(files, iterations=1) for _ in range(2)]
    assert [str(warning.message) for warning in caught if status == 7] == []
    assert len(caught) == (status != 7)
    assert nvjpeg.driver.calls["nvjpegDecodeBatched"] == 0
    for x, y in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(RuntimeError, match=rf"decoder='hardware'.*nvjpeg{name}: .* \({status}\)"):
        run(files, decoder="hardware", iterations=1)
    assert not nvjpeg.open


def test_hints_and_options_reach_the_library(nvjpeg):
    noted = {}
    call, handle = nvjpeg.call, nvjpeg.handle
    nvjpeg.call = lambda name, *arguments: (noted.setdefault(name, []).append(arguments), call(name, *arguments))[1]
    nvjpeg.handle = lambda name, *arguments: (noted.setdefault(name, []).append(arguments), handle(name, *arguments))[1]
    run(
        files, iterations=1, decoder="hardware", preallocate_width_hint=640, preallocate_height_hint=480, device_memory_padding=1 << 20,
        host_memory_padding=1 << 19, jpeg_fancy_upsampling=True,
    )  # fmt: skip
    assert noted["DecodeBatchedPreAllocate"][0][2:5] == (8, 640, 480)
    assert noted["SetDeviceMemoryPadding"][0][0] == 1 << 20 and noted["SetPinnedMemoryPadding"][0][0] == 1 << 19
    assert noted["CreateEx"][0][3] == nvjpeg_library.FLAG_FANCY_UPSAMPLING
    noted.clear()
    run(files, iterations=1, decoder="hardware")
    assert "DecodeBatchedPreAllocate" not in noted and noted["CreateEx"][0][3] == 0


def test_fast_idct_applies_to_the_cpus_lane(nvjpeg):
    def difference(**arguments):
        exact, fast = (run(files, iterations=1, use_fast_idct=fast, **arguments)[0] for fast in (False, True))
        return [int(np.abs(x.astype(int) - y.astype(int)).max()) for x, y in zip(exact, fast, strict=True)]

    assert max(difference(decoder="cpu")) > 0
    by_engines = difference(decoder="hardware")
    # The CPU decodes progressive files and very small ones.
    assert [k for k, most in enumerate(by_engines) if most] == [3, 5] or not any(by_engines)


# --- the split


def decoded(num_threads=2, checkpoint=None, decode=fn.decoders.image, **arguments):
    @pipeline_def(batch_size=8, num_threads=num_threads, device_id=0, seed=5, enable_checkpointing=True, checkpoint=checkpoint)
    def graph():
        return decode(fn.external_source(files, batch=False), device="mixed", **arguments)

    return graph()


def lanes_of(pipe):
    pipe.build()
    return next(item.operator for item in pipe._core.session.operators if hasattr(item.operator, "_lanes"))._lanes


def slots_of(pipe):
    """The number of files that the engines get of 100 equal files."""
    lanes = lanes_of(pipe)
    data = jpeg(1)
    addresses, sizes = np.full(100, data.ctypes.data), np.full(100, len(data))
    headers, _ = jpeg_kernels.read_headers(addresses, sizes)
    windows = jpeg_kernels.windows_of(headers, None, None, np.array([3]), 1)
    found = lanes.choose(Encoded(addresses, sizes, headers), windows, np.zeros(100, np.int64))
    pipe.close()
    return (found.lane_of != CPU).tolist()


def test_a_checkpoint_keeps_the_split(nvjpeg, monkeypatch):
    """A restored pipeline keeps the split on a GPU, or with threads, for which another split would be chosen.

    A machine without a GPU keeps the split in its checkpoints.
    """
    pipe = decoded()
    pipe.run()
    saved = pipe.checkpoint()
    expected = slots_of(pipe)
    assert 0 < sum(expected) < 100
    nvjpeg.engines = 7
    assert slots_of(decoded(num_threads=1, checkpoint=saved)) == expected
    assert slots_of(decoded(num_threads=1)) != expected
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    on_host = decoded(checkpoint=saved)
    on_host.build()
    handed_on = on_host.checkpoint()
    on_host.close()
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    assert slots_of(decoded(checkpoint=handed_on)) == expected


def test_the_cpu_takes_more_files_if_it_decodes_windows_of_them(nvjpeg):
    """A GPU's engines decode whole pictures. On an H200 a batch of random crops is ready earliest if each side takes half."""
    nvjpeg.engines = 7
    assert sum(slots_of(decoded(num_threads=12, decoder="shared"))) == 70
    assert sum(slots_of(decoded(num_threads=12, decoder="shared", jpeg_fancy_upsampling=True))) == 37  # a quarter of the engines' speed
    for decode in (fn.decoders.image_random_crop, functools.partial(fn.decoders.image_crop, crop=(32, 32))):
        assert sum(slots_of(decoded(num_threads=12, decode=decode, decoder="shared"))) == 49


RANDOM_CROP = fn.decoders.image_random_crop


@pytest.mark.parametrize(
    ("threads", "decode", "arguments", "by_cpu"),
    [
        (28, fn.decoders.image, {}, True), (27, fn.decoders.image, {}, False), (12, RANDOM_CROP, {}, True), (11, RANDOM_CROP, {}, False),
        (28, fn.decoders.image, {"hw_decoder_load": 0.5}, False), (28, fn.decoders.image, {"decoder": "shared"}, False),
        (2, fn.decoders.image, {"decoder": "cpu"}, True),
    ],
    ids=["enough", "few", "windows", "few for windows", "load", "shared", "cpu"],
)  # fmt: skip
def test_the_default_lane(nvjpeg, threads, decode, arguments, by_cpu):
    """Decoders of the GPU take from a training step. So many threads of the CPU decode alone, with the host device's pixels."""
    with decoded(threads, decode=decode, name="decode", **arguments) as pipe:
        batches = [pipe.run()[0].as_cpu() for _ in range(2)]
        report = pipe.statistics().operator("decode")
        assert (report.settings["engines"] == 0) == by_cpu and report.settings["multiprocessors"] == 0
        assert ("JPEGs decoded by engines" in dict(report.counted)) == (not by_cpu)
        assert pipe.statistics().since(pipe.statistics()).operator("decode").settings == report.settings
    assert (nvjpeg.driver.calls["nvjpegDecodeBatched"] == 0) == by_cpu

    @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5)
    def on_host():
        return decode(fn.external_source(files, batch=False))

    with on_host() as pipe:
        for batch in batches:
            for expected, found in zip(pipe.run()[0], batch, strict=True):
                np.testing.assert_array_equal(np.array(expected), np.array(found))


def test_statistics_count_the_pictures_of_each_lane(nvjpeg):
    with decoded(decoder="hardware", name="decode") as pipe:
        for _ in range(3):
            pipe.run()
        done = dict(pipe.statistics().operator("decode").counted)
        assert done["JPEGs decoded by engines"] >= 15 and done["JPEGs refused by the GPU"] == 0
        nvjpeg.fails["DecodeBatched"] = 4
        with pytest.warns(RuntimeWarning, match="not supported"):
            for _ in range(6):
                pipe.run()
        refused = dict(pipe.statistics().operator("decode").counted)
    assert refused["JPEGs refused by the GPU"] > 0 and refused["JPEGs decoded by multiprocessors"] == 0


@pytest.mark.parametrize("decoder", ["hardware", "hybrid", "shared"])
@pytest.mark.parametrize("crop", [False, True], ids=["whole", "crop"])
def test_pictures_that_a_decoder_leaves_out(nvjpeg, decoder, crop):
    """The decoder reports success. The CPU decodes the batch, with one warning, and statistics count it."""
    expected = run(files, "cpu", crop=crop)
    nvjpeg.skips = {1}

    @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5)
    def graph():
        decode = fn.decoders.image_random_crop if crop else fn.decoders.image
        return decode(fn.external_source(files, batch=False), device="mixed", decoder=decoder, name="decode")

    with graph() as pipe, pytest.warns(RuntimeWarning, match=r"reported success, but \d of \d pictures were not written"):
        for batch in expected:
            for x, y in zip(batch, pipe.run()[0].as_cpu(), strict=True):
                np.testing.assert_array_equal(x, np.array(y))
        counted = dict(pipe.statistics().operator("decode").counted)
    assert counted["JPEGs refused by the GPU"] > 0 == counted["JPEGs decoded by engines"]


@pytest.mark.parametrize("decoder", ["hardware", "hybrid", "shared"])
def test_windows_of_any_size(nvjpeg, decoder):
    """All decoders give the same windows, down to a single pixel."""
    sizes = [(1, 1), (1, 5), (2, 1), (3, 2), (4, 2), (60, 1), (1, 60), (60, 61)]
    anchors = [(k, k) for k in range(8)]

    def windows(device, **arguments):
        @pipeline_def(batch_size=8, num_threads=2, device_id=0)
        def graph():
            data = fn.external_source(lambda info: jpeg(info.idx_in_epoch), batch=False)
            shape, anchor = (fn.external_source([np.array(given, np.int64)], cycle=True) for given in (sizes, anchors))
            options = {"device": device, "name": "decode", "normalized_anchor": False, "normalized_shape": False, "axis_names": "HW"}
            return fn.decoders.image_slice(data, anchor, shape, **options, **arguments)

        with graph() as pipe:
            made = [pipe.run()[0] for _ in range(3)]
            counted = dict(pipe.statistics().operator("decode").counted)
            return [[np.array(sample) for sample in (batch if device == "cpu" else batch.as_cpu())] for batch in made], counted

    (expected, _), (found, counted) = windows("cpu"), windows("mixed", decoder=decoder)
    assert [sample.shape[:2] for sample in found[0]] == sizes
    for batch, other in zip(expected, found, strict=True):
        for x, y in zip(batch, other, strict=True):
            np.testing.assert_array_equal(x, y)
    assert counted["JPEGs refused by the GPU"] == 0
    assert counted["JPEGs decoded by multiprocessors" if decoder == "hybrid" else "JPEGs decoded by engines"] > 0


@pytest.mark.parametrize("fault", ["picture left out", "status"])
def test_writes_behind_an_incomplete_batch_do_no_harm(nvjpeg, fault):
    """The CPU decodes the batch into its memory when no work of the device is in progress."""
    expected = run(files, "cpu")
    nvjpeg.writes_late = True
    if fault == "status":
        nvjpeg.status_behind = 3
    else:
        nvjpeg.skips = {1}

    @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5)
    def graph():
        return fn.decoders.image(fn.external_source(files, batch=False), device="mixed", decoder="hardware")

    with graph() as pipe, pytest.warns(RuntimeWarning, match="did not decode a batch"):
        made = [pipe.run()[0] for _ in expected]
        for write in nvjpeg.driver.unordered:
            write()
        for batch, found in zip(expected, made, strict=True):
            for x, y in zip(batch, found.as_cpu(), strict=True):
                np.testing.assert_array_equal(x, np.array(y))


@pytest.mark.parametrize("operator", [fn.decoders.image, fn.decoders.image_random_crop], ids=["whole", "windows"])
@pytest.mark.parametrize("decoder", ["hardware", "hybrid", "shared", "all"])
def test_each_call_of_nvjpeg_waits_for_the_work_on_its_targets(nvjpeg, monkeypatch, decoder, operator):
    """On the device nothing else waits for these events, so each that is over was waited for."""
    data = [jpeg(k) for k in range(8)]
    allocate, asked = memory.DevicePool.allocate, []

    def in_use(pool, size, commands, at_once=False):
        buffer = allocate(pool, size, commands, at_once)
        if at_once:
            event = pool._events.record(stream)
            assert not event.done()
            asked.append(event)
            buffer.before = [*buffer.before, event]
        return buffer

    @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5, prefetch_queue_depth=2)
    def graph():
        return operator(fn.external_source(lambda info: data[info.idx_in_batch], batch=False), device="mixed", decoder=decoder)

    nvjpeg.driver.use(0)
    stream = nvjpeg.driver.stream_create()
    monkeypatch.setattr(memory.DevicePool, "allocate", in_use)
    with graph() as pipe:
        for _ in range(4):
            pipe.run()
        pipe._core.session.wait_all()
    lanes = [event.done() for event in asked]
    assert sum(lanes) >= 4 and (operator is fn.decoders.image_random_crop or all(lanes))


EARLY = list(itertools.product(("hardware", "hybrid", "shared"), (False, True), (False, True)))
SOME = [EARLY[k] for k in (0, 3, 5, 6, 8, 11)]
"""Each pair of two values."""


@pytest.mark.parametrize("decoder, ignores_waits, spare", [*SOME, *slow(*EARLY)])
def test_a_decoder_that_writes_early_does_no_harm(nvjpeg, monkeypatch, decoder, ignores_waits, spare):
    """nvJPEG's call writes pictures before earlier work of the stream has run. This work may still read the memory of an older batch."""
    nvjpeg.ignores_waits = ignores_waits
    if not spare:  # the pool has no block that is idle, and may not grow
        monkeypatch.setattr(memory, "more_ahead", lambda block, made, ahead: 0)
        monkeypatch.setattr(memory.DevicePool, "_idle_in_place_of", lambda pool, block, behind, size: (block, behind))
    data = [jpeg(k) for k in range(16)]

    @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5, prefetch_queue_depth=3)
    def graph(decoder):
        files = fn.external_source(lambda info: data[info.idx_in_epoch % 16], batch=False)
        images = fn.decoders.image(files, device="mixed", decoder=decoder, name="decode")
        return fn.reductions.sum(images, axes=[0, 1])  # the images' memory is free again before the kernel has read it

    def sums(batch):
        return np.array(batch.as_cpu().as_tensor())

    with graph("cpu") as calm:
        expected = [sums(calm.run()[0]) for _ in range(2)]
    nvjpeg.driver.use(0)
    stream = nvjpeg.driver.stream_create()
    with graph(decoder) as pipe:
        found = [pipe.run(stream)[0] for _ in range(40)]
        counted = dict(pipe.statistics().operator("decode").counted)
        for k, batch in enumerate(found):
            np.testing.assert_array_equal(sums(batch), expected[k % 2])
    assert counted["JPEGs refused by the GPU"] == 0


@pytest.mark.parametrize("fault", [None, "skips"])
def test_doctor_tries_the_decoders(nvjpeg, monkeypatch, tmp_path, fault):
    """With small pictures, because the host device runs the slow operators thread by thread."""
    for k in range(3):
        (tmp_path / f"{k}.jpg").write_bytes(jpeg(k, (80 + 8 * k, 64)))
    monkeypatch.setattr(doctor_decoders, "_PICTURES", tmp_path)
    if fault == "skips":
        nvjpeg.skips = {1}
    found = doctor_decoders.tried("hardware", batch=3, iterations=2, slow=1)
    assert (found["refused"] > 0) == (fault is not None) and found["changed"] == 0
    assert found["decoded"] >= 6 if fault is None else found["decoded"] == 0
    monkeypatch.setattr(doctor_checks, "_probe", lambda: {"init": 0, "version": 13000})
    monkeypatch.setattr(doctor_checks, "_tried_decoders", lambda: {"hardware": found, "hybrid": {"missing": "nvJPEG was not found"}})
    told = doctor_checks.gpu_decoders(MachineSetup(gpu=True))
    assert (told is None) == (fault is None)
    assert fault is None or "batches of decoder='hardware' with" in told.message
    assert doctor_checks.gpu_decoders(MachineSetup(gpu=False)) is None


def saved_by(**arguments):
    with decoded(**arguments) as pipe:
        pipe.run()
        return pipe.checkpoint()


@pytest.mark.parametrize(("threads", "by_cpu"), [(28, True), (2, False)], ids=["cpu", "shared"])
def test_a_checkpoint_keeps_the_default_lane(nvjpeg, caplog, threads, by_cpu):
    """The default depends on `num_threads`. A resumed pipeline keeps the lanes of the saved one, with the same pixels, and says nothing."""
    saved = saved_by(num_threads=threads)
    before = nvjpeg.driver.calls["nvjpegDecodeBatched"]
    with caplog.at_level("WARNING", "asyncdali"), decoded(30 - threads, checkpoint=saved) as pipe:
        found = pipe.run()[0].as_cpu()
        assert (nvjpeg.driver.calls["nvjpegDecodeBatched"] == before) == by_cpu
    assert "pixels" not in caplog.text
    for expected, image in zip(run(files, "cpu")[1], found, strict=True):
        np.testing.assert_array_equal(expected, np.array(image))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"decoder": "cpu"}, {"decoder": "hardware"}, "with the CPU, this pipeline decodes them with the GPU's engines:"),
        ({"decoder": "hardware"}, {"decoder": "cpu"}, "with the GPU's engines, this pipeline decodes them with the CPU:"),
        ({"decoder": "cpu"}, {"num_threads": 28}, None),
        ({"decoder": "hardware"}, None, "with the GPU's engines: not available on the host device"),
        (None, {"decoder": "hardware"}, "with the CPU, this pipeline decodes them with the GPU's engines:"),
        (None, {"num_threads": 28}, None),
        ({"decoder": "cpu"}, None, None),
    ],
    ids=["to engines", "from engines", "same lane", "engines to host", "host to engines", "host to cpu", "cpu to host"],
)  # fmt: skip
def test_resuming_with_other_lanes_logs_a_warning(nvjpeg, monkeypatch, caplog, before, after, told):
    """None: on the host device."""

    def on(arguments):
        monkeypatch.setenv("ASYNCDALI_DEVICE", "host" if arguments is None else "cuda")
        return arguments or {}

    saved = saved_by(**on(before))
    with caplog.at_level("WARNING", "asyncdali"), decoded(checkpoint=saved, **on(after)) as pipe:
        pipe.run()
    assert ("pixels" in caplog.text) == (told is not None) and (told or "") in caplog.text


def test_an_explicit_decoder_overrides_the_checkpoint(nvjpeg):
    pipe = decoded()
    pipe.run()
    saved = pipe.checkpoint()
    pipe.close()
    assert all(slots_of(decoded(hw_decoder_load=1.0, checkpoint=saved)))
    assert all(slots_of(decoded(decoder="hardware", checkpoint=saved)))


def test_a_gpu_without_engines_says_that_pixels_change(nvjpeg, caplog):
    pipe = decoded()
    pipe.run()
    saved = pipe.checkpoint()
    pipe.close()
    nvjpeg.fails["CreateEx"] = 7
    with caplog.at_level("WARNING", "asyncdali"):
        decoded(checkpoint=saved).build()
    assert "used JPEG engines" in caplog.text


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"decoder": "", "hw_decoder_load": None, "engines": 2, "multiprocessors": 0},
        {"decoder": "", "hw_decoder_load": None, "engines": float("nan"), "multiprocessors": 0},
        {"decoder": "", "engines": 0.5, "multiprocessors": 0},
    ],
)
def test_invalid_splits_are_refused(nvjpeg, data):
    lanes = lanes_of(decoded())
    with pytest.raises(ValueError, match="how JPEGs are split"):
        lanes.load(data)


# --- sharing by load


def test_sharing_by_load(nvjpeg):
    expected, found = run(files, "cpu", iterations=6), run(files, decoder="dynamic", iterations=6)
    for a, b in zip(expected, found, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    assert nvjpeg.driver.calls["nvjpegDecodeBatched"] > 0


def test_sharing_by_load_cannot_be_resumed(nvjpeg):
    with pytest.raises(ValueError, match="enable_checkpointing"):
        decoded(decoder="dynamic").build()
    with pytest.raises(ValueError, match="hw_decoder_load"):
        run(files, decoder="dynamic", hw_decoder_load=0.5)


class Clock:
    def __init__(self):
        self.time = 0

    def __call__(self):
        return self.time


def test_both_lanes_finish_at_the_same_time():
    """The engines decode 3 pictures while the CPU decodes 1, so they get three quarters, for any first estimate."""
    clock = Clock()
    balance = Balance(1.0, 9.0, clock)
    for _ in range(20):
        start = clock.time
        engines = round(balance.part(100) * 100)
        share = balance.share(engines, 100 - engines)
        for milliseconds, side in sorted([(engines / 3, "engines"), (100 - engines, "host")]):
            clock.time = start + int(1e6 * milliseconds)
            share.over(side)
    assert engines == pytest.approx(75, abs=2)


def test_a_slower_lane_gets_fewer_samples():
    clock = Clock()
    balance = Balance(1.0, 1.0, clock)
    assert balance.part(100) == 0.5
    waiting = balance.share(50, 50)
    waiting.over("host")  # the engines are 50 pictures behind
    waiting.over("host")
    assert balance._sides["host"].pending == 0
    balance._sides["host"].rate = 1.0
    assert balance.part(100) == 0.25
    waiting.over("engines")
    assert balance._sides["engines"].pending == 0


def test_checkpoints_of_a_pipeline_with_everything(nvjpeg):
    """A pipeline of mixed decoders, draws, branches and GPU operators resumes exactly after any iteration."""

    def pipeline(checkpoint=None):
        @pipeline_def(
            batch_size=8, num_threads=2, device_id=0, seed=5, enable_checkpointing=True, checkpoint=checkpoint, enable_conditionals=True
        )
        def graph():
            images = fn.decoders.image_random_crop(fn.external_source(files, batch=False), device="mixed")
            if fn.random.coin_flip(dtype=types.BOOL):
                images = fn.brightness(images, brightness=fn.random.uniform(range=(0.5, 1.5)))
            else:
                images = fn.flip(images, horizontal=fn.random.coin_flip())
            there = fn.rotate(images.cpu(), angle=fn.random.uniform(range=(-20.0, 20.0)), fill_value=0).gpu()
            return fn.crop(there, crop=[20, 20], out_of_bounds_policy="pad"), fn.random.uniform(range=(0.0, 1.0), shape=[3], device="gpu")

        return graph()

    def next_of(pipe, count):
        return [[np.array(sample) for output in pipe.run() for sample in output.as_cpu()] for _ in range(count)]

    pipe = pipeline()
    saved, batches = [], []
    for _ in range(3):
        saved.append(pipe.checkpoint())
        batches += next_of(pipe, 1)
    batches += next_of(pipe, 2)
    pipe.close()
    for k, data in enumerate(saved):
        again = pipeline(data)
        for expected, found in zip(batches[k : k + 2], next_of(again, 2), strict=True):
            for x, y in zip(expected, found, strict=True):
                np.testing.assert_array_equal(x, y)
        again.close()


TRAINING = """
import numpy as np
from asyncdali import fn, pipeline_def

PICTURES = [np.fromfile(f"{__file__}.{k}.jpg", np.uint8) for k in range(4)]

@pipeline_def(batch_size=4, num_threads=2, device_id=0)
def training():
    return fn.decoders.image(fn.external_source(lambda: PICTURES), device="mixed", name="images")

def step(images):
    assert len(images) == 4
"""


def test_bench_finds_the_lanes_for_a_training_step(nvjpeg, tmp_path, capsys):
    program = tmp_path / "train.py"
    program.write_text(TRAINING)
    for k in range(4):
        jpeg(k).tofile(f"{program}.{k}.jpg")
    arguments = ["bench", f"{program}:training", "--consumer", f"{program}:step", "--iterations", "5"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sweep"] == "decoder"
    assert [row["value"] for row in found["rows"]] == ["default", "cpu", "shared", "hardware", "hybrid", "all"]
    assert [row["settings"]["decoder"] for row in found["rows"]] == [row["value"] for row in found["rows"]]
    rates = {row["value"]: row["samples_per_second"]["median"] for row in found["rows"]}
    assert rates[found["best"]] == max(rates.values())
    assert main([*arguments, "--sweep", "decoder=cpu,none"]) == 1
    assert "'none'" in capsys.readouterr().err


def test_the_documents_have_the_numbers_of_threads_of_the_default():
    """From so many threads on the CPU decodes everything."""
    rates = image_decoder_lanes._THREAD_RATE, image_decoder_lanes._WINDOW_RATE
    whole, windows = (math.ceil(image_decoder_lanes._ENOUGH / rate) for rate in rates)
    (argument,) = [arg for arg in image_decoder.DECODER_ARGS if arg.name == "decoder"]
    assert f"fewer than {whole} `num_threads`, {windows} if only windows" in argument.doc
    page = (Path(__file__).parents[3] / "docs" / "gpu.md").read_text()
    assert f"`num_threads` is below {whole} ({windows} if windows are decoded)" in page
