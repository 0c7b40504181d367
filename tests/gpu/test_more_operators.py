"""On a GPU: more operators give the results of the CPU: morphology, Bayer patterns, jitter, remap, LZ4, flow, dumps, FITS files, videos
that are fed or resized. Also the cache of decoded pictures in device memory."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers.containers import fits
from helpers.lz4 import compress
from helpers.opencv_programs import PROGRAMS, check
from helpers.videos import write_video
from PIL import Image
from test_operators import gpu, pictures, results, samples_of  # noqa: F401

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.gpu
BATCH = 8


def remapped(x):
    maps = np.stack(np.meshgrid(np.linspace(0, 39, 40), np.linspace(3, 30, 40))).astype(np.float32)
    image = fn.resize(x, size=[40.0, 40.0])
    return fn.experimental.remap(image, types.Constant(maps[0], device="cpu"), types.Constant(maps[1], device="cpu"))


CASES = {
    "dilate": (lambda x: fn.experimental.dilate(x, mask_size=[5, 3], iterations=2), 0),
    "erode, wrapped": (lambda x: fn.experimental.erode(x, mask_size=[9, 12], border_mode="wrap"), 0),
    "dilate floats": (lambda x: fn.experimental.dilate(fn.cast(x, dtype=types.FLOAT), border_mode="reflect"), 0),
    "median 3x3": (lambda x: fn.experimental.median_blur(x), 0),
    "median 5x5": (lambda x: fn.experimental.median_blur(x, window_size=[5, 5]), 0),
    "median 7x2": (lambda x: fn.experimental.median_blur(fn.cast(x, dtype=types.FLOAT), window_size=[7, 2]), 0),
    "remap": (remapped, 1),
    "experimental.resize": (lambda x: fn.experimental.resize(x, size=[31.0, 47.0]), 1),
    "jitter": (lambda x: fn.jitter(x, nDegree=5, seed=3), 0),
    "equalize": (lambda x: fn.experimental.equalize(x), 0),
    "sphere": (lambda x: fn.sphere(x, fill_value=7), 0),
    "sphere, linear": (lambda x: fn.sphere(x, interp_type=types.INTERP_LINEAR), 1),
    "water, linear": (lambda x: fn.water(x, interp_type=types.INTERP_LINEAR), 1),
    "debayer": (lambda x: fn.debayer(fn.slice(x, [0, 0], [32, 38], axis_names="HW")[:, :, 0], blue_position=[0, 1]), 0),
    "optical_flow": (lambda x: fn.optical_flow(fn.stack(x, fn.flip(x, horizontal=0, vertical=1), axis=0, axis_name="F")), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name):
    body, most = CASES[name]
    for one, other in zip(results(body, False), results(body, True), strict=True):
        for left, right in zip(one, other, strict=True):
            for x, y in zip(left, right, strict=True):
                assert x.shape == y.shape and x.dtype == y.dtype
                np.testing.assert_allclose(y.astype(np.float64), x.astype(np.float64), rtol=0, atol=most)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_opencv(name):
    """Also run on the stand-in for CUDA: tests/unit/cuda/test_cuda_opencv_images.py."""
    for one, other in zip(*(results(PROGRAMS[name][0], on_gpu) for on_gpu in (False, True)), strict=True):
        check(name, one[0], other[0])


def outputs(make, iterations=4, feed=None, **options):
    """Batches of a pipeline over `make(device)`, on the CPU and on the GPU."""
    made = []
    for device in ("cpu", "gpu"):

        @pipeline_def(**{"batch_size": BATCH, "num_threads": 4, "device_id": 0, "seed": 5, "prefetch_queue_depth": 1, **options})
        def graph():
            found = make(device)  # noqa: B023
            return tuple(found) if isinstance(found, list) else found

        pipe = graph()
        pipe.build()
        if feed is not None:
            feed(pipe)
        made.append([[samples_of(output) for output in pipe.run()] for _ in range(iterations)])
        pipe.close()
    return made


def equal(one, other, most=0):
    for a, b in zip(one, other, strict=True):
        for left, right in zip(a, b, strict=True):
            assert len(left) == len(right)
            for x, y in zip(left, right, strict=True):
                assert x.shape == y.shape and x.dtype == y.dtype
                np.testing.assert_allclose(y.astype(np.float64), x.astype(np.float64), rtol=0, atol=most)


@pytest.mark.parametrize("small", [False, True])
def test_dump_image(tmp_path, monkeypatch, small):
    monkeypatch.chdir(tmp_path)

    def make(device):
        data = fn.external_source(lambda info: pictures(info)[:3, :4] if small else pictures(info), batch=False, layout="HWC")
        return fn.dump_image(data.gpu() if device == "gpu" else data, suffix=device)

    equal(*outputs(make, 1))
    names = sorted(path.name for path in tmp_path.glob("*-cpu-0.ppm"))
    assert len(names) == BATCH
    for name in names:
        assert (tmp_path / name).read_bytes() == (tmp_path / name.replace("cpu", "gpu")).read_bytes()


def test_inflate():
    arrays = [np.arange(k, k + 24, dtype=np.int16).reshape(4, 6) for k in range(BATCH)]
    blocks = [np.frombuffer(compress(array.tobytes()), np.uint8) for array in arrays]

    def make(device):
        data = fn.external_source(lambda: blocks)
        return fn.decoders.inflate(data.gpu() if device == "gpu" else data, shape=[4, 6], dtype=types.INT16, device=device)

    here, there = outputs(make)
    equal(here, there)
    np.testing.assert_array_equal(there[0][0][3], arrays[3])


def test_damaged_blocks():
    """The error names the sample; other iterations are delivered."""
    good = np.frombuffer(compress(np.resize(np.arange(7, dtype=np.uint8), 5000).tobytes()), np.uint8)

    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0)
    def graph():
        data = fn.external_source(lambda info: good[:-1] if (info.iteration, info.idx_in_batch) == (2, 5) else good, batch=False)
        return fn.decoders.inflate(data.gpu(), shape=[5000], check_output_size=True)

    pipe = graph()
    pipe.build()
    for iteration in range(5):
        if iteration == 2:
            with pytest.raises(RuntimeError, match="sample 5.*|chunk 0 of 1 is not a valid LZ4 block"):
                pipe.run()
        else:
            np.testing.assert_array_equal(samples_of(pipe.run()[0])[5], np.resize(np.arange(7, dtype=np.uint8), 5000))
    pipe.close()


@pytest.mark.parametrize("preset", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("temporal", [False, True])
def test_optical_flow(preset, temporal):
    """The flow equals the CPU's bit for bit, with hints and without."""
    rng = np.random.default_rng(7)
    scene = np.kron(rng.integers(0, 256, (40, 60, 3)), np.ones((4, 4, 1))).astype(np.uint8)
    frames = [np.stack([scene[k : k + 97, 2 * k : 2 * k + 130 + i] for k in range(4)]) for i in range(BATCH)]
    hints = [rng.normal(0, 3, (3, 25, -(-(130 + i) // 4), 2)).astype(np.float32) for i in range(BATCH)]

    def make(device):
        data = fn.external_source(lambda: frames, layout="FHWC")
        given = fn.external_source(lambda: hints)
        data, given = (data.gpu(), given.gpu()) if device == "gpu" else (data, given)
        options = {"preset": preset, "enable_temporal_hints": temporal}
        return [fn.optical_flow(data, output_grid=1, **options), fn.optical_flow(data, given, enable_external_hints=True, **options)]

    equal(*outputs(make, 2))


def test_fits_files(tmp_path):
    for k in range(11):
        (tmp_path / f"{k:02}.fits").write_bytes(fits(np.arange(20 + 4 * k, dtype=np.float32).reshape(-1, 4)))

    def make(device):
        return fn.experimental.readers.fits(file_root=str(tmp_path), hdu_indices=[1], device=device, random_shuffle=True)

    equal(*outputs(make))


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    pytest.importorskip("av", reason="decoding videos needs PyAV")
    folder = tmp_path_factory.mktemp("videos")
    return [write_video(folder / f"{count}.webm", count) for count in (29, 13)]


def test_video_resize(videos):
    def make(device):
        return fn.readers.video_resize(
            device=device, filenames=videos, labels=[4, 2], sequence_length=3, resize_shorter=11, random_shuffle=True,
            enable_frame_num=True,
        )  # fmt: skip

    equal(*outputs(make, batch_size=3), most=1)


def test_videos_that_are_fed(videos):
    def feed(pipe):
        for path in videos:
            pipe.feed_input("video", [np.fromfile(path, np.uint8)])

    def make(device):
        return fn.experimental.inputs.video(
            name="video", sequence_length=4, device="mixed" if device == "gpu" else "cpu", last_sequence_policy="pad"
        )

    here, there = outputs(make, 5, feed, batch_size=3)
    equal(here, there)
    assert [len(batch[0]) for batch in there] == [3, 3, 2, 3, 1]


@pytest.mark.parametrize(
    "decoding",
    [{}, {"cache_batch_copy": False}, {"cache_type": "largest"}, {"decoder": "hardware"}, {"dtype": types.FLOAT}],
)
@pytest.mark.parametrize("skip", [False, True])
def test_cached_pictures(tmp_path, decoding, skip):
    """Pictures from the cache in device memory equal decoded pictures, and the files of cached pictures are not read."""
    (tmp_path / "class").mkdir()
    for k in range(40):
        small = np.random.default_rng(k).integers(0, 255, (9, 9, 3), np.uint8)
        data = io.BytesIO()
        Image.fromarray(small).resize((90 + 3 * k, 170)).save(data, "PNG" if k % 9 == 4 else "JPEG")
        (tmp_path / "class" / f"{k:02}.jpg").write_bytes(data.getvalue())

    def run(size, **more):
        @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, seed=5)
        def graph():
            skipping = skip and size > 0
            files, labels = fn.readers.file(file_root=str(tmp_path), skip_cached_images=skipping, random_shuffle=True, name="reader")
            images = fn.decoders.image(files, device="mixed", cache_size=size, name="decode", **more)
            return images, fn.resize(images, size=[20.0, 30.0]), labels

        pipe = graph()
        pipe.build()
        try:
            made = [[samples_of(output) for output in pipe.run()] for _ in range(20)]
            counted = [dict(pipe.statistics().operator(name).counted) for name in ("decode", "reader")]
        finally:
            pipe.close()
        return made, counted

    plain = {name: value for name, value in decoding.items() if not name.startswith("cache")}
    try:
        expected, _ = run(0, **({"decoder": "cpu"} | plain))
    except RuntimeError as error:
        if "decoder" not in decoding:
            raise
        pytest.skip(str(error))
    found, (decoder, reader) = run(64, **decoding)
    assert not decoder.get("JPEGs refused by the GPU"), "the CPU decoded pictures of the engines"
    equal(expected, found)
    assert decoder["pictures in the cache"] == 40 and decoder["pictures from the cache"] >= 40
    assert not skip or reader["files left out for the cache"] >= 40


@pytest.mark.parametrize("policy", ["rand_augment", "trivial_augment", "auto_augment"])
def test_automatic_augmentations(policy):
    """The choices equal the CPU's. Pixels differ by rounding in filters and warps."""
    from asyncdali.auto_aug import auto_augment, rand_augment, trivial_augment

    apply = {
        "rand_augment": lambda data: rand_augment.rand_augment(data, n=2, m=9),
        "trivial_augment": trivial_augment.trivial_augment_wide,
        "auto_augment": auto_augment.auto_augment,
    }[policy]

    def make(device):
        data = fn.external_source(pictures, batch=False, layout="HWC")
        return apply(data.gpu() if device == "gpu" else data)

    for a, b in zip(*outputs(make, enable_conditionals=True), strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            assert x.shape == y.shape and (np.abs(x.astype(int) - y.astype(int)) <= 1).mean() > 0.98
