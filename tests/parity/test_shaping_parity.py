"""cat, stack, expand_dims, squeeze and reinterpret beside DALI's with random samples and arguments."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ALL_TYPES, compare, random_array, random_batch, random_cases

from asyncdali.types import DALIDataType

pytest.importorskip("nvidia.dali")

LETTERS = "FDHWC"


def layouts_of(rng, ndim, count):
    """Layouts of `count` inputs. Some inputs have no layout, and sometimes one has a different layout."""
    layout = "".join(rng.permutation(list(LETTERS))[:ndim])
    chosen = [layout if rng.random() < 0.6 else "" for _ in range(count)]
    if ndim > 1 and rng.random() < 0.05:
        chosen[-1] = layout[::-1]
    return layout, chosen


def check_cat(rng):
    ndim, dtype = int(rng.integers(0, 5)), str(rng.choice(ALL_TYPES))
    samples = random_batch(rng, ndim, dtype, empty=False)  # DALI ignores the extents of inputs without elements
    layout, layouts = layouts_of(rng, ndim, count := int(rng.integers(1, 5)))
    axis = int(rng.integers(-ndim - 1, ndim + 1)) if rng.random() < 0.1 or not ndim else int(rng.integers(-ndim, ndim))
    named = ndim and -ndim <= axis < ndim and rng.random() < 0.3
    arguments = {"axis_name": layout[axis]} if named else {"axis": axis}
    inputs = []
    for _ in range(count):
        shapes = np.array([sample.shape for sample in samples]).reshape(len(samples), ndim)
        if ndim and -ndim <= axis < ndim:
            shapes[:, axis] = rng.integers(0, 5, len(samples))
            if rng.random() < 0.03:
                shapes += 1
        inputs.append([random_array(rng, tuple(shape), dtype) for shape in shapes])
    compare("cat", inputs, layouts, **arguments)


def check_stack(rng):
    ndim, dtype = int(rng.integers(0, 5)), str(rng.choice(ALL_TYPES))
    samples = random_batch(rng, ndim, dtype)
    _, layouts = layouts_of(rng, ndim, count := int(rng.integers(1, 5)))
    arguments = {"axis": int(rng.integers(-ndim - 1, ndim + 2))} if rng.random() < 0.8 else {}
    if rng.random() < 0.5:
        arguments["axis_name"] = str(rng.choice(list("FNC")))
    compare("stack", [[random_array(rng, sample.shape, dtype) for sample in samples] for _ in range(count)], layouts, **arguments)


def check_expand_dims(rng):
    ndim, dtype = int(rng.integers(0, 4)), str(rng.choice(ALL_TYPES))
    new = int(rng.integers(0, 4))
    axes = [int(axis) for axis in rng.permutation(ndim + new)[:new]]
    if rng.random() < 0.1:
        axes = [int(axis) for axis in rng.integers(0, 6, new)]
    arguments = {"axes": axes}
    if new and rng.random() < 0.6:
        arguments["new_axis_names"] = "XYZV"[: new if rng.random() < 0.95 else 1]
    layout = "".join(LETTERS[:ndim]) if rng.random() < 0.7 else ""
    compare("expand_dims", [random_batch(rng, ndim, dtype)], [layout], **arguments)


def check_squeeze(rng):
    ndim, dtype = int(rng.integers(1, 5)), str(rng.choice(ALL_TYPES))
    ones = rng.random(ndim) < 0.6
    shapes = np.where(ones, 1, rng.integers(0, 4, (int(rng.integers(1, 4)), ndim)))
    samples = [random_array(rng, tuple(shape), dtype) for shape in shapes]
    chosen = [int(axis) for axis in rng.permutation(np.flatnonzero(ones if rng.random() < 0.9 else ~ones))]
    layout = LETTERS[:ndim]
    if rng.random() < 0.5:
        compare("squeeze", [samples], [layout if rng.random() < 0.7 else ""], axes=chosen)
    else:
        names = "".join(layout[axis] for axis in chosen)
        compare(
            "squeeze", [samples], [layout if names or rng.random() < 0.9 else ""], axis_names=names if rng.random() < 0.95 else names + "X"
        )


def check_reinterpret(rng):
    old, new = str(rng.choice(ALL_TYPES[:-1])), str(rng.choice(ALL_TYPES[:-1]))
    ndim, ratio = int(rng.integers(1, 4)), int(rng.choice([1, 2, 4, 8]))
    shapes = rng.integers(1, 4, (int(rng.integers(1, 4)), ndim))
    shapes[:, -1] *= ratio
    samples = [np.ascontiguousarray(random_array(rng, tuple(shape), old)) for shape in shapes]
    arguments = {"dtype": DALIDataType[{"float32": "FLOAT"}.get(new, new.upper())]}
    way, named = rng.integers(0, 6), {}
    if way == 1:
        arguments["shape"] = [-1, *[int(extent) for extent in rng.integers(1, 3, ndim - 1)]]
    elif way == 2:
        arguments["src_dims"] = [int(axis) for axis in rng.permutation(ndim)]
    elif way == 3:
        arguments["rel_shape"] = [1.0] * (ndim - 1) + [np.dtype(old).itemsize / np.dtype(new).itemsize]
    elif way == 4:
        named["shape"] = [np.array([sample.nbytes // np.dtype(new).itemsize], np.int32) for sample in samples]
    elif way == 5:
        arguments["rel_shape"] = [-1.0, 1.0][:ndim]
    if rng.random() < 0.3:
        arguments["layout"] = LETTERS[: int(rng.integers(1, 4))]
    compare(
        "reinterpret", [samples], [LETTERS[:ndim] if rng.random() < 0.7 else ""], named, theirs_only=("Unexpected layout",), **arguments
    )


CHECKS = [check_cat, check_stack, check_expand_dims, check_squeeze, check_reinterpret]


@pytest.mark.parametrize("check", CHECKS)
def test_random_cases(check):
    random_cases(check, 60)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_many_random_cases(check):
    random_cases(check, 1500)
