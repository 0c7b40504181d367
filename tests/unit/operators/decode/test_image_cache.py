"""The cache of decoded pictures (`cache_size` and related arguments of ``decoders.image``), and readers that skip cached files."""

from __future__ import annotations

import io
import os
import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg, use
from PIL import Image

from asyncdali import fn, pipeline_def, types
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.operators.decode import image_cache
from asyncdali.operators.decode.image_cache import CacheOptions, PictureCache
from asyncdali.readers.files import contents


def encoded(seed, size=(90, 70), kind="JPEG", **options):
    small = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize(size).save(out, kind, **options)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path):
    """24 different pictures. Every fourth picture is a PNG."""
    (tmp_path / "class").mkdir()
    for k in range(24):
        kind = "PNG" if k % 4 == 3 else "JPEG"
        (tmp_path / "class" / f"{k:02}.{kind.lower()}").write_bytes(encoded(k, (66 + 4 * k, 70), kind))
    return tmp_path


DECODE = {"name": "decode", "cache_size": 4}


@pipeline_def(batch_size=6, num_threads=2, device_id=None)
def graph(folder, reading, decoding):
    files, labels = fn.readers.file(file_root=str(folder), name="reader", **reading)
    return fn.decoders.image(files, **decoding), labels


def built(folder, reading=None, decoding=None, **options):
    pipe = graph(folder, reading or {}, decoding or DECODE, **options)
    pipe.build()
    return pipe


def taken(pipe, batches):
    """The pictures and labels of this number of batches, in order."""
    samples = []
    for _ in range(batches):
        images, labels = pipe.run()
        images = images.as_cpu()
        samples += [(np.array(images[i]), int(labels.at(i)[0])) for i in range(len(images))]
    return samples


def same(found, expected):
    assert [label for _, label in found] == [label for _, label in expected]
    for (a, _), (b, _) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def count(pipe, operator="decode"):
    return dict(pipe.statistics().operator(operator).counted)


@pytest.mark.parametrize("reading", [{}, {"skip_cached_images": True}, {"skip_cached_images": True, "random_shuffle": True, "seed": 3}])
@pytest.mark.parametrize("cache", [{}, {"cache_type": "largest"}, {"cache_threshold": 20000}])
def test_results_are_those_without_a_cache(folder, reading, cache):
    plain = {name: value for name, value in reading.items() if name != "skip_cached_images"}
    expected = taken(built(folder, plain, {"name": "decode"}), 16)
    pipe = built(folder, reading, {**DECODE, **cache})
    same(taken(pipe, 16), expected)
    found = count(pipe)
    assert found["pictures from the cache"] > 0
    if reading:
        assert count(pipe, "reader")["files left out for the cache"] > 0


def test_the_second_epoch_decodes_and_reads_nothing(folder):
    pipe = built(folder, {"skip_cached_images": True}, prefetch_queue_depth=1)
    first = taken(pipe, 4)
    decoded = count(pipe)["JPEGs decoded by asyncdali"]
    read = []
    for name in sorted(os.listdir(folder / "class")):
        path = folder / "class" / name
        read.append((path, os.stat(path)))
    same(taken(pipe, 4), first)
    found = count(pipe)
    assert decoded == 18 and found["JPEGs decoded by asyncdali"] == decoded
    assert found["pictures in the cache"] == 24 and found["pictures from the cache"] >= 24
    assert count(pipe, "reader")["files left out for the cache"] >= 24


LEFT_OUT = "files left out for the cache"


@pytest.fixture
def old_files(monkeypatch):
    """Files are normally trusted as unchanged a second after they were written. Here they are trusted immediately."""
    monkeypatch.setattr(contents, "_SETTLED", -(1 << 62))


def test_files_that_only_caching_decoders_need_are_skipped(folder, old_files):
    """A file is skipped if its bytes go only to decoders that have the picture in their cache."""
    expected = taken(built(folder, {}, {"name": "decode"}), 12)
    pipe = built(folder, prefetch_queue_depth=1)
    same(taken(pipe, 12), expected)
    assert count(pipe, "reader")[LEFT_OUT] >= 24
    changed = folder / "class" / "17.jpeg"
    changed.write_bytes(encoded(99, (50, 50)))
    assert (50, 50, 3) in [image.shape for image, _ in taken(pipe, 6)]


