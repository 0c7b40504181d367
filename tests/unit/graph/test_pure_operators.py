"""Running an operator does not change the operator: an iteration can be planned twice, early, late, and for another position."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.guarded import calls, usual
from helpers.operators import batch_of, make, prepare, run_compiled, run_step

from asyncdali.batch import storage_dtype
from asyncdali.operators import load_registry
from asyncdali.operators.accepts import declared
from asyncdali.operators.base import Arguments, Iteration
from asyncdali.operators.kernel_operator import TwoFileOperator

IMAGES = [np.arange(12 * 10 * 3, dtype=np.uint8).reshape(12, 10, 3), np.full((9, 14, 3), 7, np.uint8)]
NUMBERS = [np.arange(6, dtype=np.float32), np.arange(4, dtype=np.float32)]
MASKS = [np.array([[0, 1, 1], [0, 2, 0]], np.int32), np.array([[3, 3], [0, 0]], np.int32)]
BOXES = [np.array([[0.1, 0.1, 0.6, 0.7]], np.float32), np.array([[0.2, 0.3, 0.9, 0.9]], np.float32)]
CASES = {
    "random.uniform": ([], {}),
    "random.coin_flip": ([], {}),
    "random.normal": ([], {"shape": [3]}),
    "random.beta": ([], {}),
    "random.choice": ([NUMBERS], {}),
    "batch_permutation": ([], {}),
    "jitter": ([IMAGES], {"nDegree": 5}),
    "noise.gaussian": ([IMAGES], {}),
    "noise.shot": ([IMAGES], {}),
    "noise.salt_and_pepper": ([IMAGES], {}),
    "random_resized_crop": ([IMAGES], {"size": [5, 4]}),
    "random_crop_generator": ([[np.array([30, 40]), np.array([20, 50])]], {}),
    "roi_random_crop": ([], {"crop_shape": [3, 4], "roi_start": [1, 2], "roi_end": [9, 8]}),
    "segmentation.random_mask_pixel": ([MASKS], {"foreground": 1}),
    "segmentation.random_object_bbox": ([MASKS], {"ignore_class": True}),
    "random_bbox_crop": ([BOXES], {"bbox_layout": "xyXY", "thresholds": [0.0, 0.3], "allow_no_crop": False, "scaling": [0.3, 0.9]}),
}
ELSEWHERE = {"ssd_random_crop", "decoders.image_random_crop"}
"""Stateful operators that draw with the kernels of the operators above, and whose inputs need more than an array."""


def found_cases():
    """Inputs and constants for each operator in two files that draws random numbers."""
    for name, kind in load_registry().items():
        if kind.stateful and issubclass(kind, TwoFileOperator) and name not in CASES:
            call = calls(name, kind.schema)[0]
            forms = [usual(declared(kind.schema.accepts, position), call, position) for position in range(call.inputs)]
            rng = np.random.default_rng(1)
            inputs = [[rng.integers(0, 100, shape).astype(storage_dtype(dtype)) for _ in range(2)] for dtype, shape in forms]
            yield name, (inputs, call.constants)


CASES.update(found_cases())


def planned(operator, inputs, position):
    """The outputs of an iteration that starts at `position`."""
    count = len(inputs[0]) if inputs else 2
    batches = [batch_of(samples, "HWC" if samples is IMAGES else "") for samples in inputs]
    arguments, iteration = Arguments(operator.spec, {}, count), Iteration(0, count, position=position)
    prepare(operator, batches, arguments, iteration, run_compiled)
    plan = operator.plan(batches, arguments, iteration)
    for output in plan.outputs:
        if not output.is_placed:
            output.place(np.zeros(int(output.sizes().sum()), np.uint8))
    for step in plan.steps:
        run_step(step, count)
    return [[output.sample(i).tolist() for i in range(count)] for output in plan.outputs]


@pytest.mark.parametrize("name", CASES)
def test_draws_depend_on_the_position_only(name):
    inputs, constants = CASES[name]
    operator = make(name, 2, constants, {}, len(inputs))
    operator.infer([batch_of(samples).dtype for samples in inputs])
    position, positions = operator.start, []
    for _ in range(4):
        positions.append(position)
        position = operator.after(position, 2)
    in_order = [planned(operator, inputs, position) for position in positions]
    again = [planned(operator, inputs, position) for position in reversed(positions)]
    assert again[::-1] == in_order
    assert any(drawn != in_order[0] for drawn in in_order), "the position has no effect"
    assert operator.start == positions[0]


def test_every_stateful_operator_is_covered():
    stateful = {name for name, kind in load_registry().items() if kind.stateful and "readers." not in name and not name.startswith("_")}
    assert stateful == set(CASES) | ELSEWHERE


def test_positions_can_be_kept_anywhere():
    """Positions are values. They are equal after a round trip through pickle and through JSON."""
    for name, (inputs, constants) in CASES.items():
        operator = make(name, 2, constants, {}, len(inputs))
        position = operator.after(operator.start, 7)
        assert pickle.loads(pickle.dumps(position)) == position == operator.load(operator.save(position))

