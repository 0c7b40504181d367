"""lookup_table, one_hot, full, zeros, ones and their `_like` forms, element_extract, per_frame, shapes and cast_like beside DALI's."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ALL_TYPES, Failed, compare, random_array, random_batch, random_cases, theirs

from asyncdali.types import DALIDataType

pytest.importorskip("nvidia.dali")

INTEGERS = [name for name in ALL_TYPES if "int" in name]
DTYPES = {name: DALIDataType[{"float32": "FLOAT"}.get(name, name.upper())] for name in ALL_TYPES}
LETTERS = "FDHWC"


def check_lookup_table(rng, dtypes=("uint8", "int32"), outputs=("float32", "uint8")):
    dtype, ndim = str(rng.choice(dtypes)), int(rng.integers(0, 4))
    samples = random_batch(rng, ndim, dtype)
    if rng.random() < 0.6:
        samples = [np.abs(sample % 7).astype(dtype) for sample in samples]
    count = int(rng.integers(1, 6))  # An empty list crashes DALI.
    high = rng.choice([7, 300, 65536])
    constants = {"keys": rng.integers(0, high, count).tolist(), "values": rng.uniform(-300, 70000, count).round(1).tolist()}
    constants["default_value"] = float(rng.integers(-300, 300)) / 2
    if rng.random() < 0.7:
        constants["dtype"] = DTYPES[str(rng.choice(outputs))]
    if rng.random() < 0.05:
        constants["keys"] = [*constants["keys"], int(rng.choice([-1, 65536, 3]))]
    compare("lookup_table", [samples], [LETTERS[:ndim]], **constants)


def check_one_hot(rng, dtypes=("int32", "float32"), outputs=("uint8", "int32")):
    dtype, ndim = str(rng.choice(dtypes)), int(rng.integers(0, 4))
    samples = [
        (sample.astype(np.float64) % 5 - 1).astype(dtype) for sample in random_batch(rng, ndim, dtype, largest=int(rng.choice([1, 3])))
    ]
    constants = {"num_classes": int(rng.integers(0, 6)), "on_value": float(rng.uniform(0, 100)), "off_value": float(rng.uniform(0, 100))}
    if rng.random() < 0.6:
        constants["axis"] = int(rng.integers(-1, ndim + 1 + (rng.random() < 0.1)))
    if rng.random() < 0.5:
        constants["axis_name"] = "Q"
    if rng.random() < 0.5:
        constants["dtype"] = DTYPES[str(rng.choice(outputs))]
    compare("one_hot", [samples], [LETTERS[:ndim] if rng.random() < 0.7 else ""], **constants)


def check_full(rng):
    dtype, ndim, count = str(rng.choice(ALL_TYPES)), int(rng.integers(0, 4)), int(rng.integers(1, 4))
    shapes = rng.integers(0, 5, (count, ndim)) if rng.random() < 0.2 else rng.integers(1, 5, (count, ndim))
    taken = int(rng.integers(0, ndim + 1))
    ones = rng.random(taken) < 0.4
    data = [random_array(rng, tuple(np.where(ones, 1, shape[ndim - taken :])), dtype) for shape in shapes]
    if rng.random() < 0.5:
        like = [random_array(rng, tuple(shape), "uint8" if dtype in ("int16", "float32") else dtype) for shape in shapes]
        compare("full_like", [like, data], [LETTERS[:ndim], ""])
    else:
        named = {"shape": list(shapes.astype(np.int32))} if ndim else {}
        layout = {"layout": LETTERS[: ndim if rng.random() < 0.9 else 4]} if rng.random() < 0.5 and ndim else {}
        compare("full", [data], [""], named, **layout)


def check_zeros_and_ones(rng):
    dtype = {"dtype": DTYPES[str(rng.choice(ALL_TYPES))]} if rng.random() < 0.7 else {}
    ndim, count = int(rng.integers(0, 4)), int(rng.integers(1, 4))
    name = str(rng.choice(["zeros", "ones"]))
    if rng.random() < 0.5:
        samples = random_batch(rng, ndim, str(rng.choice(ALL_TYPES)), count=count)
        compare(f"{name}_like", [samples], [LETTERS[:ndim] if rng.random() < 0.5 else ""], **dtype)
        return
    layout = {"layout": LETTERS[: ndim if rng.random() < 0.9 else 4]} if rng.random() < 0.5 and ndim else {}
    shapes = rng.integers(0, 5, (count, ndim)).astype(np.int32)
    if ndim and rng.random() < 0.5:
        compare(name, [], None, {"shape": list(shapes)}, **dtype, **layout)
    else:
        compare(name, [], None, None, count, shape=shapes[0].tolist(), **dtype, **layout)


def check_frames(rng):
    dtype, ndim = str(rng.choice(ALL_TYPES)), int(rng.integers(0, 5))
    samples = random_batch(rng, ndim, dtype)
    layout = LETTERS[int(rng.random() < 0.2) :][:ndim] if rng.random() < 0.7 else ""
    way = rng.random()
    if way < 0.6:
        compare("element_extract", [samples], [layout], element_map=rng.integers(0, 3, int(rng.integers(1, 3))).tolist())
    elif way < 0.8:
        compare("per_frame", [samples], [layout], replace=bool(rng.integers(2)))
    else:
        kind = DTYPES[str(rng.choice(["int32", "uint32", "int64", "uint64", "float32", "float64", "uint8"]))]
        compare("shapes", [samples], [layout], dtype=kind)


def every_lookup(rng):
    check_lookup_table(rng, INTEGERS, ALL_TYPES)


def every_one_hot(rng):
    kinds = [*INTEGERS, "float32", "float64"]
    check_one_hot(rng, kinds, kinds)


def check_cast_like(rng):
    ndim = int(rng.integers(0, 4))
    samples = random_batch(rng, ndim, str(rng.choice(["uint8", "float32"])))
    target = random_batch(rng, int(rng.integers(0, 3)), str(rng.choice(["uint8", "int32"])), count=len(samples))
    compare("cast_like", [samples, target], [LETTERS[:ndim], ""])


CHECKS = [check_lookup_table, check_one_hot, check_full, check_zeros_and_ones, check_frames, check_cast_like]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("check", CHECKS)
def test_random_cases(check):
    random_cases(check, 50)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("check", [every_lookup, every_one_hot, *CHECKS[2:]])
def test_many_random_cases(check):
    random_cases(check, 1500)


def test_dali_repeats_data_that_do_not_fit():
    """DALI repeats data that does not fill the shape, and asyncdali refuses it. This test fails if a later DALI refuses it, too."""
    result = theirs("full", [[np.arange(2)]], shape=[3, 1])
    assert not isinstance(result, Failed) and result.samples[0].tolist() == [[0], [1], [0]]
