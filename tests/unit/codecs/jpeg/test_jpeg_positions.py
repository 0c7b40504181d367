"""Positions of blocks in JPEG data, kept for later epochs: pixels do not change, memory is limited, and files must be identical."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers.images import encode, jpeg_blocks, picture
from helpers.jpegs import Decoders
from helpers.operators import run_operator
from test_jpeg_decoder import SAMPLINGS, windows

from asyncdali import fn, pipeline_def
from asyncdali.codecs.jpeg import block_positions as positions
from asyncdali.codecs.jpeg import jpeg_kernels, jpeg_library, window_decoding

_HEAD = [offset // 8 for offset in (positions.CAPACITY, positions.USED)]


@pytest.fixture
def fresh():
    """A new index, as (int64[], its records)."""
    before = len(positions._keep)

    def make(capacity: int = 1 << 20) -> tuple[np.ndarray, np.ndarray]:
        made = positions.index.__wrapped__(capacity)
        return made, positions._keep[-1][0]

    yield make
    del positions._keep[before:]


def photograph(seed: int = 0, **options) -> bytes:
    return encode(picture(150, 430, seed=seed), "JPEG", quality=90, **options)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_window_is_equal(fresh, sampling):
    """Windows are decoded in any order. A window may record further positions, or start at a recorded one."""
    rng, decoders = np.random.default_rng(0), Decoders()
    for seed, (width, height) in enumerate([(430, 80), (257, 130), (900, 40), (256, 64)]):
        data = jpeg_blocks(width, height, SAMPLINGS[sampling], seed) + bytes(positions.SMALLEST_FILE)
        index, _ = fresh()
        known = 0
        for place in windows(rng, width, height, 25):
            channels = int(rng.choice([1, 3]))
            expected = decoders.ours(data, place, channels)
            assert expected is not None and not decoders.found
            assert np.array_equal(decoders.ours(data, place, channels, index=index.ctypes.data), expected)
            known += decoders.found
        assert known > 20


def test_positions_are_recorded_up_to_the_last_row_that_was_read(fresh):
    decoders, data = Decoders(), photograph()
    index, records = fresh()

    def noted(place) -> int:
        assert np.array_equal(decoders.ours(data, place, index=index.ctypes.data), decoders.turbos(data, place))
        return int(records[0])

    per_row = -(-430 // 128)
    assert noted((0, 0, 430, 150)) == 0  # for the whole picture no positions are used
    assert noted((0, 0, 16, 16)) == 1 + per_row  # the chroma of the window needs the next row
    assert noted((0, 100, 430, 4)) == 7 * per_row + 1
    far = noted((0, 149, 430, 1))
    assert far == 10 * per_row
    assert noted((300, 20, 30, 30)) == far


def test_changed_files_have_separate_entries(fresh):
    """A file with one changed bit is another file, even if the bit is in a comment or behind the end."""
    decoders, data = Decoders(), photograph(comment=b"a" * 9000) + b"behind"
    index, _ = fresh()
    at = index.ctypes.data
    place = (100, 100, 30, 30)
    for _ in range(2):
        decoders.ours(data, place, index=at)
    assert decoders.found
    for k in (data.index(b"aaaa"), data.index(b"aaaa") + 4321, len(data) - 1, len(data) - 6):
        other = bytearray(data)
        other[k] ^= 1
        assert decoders.ours(bytes(other), place, index=at) is not None and not decoders.found
    assert decoders.ours(data + b"\0", place, index=at) is not None and not decoders.found
    assert decoders.ours(data, place, index=at) is not None and decoders.found


def test_a_full_index_keeps_its_entries(fresh):
    decoders = Decoders()
    index, records = fresh(1000)
    files = [photograph(seed) for seed in range(10)]
    place = (100, 100, 30, 30)
    found = []
    for _ in range(2):
        for data in files:
            assert np.array_equal(decoders.ours(data, place, index=index.ctypes.data), decoders.turbos(data, place))
            found.append(decoders.found)
    assert found == [False] * 10 + [True] * 2 + [False] * 8
    assert index[_HEAD[1]] <= index[_HEAD[0]] == records.nbytes


def test_records_of_another_file_do_not_write_outside_of_the_image(fresh):
    """If two files had the same digest, the image could be wrong, but no other memory would be touched."""
    decoders, data = Decoders(), photograph()
    index, records = fresh()
    place = (200, 120, 100, 30)
    decoders.ours(data, place, index=index.ctypes.data)
    rng = np.random.default_rng(0)
    before = records.copy()
    for _ in range(300):
        records[:] = before
        used = np.flatnonzero(before)
        records[rng.choice(used[2:], 3)] = rng.integers(-(1 << 63), (1 << 63) - 1, 3)
        decoders.ours(data, place, index=index.ctypes.data)
        assert decoders.found


def test_damage_behind_a_window_has_the_same_result_in_every_epoch(fresh):
    """Positions are recorded only for reads without errors, so a damaged file is handed over in every epoch or in none."""
    decoders, data = Decoders(), photograph()
    index, _ = fresh()
    rng = np.random.default_rng(0)
    scan = data.index(b"\xff\xda") + 20
    for _ in range(60):
        broken = bytearray(data)
        broken[int(rng.integers(scan, len(data) - 2))] ^= 1 << int(rng.integers(8))
        for place in windows(rng, 430, 150, 4):
            plain, known = decoders.ours(bytes(broken), place), decoders.ours(bytes(broken), place, index=index.ctypes.data)
            assert (plain is None) == (known is None) and (plain is None or np.array_equal(plain, known))


def test_threads_that_read_the_same_files(fresh):
    index, _ = fresh()
    files = [photograph(seed) for seed in range(6)]
    expected = {}
    places = windows(np.random.default_rng(0), 430, 150, 10)
    one = Decoders()
    for k, data in enumerate(files):
        for place in places:
            expected[k, place] = one.ours(data, place)
    wrong: list[object] = []

    def work(seed: int) -> None:
        decoders, rng = Decoders(), np.random.default_rng(seed)
        for _ in range(150):
            k, place = int(rng.integers(len(files))), places[int(rng.integers(len(places)))]
            if not np.array_equal(decoders.ours(files[k], place, index=index.ctypes.data), expected[k, place]):
                wrong.append((k, place))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def counted(epochs: int) -> list[int]:
    """The counts of both decoders and of known positions after this number of epochs of one file."""
    window_decoding.decode_window.compile()  # compile first, because libjpeg-turbo decodes until the kernel is compiled
    files = [np.frombuffer(photograph(seed=7), np.uint8)] * 3

    @pipeline_def(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1, seed=5)
    def crops():
        encoded = fn.external_source(source=lambda: files, batch=True)
        return fn.decoders.image_random_crop(encoded, random_area=[0.1, 0.2], name="decode")

    with crops() as pipe:
        before = pipe.statistics()
        for _ in range(epochs):
            pipe.run()
        found = pipe.statistics().since(before).operator("decode").counted
    assert [name for name, _ in found] == list(jpeg_kernels.COUNT_NAMES)
    return [number for _, number in found]


def test_statistics_count_known_positions(monkeypatch):
    positions.index.cache_clear()
    monkeypatch.setenv("ASYNCDALI_JPEG_INDEX", "1")
    ours, turbos, known, *_ = counted(2)
    assert ours >= 6 and turbos == 0 and known == ours - 1
    monkeypatch.setenv("ASYNCDALI_JPEG_INDEX", "0")
    assert counted(1)[2] == 0
    assert "no block positions are kept" in jpeg_library.described()


def test_the_environment_variable_must_be_a_number(monkeypatch):
    for wrong in ("much", "-1", "1e3", "9999999"):
        monkeypatch.setenv("ASYNCDALI_JPEG_INDEX", wrong)
        with pytest.raises(ValueError, match="ASYNCDALI_JPEG_INDEX is .*; allowed are megabytes"):
            run_operator("decoders.image", [photograph()])
        assert repr(wrong) in jpeg_library.described()
