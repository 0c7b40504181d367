"""Random streams: values recorded from DALI 2.4, and a simple model that is written from the definition."""

import math
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest

from asyncdali.sampling.random_streams import StreamPosition, coin_flip, draw_windows, normal, uniform, uniform_values
from asyncdali.sampling.seeds import seed_sequence, seed_table

SEED = StreamPosition.fresh(42)
INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


def hexes(array):
    return " ".join(f"{bits:08x}" for bits in array.view(np.uint32).ravel())


# A naive generator in Python integers: one word at a time.


def naive_block(key, counter):
    c = [counter >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def naive_words(position, sample, element, count):
    start = ((position.hi + 65537 * sample) % 2**64 << 64) + position.lo
    words = []
    for q in range(position.phase + 257 * element, position.phase + 257 * element + count):
        words.append(naive_block(position.key, (start + q // 4) % 2**128)[q % 4])
    return words


def random_position(rng):
    """A random position. Some positions are directly before a carry into the upper half of the counter."""
    key, hi, lo = (int(v) for v in rng.integers(0, 2**64, 3, np.uint64))
    lo = [0, lo, 2**64 - 1 - lo % 200][rng.integers(3)]
    return StreamPosition(key, hi, lo, int(rng.integers(4)))


# ----- words and positions


def test_known_answers():
    words = [0x9CEAF053, 0x77F5493B, 0x12BF50AD, 0x5742B3D7, 0xFCDB2127, 0x53BA6CFD]
    assert naive_words(SEED, 0, 0, 6) == words
    # A float64 that is uniform over [0, 1) contains 53 bits of two words.
    for k in range(4):
        drawn = uniform(StreamPosition(42, phase=k), 1, 0, 1, dtype=np.float64)[0]
        assert drawn == pytest.approx((words[k] + words[k + 1] * 2**32) / 2**64, abs=2**-53)


def test_text_form_round_trips():
    position = StreamPosition(0x77F5493B9CEAF053, 0x53BA6CFDFCDB2127, 0x5742B3D712BF50AD, 2)
    assert str(position) == "Philox_77F5493B9CEAF053_53BA6CFDFCDB2127:5742B3D712BF50AD_2"
    assert StreamPosition.parse(str(position)) == position
    assert StreamPosition.parse(str(position).replace("F", "f")) == position
    assert str(StreamPosition.fresh(-1)) == "Philox_FFFFFFFFFFFFFFFF_0000000000000000:0000000000000000_0"


@pytest.mark.parametrize(
    "text",
    ["", "Philox_", "980519533", f"{SEED}"[:-1] + "4", f"{SEED}\n", f" {SEED}", f"{SEED}".replace(":", "_"), "x" * 10000, None, 7],
)
def test_bad_text_is_refused(text):
    with pytest.raises(ValueError, match="is not the position of a random stream; expected Philox_") as caught:
        StreamPosition.parse(text)
    assert len(str(caught.value)) < 300


def test_positions_are_immutable_and_hashable():
    with pytest.raises(AttributeError):
        SEED.hi = 3
    assert {SEED: 1}[StreamPosition.fresh(42)] == 1


def test_advancing_wraps():
    assert StreamPosition(1, 2**64 - 2).advanced(5) == StreamPosition(1, 3)
    assert SEED.advanced(4).advanced(3) == SEED.advanced(7)


def test_a_slot_is_the_stream_of_one_sample():
    rng = np.random.default_rng(0)
    for _ in range(20):
        position = random_position(rng)
        whole = uniform(position, 9, counts=5).reshape(9, 5)
        cut = int(rng.integers(1, 9))
        assert np.array_equal(uniform(position.slot(cut), 9 - cut, counts=5).reshape(-1, 5), whole[cut:])
        assert uniform(position.slot(cut, 3), 1)[0] == whole[cut, 3]


# ----- seeds


@pytest.mark.parametrize(
    ("seed", "first"),
    [
        (0, [0x9D2F70B9, 0xE5D882D5, 0x167FCCD9, 0x41F2481B]),
        (1, [0x8D03A907, 0x6D32F92B, 0x3F758936, 0x8D5A4B12]),
        (42, [0x44BE2F4A, 0x693530C3, 0xFAE76DBF, 0x0E44E0E2]),
    ],
)
def test_seed_table(seed, first):
    table = seed_table(seed)
    assert len(table) == 1024
    assert list(table[:4]) == first
    assert seed_table(seed + 2**32) == table
    assert seed_table(seed - 2**32) == table


def test_the_end_of_the_seed_table():
    assert seed_table(42)[1023] == 0xC3B5B66B


def test_seed_sequence_of_length_zero():
    assert seed_sequence([1, 2], 0) == []


# ----- golden values


def test_golden_uniform():
    assert hexes(uniform(SEED, 4)) == "3e675780 3f68fed4 beb9392a bef28fac"
    assert hexes(uniform(SEED.advanced(4), 4)) == "bf2ffdce beaaf4c8 bd2016d0 bedcdace"
    assert hexes(uniform(SEED, 1, counts=3)) == "3e675780 3f592870 3f0bb8b4"
    assert [v.hex() for v in uniform(SEED, 2, dtype=np.float64)] == ["-0x1.0156d88c62a20p-4", "-0x1.7bb1854c2e026p-1"]
    assert uniform(SEED, 6, 0, 100, dtype=np.int32).tolist() == [47, 13, 86, 62, 44, 1]


def test_golden_notebook():
    """DALI's tutorial: pipeline seed 12, and the fourth batch of rotation angles. Their operator is the second one that takes a seed."""
    angles = uniform(StreamPosition.fresh(seed_table(12)[1]).advanced(24), 8, -30.0, 30.0)
    assert angles.round(4).tolist() == np.float32([-18.8415, 11.0461, -3.6668, 1.8544, 8.8177, -29.4673, -25.0191, 7.1832]).tolist()


def test_golden_normal():
    assert hexes(normal(SEED, 4)) == "bf785e5c 3e55ad84 3f73d0be bf9ba32a"
    assert hexes(normal(SEED.advanced(4), 4)) == "bdc3094b 3fb91340 3f21e1c0 bfc56c70"


def test_golden_coin_flip():
    assert coin_flip(SEED, 4).tolist() == [0, 0, 1, 1]
    assert coin_flip(SEED.advanced(4), 4).tolist() == [1, 1, 1, 1]
    assert coin_flip(SEED, 4).dtype == np.int32


def test_golden_crop_windows():
    def windows(position):
        anchors, extents = draw_windows(position, [480] * 4, [640] * 4)
        return [(*anchor, *extent) for anchor, extent in zip(anchors.tolist(), extents.tolist(), strict=True)]

    assert windows(SEED) == [(0, 174, 454, 407), (35, 65, 432, 561), (2, 149, 463, 474), (50, 286, 260, 325)]
    assert windows(SEED.advanced(4)) == [(14, 99, 353, 313), (185, 129, 276, 269), (83, 177, 357, 331), (44, 77, 412, 378)]


# ----- against the naive model


def random_counts(rng, samples):
    counts = rng.integers(0, 12, samples)
    return counts, [(i, e) for i in range(samples) for e in range(counts[i])]


def test_uniform_float_agrees_with_the_definition():
    """A product of two float32 is exact in float64. The sum in NumPy differs by at most half a unit from the fused result."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        position, samples = random_position(rng), int(rng.integers(1, 6))
        low = rng.uniform(-100, 100, samples).astype(np.float32)
        high = low + rng.uniform(0.1, 100, samples).astype(np.float32)
        counts, places = random_counts(rng, samples)
        single = uniform(position, samples, low, high, counts=counts)
        double = uniform(position, samples, low, high, counts=counts, dtype=np.float64)
        for k, (i, e) in enumerate(places):
            w0, w1 = naive_words(position, i, e, 2)
            a, b = float(low[i]), float(high[i])
            assert single[k] == pytest.approx(a + (b - a) * w0 / 2**32, abs=3e-5)
            assert double[k] == pytest.approx(a + (b - a) * ((w1 << 32) + w0) / 2**64, abs=1e-12)
            assert low[i] <= single[k] < high[i]
            assert low[i] <= double[k] < high[i]


def test_uniform_in_unit_range_is_exact():
    rng = np.random.default_rng(2)
    position = random_position(rng)
    drawn = uniform(position, 40, 0.0, 1.0)
    top = np.nextafter(np.float32(1), np.float32(0))
    for i in range(40):
        word = np.float32(naive_words(position, i, 0, 1)[0])
        assert drawn[i] == min(word * (top * np.float32(2**-32)), top)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_results_are_rounded_within_the_range(dtype):
    drawn = uniform(SEED, 3, 3.9, 90.2, dtype=dtype, counts=400)
    assert drawn.dtype == np.dtype(dtype)
    assert drawn.min() == 3
    assert drawn.max() == 90
    exact = uniform(SEED, 3, 3, 90, dtype=np.float64 if np.dtype(dtype).itemsize >= 4 else np.float32, counts=400)
    assert np.array_equal(drawn, np.floor(exact + 0.5).astype(dtype))


@pytest.mark.parametrize(
    ("dtype", "low", "high", "least", "most"),
    [
        ("int32", 0.2, 0.9, 0, 0),  # truncated to [0, 0]
        ("int32", -1.5, 2.7, -1, 2),
        ("uint8", -5, 5, 5, 251),  # -5 becomes 251, and then the bounds are exchanged
        ("int8", 3e9, 4e9, 0, 0),  # values beyond int32 become 0
        ("int32", 3e9, 4e9, -(2**31), -(2**31)),  # the value that x86 gives for an overflow
        ("int64", 1e19, 2e19, -(2**63), -(2**63)),
    ],
)
def test_bounds_are_cast_like_c(dtype, low, high, least, most):
    drawn = uniform(SEED, 1, low, high, dtype=dtype, counts=4000)
    assert (drawn.min(), drawn.max()) == (least, most)


def test_values_are_picked_by_the_upper_half_of_a_product():
    rng = np.random.default_rng(3)
    for _ in range(10):
        position, samples = random_position(rng), 5
        lengths = rng.integers(1, 8, samples)
        values = rng.uniform(-50, 50, lengths.sum()).astype(np.float32)
        counts, places = random_counts(rng, samples)
        first = np.cumsum(lengths) - lengths
        words = [naive_words(position, i, e, 1)[0] for i, e in places]
        own = [values[first[i] + (w * int(lengths[i]) >> 32)] for (i, _), w in zip(places, words, strict=True)]
        assert uniform_values(position, samples, values, lengths, counts=counts).tolist() == own
        shared = [values[w * len(values) >> 32] for w in words]
        assert uniform_values(position, samples, values, counts=counts).tolist() == shared


def test_values_saturate():
    assert set(uniform_values(SEED, 50, [-7.0, 300.0, 2.5], dtype=np.uint8).tolist()) == {0, 255, 3}
    assert set(uniform_values(SEED, 50, [-1e30, 1e30], dtype=np.int64).tolist()) == {-(2**63), 2**63 - 1}
    assert set(uniform_values(SEED, 50, [-1e30, 1e30, 2.0**63], dtype=np.uint64).tolist()) == {0, 2**64 - 1, 2**63}
    assert set(uniform_values(SEED, 50, [-2.5, -0.4], dtype=np.int16).tolist()) == {-3, 0}


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_coin_flip_compares_words(dtype):
    rng = np.random.default_rng(4)
    position = random_position(rng)
    chances = [0.0, 1.0, 0.3, 2.0, -0.5, math.nan]
    limits = [0, 2**32 - 1, int(np.float32(0.3) * np.float32(2**32)), 2**32 - 1, 2**31, 0]
    drawn = coin_flip(position, 6, chances, counts=20, dtype=dtype).reshape(6, 20)
    assert drawn.dtype == np.dtype(dtype)
    for i in range(6):
        assert drawn[i].tolist() == [naive_words(position, i, e, 1)[0] <= limits[i] for e in range(20)]


def test_normal_agrees_with_the_definition():
    rng = np.random.default_rng(5)
    for _ in range(10):
        position, samples = random_position(rng), 4
        mean, stddev = rng.uniform(-9, 9, samples).astype(np.float32), rng.uniform(-1, 4, samples).astype(np.float32)
        counts, places = random_counts(rng, samples)
        single = normal(position, samples, mean, stddev, counts=counts)
        double = normal(position, samples, mean, stddev, counts=counts, dtype=np.float64)
        for k, (i, e) in enumerate(places):
            w, m, d = naive_words(position, i, e, 4), float(mean[i]), float(stddev[i])
            radius, angle = math.sqrt(-2 * math.log(w[0] / 2**32)), 2 * math.pi * w[1] / 2**32
            assert single[k] == pytest.approx(m + d * radius * math.cos(angle), abs=3e-5)
            u1, u2 = (w[0] + (w[1] << 32)) / 2**64, (w[2] + (w[3] << 32)) / 2**64
            assert double[k] == pytest.approx(m + d * math.sqrt(-2 * math.log(u1)) * math.cos(2 * math.pi * u2), rel=1e-12)


def test_normal_is_standard():
    drawn = normal(SEED, 4, counts=100_000)
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 1) < 0.01


def test_integer_normals_use_the_wide_or_narrow_formula():
    for dtype in INTEGERS:
        working = np.float64 if np.dtype(dtype).itemsize >= 4 else np.float32
        exact = normal(SEED, 2, 60, 10, counts=500, dtype=working)
        assert np.array_equal(normal(SEED, 2, 60, 10, counts=500, dtype=dtype), np.floor(exact + 0.5).astype(dtype))


# ----- crop windows


def test_windows_stay_inside_and_within_their_limits():
    rng = np.random.default_rng(6)
    heights, widths = rng.integers(1, 2000, 3000), rng.integers(1, 2000, 3000)
    anchors, extents = draw_windows(SEED, heights, widths, (0.5, 2.0), (0.1, 0.9))
    ends = anchors + extents
    assert anchors.dtype == extents.dtype == np.int32
    assert (anchors >= 0).all()
    assert (extents >= 1).all()
    assert (ends[:, 0] <= heights).all()
    assert (ends[:, 1] <= widths).all()
    large = (heights > 100) & (widths > 100) & (heights < 2 * widths) & (widths < 2 * heights)
    share = (extents.prod(axis=1) / (heights * widths))[large]
    assert share.min() > 0.08
    assert share.max() < 0.92


def test_windows_of_extreme_images():
    anchors, extents = draw_windows(SEED, [0, 5, 1, 1000, 1], [7, 0, 1, 1, 1000])
    assert anchors[:3].tolist() == [[0, 0]] * 3
    assert extents[:3].tolist() == [[0, 0], [0, 0], [1, 1]]
    assert extents[3:].tolist() == [[1, 1], [1, 1]]


def test_an_image_without_an_allowed_window_gets_the_widest_allowed_one():
    """Only the whole image has the required area, but its aspect ratio is not allowed. The widest allowed window is drawn."""
    _, extents = draw_windows(SEED, [100], [1000], (0.5, 2.0), (1.0, 1.0))
    assert extents.tolist() == [[100, 200]]


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"aspect": (0, 1)}, "`random_aspect_ratio` is"),
        ({"aspect": (2, 1)}, "`random_aspect_ratio` is"),
        ({"aspect": (1,)}, "has 1 values; expected two"),
        ({"aspect": (math.nan, 1)}, "`random_aspect_ratio` is"),
        ({"area": (0.9, 0.1)}, "`random_area` is"),
        ({"area": (1.5, 2)}, "`random_area` is"),
        ({"attempts": 0}, "`num_attempts` is 0"),
    ],
)
def test_impossible_ranges_are_refused(ranges, message):
    with pytest.raises(ValueError, match=message):
        draw_windows(SEED, [4], [4], **ranges)


def test_windows_need_equal_lengths():
    with pytest.raises(ValueError, match="two vectors of equal length"):
        draw_windows(SEED, [4, 5], [4])
    with pytest.raises(ValueError, match="pixels long"):
        draw_windows(SEED, [2**31], [4])


# ----- arguments


def test_an_output_array_is_filled_in_place():
    out = np.zeros((4, 3, 2), np.float32)
    assert uniform(SEED, 4, counts=6, out=out) is out
    assert np.array_equal(out.ravel(), uniform(SEED, 4, counts=6))


@pytest.mark.parametrize("out", [np.zeros(3, np.float32), np.zeros(4), np.zeros(8, np.float32)[::2], np.broadcast_to(np.float32(0), 4)])
def test_unusable_output_arrays_are_refused(out):
    for draw in (uniform, normal):
        with pytest.raises(ValueError, match="expected a contiguous, writable float32 array of 4 elements"):
            draw(SEED, 4, out=out)


def test_empty_ranges_name_their_sample():
    with pytest.raises(ValueError, match=r"sample 2: the range \[1.0, 1.0\) is empty"):
        uniform(SEED, 4, [0, 0, 1, 5], 1.0)
    with pytest.raises(ValueError, match=r"sample 0: the range \[3.0, 1.0\)"):
        uniform(SEED, 4, 3, 1)
    with pytest.raises(ValueError, match="sample 0"):
        uniform(SEED, 1, math.nan, 1)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"low has shape \(3,\)"):
        uniform(SEED, 4, [1, 2, 3], 9)
    with pytest.raises(ValueError, match=r"counts has shape \(3,\)"):
        uniform(SEED, 4, counts=np.ones(3))
    with pytest.raises(ValueError, match="sample 1: the number of elements is -2"):
        normal(SEED, 2, counts=np.array([1, -2]))
    with pytest.raises(ValueError, match="elements per sample is -1"):
        normal(SEED, 2, counts=-1)
    with pytest.raises(ValueError, match="number of samples is -1"):
        coin_flip(SEED, -1)
    with pytest.raises(ValueError, match="cannot produce bool"):
        uniform(SEED, 2, dtype=bool)
    with pytest.raises(ValueError, match="cannot produce bool"):
        normal(SEED, 2, dtype=bool)
    with pytest.raises(ValueError, match="dtype float16 are not supported; use one of uint8"):
        uniform(SEED, 2, dtype=np.float16)
    with pytest.raises(ValueError, match="values is empty"):
        uniform_values(SEED, 2, [])
    with pytest.raises(ValueError, match="sample 1: there is no value"):
        uniform_values(SEED, 2, [1, 2], [2, 0])
    with pytest.raises(ValueError, match="lengths add up to 3 but there are 2 values"):
        uniform_values(SEED, 2, [1, 2], [2, 1])
    with pytest.raises(ValueError, match=r"lengths has shape \(1,\)"):
        uniform_values(SEED, 2, [1, 2], [2])


def test_empty_batches_and_samples():
    assert uniform(SEED, 0).shape == (0,)
    assert normal(SEED, 3, counts=0).shape == (0,)
    assert coin_flip(SEED, 0, []).shape == (0,)
    assert [part.shape for part in draw_windows(SEED, [], [])] == [(0, 2), (0, 2)]


def test_one_value_and_equal_values_per_sample_draw_the_same():
    assert np.array_equal(uniform(SEED, 5, -3, 8), uniform(SEED, 5, [-3] * 5, np.full(5, 8.0)))
    strided = np.full(10, 8.0, np.float32)[::2]
    assert np.array_equal(uniform(SEED, 5, -3, 8), uniform(SEED, 5, -3, strided))
    assert np.array_equal(normal(SEED, 5, 1, 2), normal(SEED, 5, [1] * 5, 2))


def test_sample_numbers_are_not_cut_to_sixteen_bits():
    drawn = uniform(SEED, 70_000, 0, 1)
    word = naive_words(SEED, 69_999, 0, 1)[0]
    assert drawn[-1] == pytest.approx(word / 2**32, abs=1e-6)


def test_threads_draw_the_same():
    expected = normal(SEED, 64, counts=200)
    results = [None] * 4

    def work(k):
        results[k] = [normal(SEED, 64, counts=200) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(drawn, expected) for result in results for drawn in result)


def test_importing_does_not_bring_numba():
    code = "import sys, asyncdali.sampling.seeds as r; r.seed_table(1); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arguments_keep_the_bits_of_floats():
    """Parameters are passed as bits, so negative zero, denormals and infinities arrive unchanged."""
    for bits in (0x80000000, 0x00000001, 0x7F7FFFFF, 0xFF7FFFFF):
        mean = struct.unpack("<f", struct.pack("<I", bits))[0]
        assert normal(SEED, 1, mean, 0.0)[0] == np.float32(mean)


def test_negative_zero_and_zero_are_different_bounds():
    """Constants are cached, and -0.0 and 0.0 are equal dictionary keys in Python."""
    position = StreamPosition.fresh(3)
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        made = [normal(position, 4, value, 0.0).view(np.uint32).tolist() for value in (first, second)]
        expected = [normal(position, 4, np.full(4, value, np.float32), 0.0).view(np.uint32).tolist() for value in (first, second)]
        assert made == expected