def test_files_changed_just_now_are_read(folder, monkeypatch):
    monkeypatch.setattr(contents, "_SETTLED", 1 << 62)
    pipe = built(folder, prefetch_queue_depth=1)
    taken(pipe, 9)
    assert count(pipe, "reader")[LEFT_OUT] == 0 and count(pipe)["pictures from the cache"] >= 24


@pytest.mark.parametrize("other", ["output", "shape", "decoder", "branch"])
def test_files_that_other_operators_read_are_read(folder, old_files, other):
    @pipeline_def(batch_size=6, num_threads=2, device_id=None, enable_conditionals=True, prefetch_queue_depth=1)
    def shared():
        files, _ = fn.readers.file(file_root=str(folder), name="reader")
        picture = fn.decoders.image(files, **DECODE)
        if other == "output":
            return picture, files
        if other == "shape":
            return picture, fn.peek_image_shape(files)
        if other == "decoder":
            return picture, fn.decoders.image(files)
        if fn.random.coin_flip(seed=1) == 1:
            more = fn.decoders.image(files)
        else:
            more = fn.decoders.image(files, **{**DECODE, "name": "second"})
        return picture, more

    pipe = shared()
    pipe.build()
    for _ in range(12):
        sizes = [np.array(sample).size for output in pipe.run() for sample in output]
        assert min(sizes) > 0
    assert count(pipe, "reader").get(LEFT_OUT, 0) == 0 and count(pipe)["pictures from the cache"] > 0


def test_decoders_with_equal_settings_share_a_cache(folder):
    first, second = built(folder), built(folder)
    expected = taken(first, 4)
    same(taken(second, 4), expected)
    assert count(second)["pictures from the cache"] >= 24
    first.close()
    second.close()
    del first, second
    fresh = built(folder)
    assert count(fresh)["pictures in the cache"] == 0, "the cache is freed with the last pipeline that uses it"


@pytest.mark.parametrize(
    "other",
    [
        {"output_type": types.GRAY}, {"output_type": types.BGR}, {"dtype": types.FLOAT}, {"use_fast_idct": True},
        {"adjust_orientation": False},
    ],
)
def test_decoders_with_other_settings_do_not_share_cached_pictures(folder, other):
    for k in range(4):
        exif = Image.Exif()
        exif[0x0112] = 6
        (folder / "class" / f"{k:02}.jpeg").write_bytes(encoded(k, exif=exif))
    kept = built(folder)
    taken(kept, 4)
    expected = taken(built(folder, decoding={"name": "decode", **other}), 8)
    same(taken(built(folder, decoding={**DECODE, **other}), 8), expected)


def test_a_changed_file_is_read_and_decoded_again(folder):
    pipe = built(folder, {"skip_cached_images": True}, prefetch_queue_depth=1)
    taken(pipe, 5)  # one batch is prefetched
    changed = folder / "class" / "17.jpeg"
    changed.write_bytes(encoded(99, (50, 50)))
    taken(pipe, 3)
    found = [image for image, _ in taken(pipe, 4)]
    np.testing.assert_array_equal(found[17], taken(built(folder, decoding={"name": "decode"}), 4)[17][0])
    assert count(pipe)["pictures in the cache"] == 25, "the old picture stays in the cache: no picture is removed"


def test_contents_decide_not_names(tmp_path):
    """One file has two names, and two files in different roots have the same name."""
    for root, seed in (("a", 1), ("b", 2)):
        (tmp_path / root / "class").mkdir(parents=True)
        for k in range(2):
            (tmp_path / root / "class" / f"{k}.jpg").write_bytes(encoded(seed))
    pipes = []
    for pictures, root in enumerate("ab", 1):
        pipes.append(built(tmp_path / root, batch_size=2))
        same(taken(pipes[-1], 6), taken(built(tmp_path / root, decoding={"name": "decode"}, batch_size=2), 6))
        assert count(pipes[-1])["pictures in the cache"] == pictures


def test_the_cache_is_bounded(folder):
    size = sum((66 + 4 * k) * 70 * 3 for k in range(24))
    options = CacheOptions(size // 2, "threshold", 0)
    cache = PictureCache(options)
    kept = [cache.reserve((k, 0, 0), k, (70, 66 + 4 * k, 3), (66 + 4 * k) * 210) for k in range(24)]
    assert 0 < cache.used <= options.size and 0 in kept and len(cache) == sum(slot != 0 for slot in kept)
    again = [cache.reserve((k, 0, 0), k, (70, 66 + 4 * k, 3), (66 + 4 * k) * 210) for k in range(24)]
    assert again == kept


def test_largest_keeps_the_largest(folder):
    cache = PictureCache(CacheOptions(30000 + 3 * image_cache.ENTRY, "largest", 0))
    sizes = [7000, 20000, 3000, 9000, 100]
    assert [cache.reserve((k, 0, 0), k, (1, size, 1), size) for k, size in enumerate(sizes)] == [0] * 5
    kept = [k for k, size in enumerate(sizes) if cache.reserve((k, 0, 0), k, (1, size, 1), size)]
    assert kept == [1, 3, 4]


def test_largest_keeps_the_largest_of_more_than_it_can_remember():
    cache = PictureCache(CacheOptions(1 << 20, "largest", 0))
    sizes = np.random.default_rng(1).integers(100, 60_000, 5000).tolist()
    for k, size in enumerate(sizes):
        assert cache.reserve((k, 0, 0), str(k), (1, size, 1), size) == 0
    kept = [size for k, size in enumerate(sizes) if cache.reserve((k, 0, 0), str(k), (1, size, 1), size)]
    largest = sorted(sizes)[-len(kept) + 1 :]
    assert len(kept) > 15 and sorted(kept)[1:] == largest and cache.taken <= 1 << 20


@pytest.mark.parametrize("kind", ["threshold", "largest"])
@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("names", [8000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_bookkeeping_is_bounded_over_any_number_of_names(kind, changing, names):
    """A cache of 1 MB kept 500 bytes for every file that it did not cache, and for every change of a file."""
    cache = PictureCache(CacheOptions(1 << 20, kind, 0))

    def batches(count):
        for k in range(count):
            name = contents.StampedName(f"/data/pictures/class_{k % 1000}/a_picture_with_a_long_name_{k}.jpeg")
            name.stamp = (1, 10**9 + k, 10**5 + k, 10**18 + k, 10**18 + k)
            key = (10**5, 2**63 + (k % 50 if changing else k), 2**63 - k % 50)
            cache.learn(name.stamp, key)
            slot = cache.reserve(key, name, (20, 20, 3), 1200)
            if slot:
                cache.learn(name.stamp, key)
                cache._memory[slot - cache._first] = 1

    tracemalloc.start()
    try:
        batches(names)
        before = tracemalloc.get_traced_memory()[0]
        assert before + cache.used <= 1.01 * (1 << 20) + 20_000 and cache.taken <= 1 << 20
        batches(names // 2)
        assert tracemalloc.get_traced_memory()[0] <= before + 2000 or kind == "largest"
        assert tracemalloc.get_traced_memory()[0] + cache.used <= 1.01 * (1 << 20) + 20_000
        print(names, "names:", tracemalloc.get_traced_memory()[0] + cache.used, "bytes of a cache of", 1 << 20)
    finally:
        tracemalloc.stop()
    assert len(cache) > 40


def test_a_picture_is_in_the_cache_only_when_its_pixels_are_complete(folder):
    cache = PictureCache(CacheOptions(1 << 20, "threshold", 0))
    slot = cache.reserve((1, 2, 3), None, (1, 8, 1), 8)
    cache.learn("stamp", (1, 2, 3))
    assert slot and cache.find((1, 2, 3)) is None and not cache.holds("stamp")
    cache._memory[slot - cache._first] = 1
    assert cache.find((1, 2, 3)).shape == (1, 8, 1) and cache.holds("stamp") and not cache.holds("other")


def test_files_are_read_where_a_decoder_has_no_cache(folder):
    @pipeline_def(batch_size=6, num_threads=2, device_id=None)
    def two():
        files, _ = fn.readers.file(file_root=str(folder), skip_cached_images=True, name="reader")
        return fn.decoders.image(files, **DECODE), fn.decoders.image(files), fn.peek_image_shape(files)

    pipe = two()
    pipe.build()
    for _ in range(10):
        cached, plain, shapes = pipe.run()
        for i in range(6):
            np.testing.assert_array_equal(cached.at(i), plain.at(i))
            assert tuple(shapes.at(i)) == cached.at(i).shape
    assert count(pipe, "reader")["files left out for the cache"] == 0


def test_broken_files_fail_every_time(folder):
    (folder / "class" / "07.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    (folder / "class" / "08.jpeg").write_bytes(encoded(8)[:-500])
    pipe = built(folder, {"skip_cached_images": True}, batch_size=1)
    for _ in range(2):
        for k in range(24):
            if k in (7, 8):
                with pytest.raises(RuntimeError, match="0[78]"):
                    pipe.run()
            else:
                pipe.run()
    assert count(pipe)["pictures in the cache"] >= 22


def test_checkpoints_do_not_depend_on_the_cache(folder):
    def make(checkpoint=None):
        return built(folder, {"skip_cached_images": True, "random_shuffle": True, "seed": 1}, seed=4, enable_checkpointing=True,
                     checkpoint=checkpoint)  # fmt: skip

    pipe = make()
    taken(pipe, 7)
    saved = pipe.checkpoint()
    expected = taken(pipe, 6)
    pipe.close()
    del pipe
    restored = make(saved)
    same(taken(restored, 6), expected)


def test_arguments_are_checked(folder, capfd):
    with pytest.raises(RuntimeError, match="`cache_type` is 'biggest'; supported are '', 'threshold', 'largest'"):
        built(folder, decoding={"cache_size": 1, "cache_type": "biggest"})
    with pytest.raises(RuntimeError, match="`cache_size` must not be negative, got -1"):
        built(folder, decoding={"cache_size": -1})
    with pytest.warns(UserWarning, match="`cache_threshold` has no effect without a cache"):
        built(folder, decoding={"cache_threshold": 5})
    with pytest.raises(RuntimeError, match="`cache_size`: .* bytes are needed"):
        built(folder, decoding={"cache_size": 1 << 30})
    pipe = built(folder, decoding={**DECODE, "cache_debug": True})
    taken(pipe, 8)
    pipe.close()
    assert "decode: the cache of decoded pictures holds 24 pictures" in capfd.readouterr().err


def test_an_empty_sample_without_a_picture():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def empty():
        data = fn.external_source(lambda: [np.frombuffer(encoded(1), np.uint8), np.empty(0, np.uint8)])
        return fn.decoders.image(data, **DECODE)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = empty()
        pipe.build()
    with pytest.raises(RuntimeError, match="(?s)sample 1.*the cache has no picture for it"):
        pipe.run()


# ------------------------------------------------------------------------------------------------------------------------ on a GPU


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


def on_gpu(folder, reading=None, **decoding):
    return built(folder, reading, {**DECODE, "device": "mixed", **decoding}, device_id=0)


@pytest.mark.parametrize(
    "decoding",
    [{}, {"cache_batch_copy": False}, {"decoder": "hardware"}, {"decoder": "hybrid"}, {"dtype": types.FLOAT}, {"cache_type": "largest"}],
)
@pytest.mark.parametrize("skip", [False, True])
def test_device_memory(nvjpeg, folder, decoding, skip):
    plain = {name: value for name, value in decoding.items() if not name.startswith("cache") and name != "decoder"}
    expected = taken(built(folder, decoding={"name": "decode", **plain}), 16)
    pipe = on_gpu(folder, {"skip_cached_images": skip}, **decoding)
    same(taken(pipe, 16), expected)
    found = count(pipe)
    assert found["pictures in the cache"] == 24 and found["pictures from the cache"] >= 24
    if skip:
        assert count(pipe, "reader")["files left out for the cache"] > 0
    assert any(cache.device is not None and len(cache) == 24 for cache in list(image_cache._caches.values()))


def test_decoders_with_other_settings_do_not_share_pictures(nvjpeg, folder):
    """On hardware, the decoders of the GPU and of the CPU give different pixels."""
    first, second = on_gpu(folder, decoder="hardware"), on_gpu(folder)
    taken(first, 8)
    taken(second, 4)
    assert count(second)["JPEGs decoded by asyncdali"] == 18
    assert nvjpeg.driver.calls["nvjpegDecodeBatched"] > 0
