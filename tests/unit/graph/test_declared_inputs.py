"""Operators accept the inputs that they declare, refuse all others, and never write outside of their memory."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.guarded import CALLS, Case, Runner, calls, examine
from helpers.operators import batch_of, make
from helpers.operators import run as run_arrays
from helpers.pipelines import pipeline_of

from asyncdali import fn, types
from asyncdali.batch import Batch
from asyncdali.errors import InputError, SampleError
from asyncdali.operators import load_registry
from asyncdali.operators.accepts import ANY_LAYOUT, DATA, Input, Output, argument, at_least, listed, matching
from asyncdali.operators.base import Gate, Operator, Schema
from asyncdali.types import DALIDataType

WITH_INPUTS = sorted(name for name, cls in load_registry().items() if cls.schema.inputs[1] and not name.startswith("_test_"))
IMAGE = np.arange(36, dtype=np.uint8).reshape(4, 3, 3)


def gate(name, inputs=1, named=None, **constants):
    return Gate(make(name, 2, constants, named or {}, inputs))


def check(name, samples, layout="", **constants):
    gate(name, **constants).check([batch_of(samples, layout)], {}, len(samples))


# --- declarations


@pytest.mark.parametrize("name", WITH_INPUTS)
def test_every_operator_declares_its_inputs_and_outputs(name):
    schema = load_registry()[name].schema
    assert schema.accepts and schema.gives
    assert all(accepted.types and (accepted.ranks is not None or accepted.layouts is not ANY_LAYOUT) for accepted in schema.accepts)
    assert set(schema.per_frame) <= {arg.name for arg in schema.args if arg.tensor}


def test_undeclared_inputs_are_refused():
    class Careless(Operator):
        schema = Schema(name="careless", doc="Declares nothing.")

    made = make("copy", 2, {}, {})
    careless = Careless(made.spec, made.environment)
    with pytest.raises(InputError, match=r"careless does not declare the inputs that it accepts") as caught:
        Gate(careless).check([batch_of([IMAGE, IMAGE])], {}, 2)
    assert caught.value.input == 0


def test_layouts():
    some = Input((types.UINT8,), listed("HWC", "CHW", "FHWC"))
    shapes = {rank: Batch(np.ones((1, rank), np.int64), types.UINT8) for rank in range(6)}
    assert [some.layout(shapes[3]), some.layout(shapes[4])] == ["HWC", "FHWC"]
    assert not some.refusal(0, shapes[3], shapes[3]) and "number of dimensions 2" in some.refusal(0, shapes[2], shapes[2])
    first = matching("F first", lambda layout: layout[0] == "F")
    assert first.test("FAB") and not first.test("AFB") and not first.test("FAA") and first.test("F**")
    assert at_least(2)[0] == 2 and DATA.describe() == "types: numbers, BOOL, enumerations"
    assert some.describe() == "types: UINT8; layouts: HWC, CHW, FHWC"


def test_outputs_follow_from_rules():
    spec = make("cast", 1, {"dtype": types.INT16}, {}).spec
    source = Batch(np.ones((1, 3), np.int64), types.UINT8)
    accepts = (Input((types.UINT8,), listed("HWC")),)
    assert Output(argument("dtype"), 2).expected(spec, [source], accepts) == {"type": types.INT16, "rank": 2, "layout": "HWC"}


# --- checks


@pytest.mark.parametrize("name", ["gaussian_blur", "laplacian", "experimental.dilate", "crop", "flip", "grid_mask"])
@pytest.mark.parametrize("layout", ["FCCHW", "HWW"])
def test_layouts_that_repeat_letters_are_refused(name, layout):
    constants = {"gaussian_blur": {"sigma": 1.0}}.get(name, {})
    with pytest.raises(InputError, match=r"the letter [CW] occurs twice"):
        check(name, [np.zeros((2,) * len(layout), np.uint8)], layout, **constants)


@pytest.mark.parametrize("name", ["copy", "cast", "transpose", "pad", "noise.gaussian"])
def test_operators_that_pass_layouts_on_accept_any_layout(name):
    """As in DALI. These operators do not use the letters of a layout."""
    check(name, [np.zeros((2,) * 5, np.uint8)], "FCCHW", **({"dtype": types.FLOAT} if name == "cast" else {}))


def test_a_letter_that_occurs_twice_names_no_axis():
    with pytest.raises(ValueError, match=r"names the axis 'C'.* has twice"):
        pipeline_of(lambda: fn.reductions.sum(fn.reshape(fn.zeros(shape=[2, 2, 2]), layout="CCH"), axis_names="C"), batch_size=1).run()


def test_the_error_names_operator_input_given_and_allowed():
    def graph():
        return fn.flip(fn.cast(fn.zeros(shape=[4, 3]), dtype=types.UINT8))

    text = r"number of dimensions 2 .*Valid layouts are: HWC"
    with pipeline_of(graph, batch_size=2) as pipeline, pytest.raises(InputError, match=text) as caught:
        pipeline.run()
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error, TypeError) and isinstance(error, RuntimeError)
    assert (error.operator, error.input, error.iteration) == ("flip", 0, 0) and "fn.flip" in str(error)


def test_changed_types_or_layouts_are_checked_again():
    checked = gate("flip")
    for layout in ("HWC", "CHW", "HWC"):
        checked.check([batch_of([IMAGE] * 2, layout)], {}, 2)
    with pytest.raises(InputError, match=r'layout "XHW"'):
        checked.check([batch_of([IMAGE] * 2, "XHW")], {}, 2)


def test_inputs_must_match_each_other():
    images, floats = batch_of([IMAGE] * 2), batch_of([IMAGE.astype(np.float32)] * 2)
    with pytest.raises(InputError, match=r"same type. Input 0 has UINT8, input 1 \(data\) has FLOAT"):
        gate("cat", 2).check([images, floats], {}, 2)
    with pytest.raises(InputError, match=r"same number of samples. Input 0 has 2, input 1 1"):
        gate("cat", 2).check([images, batch_of([IMAGE])], {}, 2)
    with pytest.raises(SampleError, match=r"same shape. Input 0 has \(4, 3, 3\), input 1 \(3, 3, 3\)") as caught:
        gate("stack", 2).check([images, batch_of([IMAGE, IMAGE[1:]])], {}, 2)
    assert caught.value.sample == 1


def test_arguments_per_frame():
    several = Batch.from_values(np.float32([[1, 2], [3, 4]]), "F")
    gate("brightness", named={"brightness": several}).check([batch_of([IMAGE] * 2)], {"brightness": several}, 2)
    with pytest.raises(InputError, match=r"`prob` cannot have a value for each frame") as caught:
        gate("noise.salt_and_pepper", named={"prob": several}).check([batch_of([IMAGE] * 2)], {"prob": several}, 2)
    assert caught.value.argument == "prob"
    one = Batch.from_values(np.float32([[1], [3]]), "F")
    gate("noise.salt_and_pepper", named={"prob": one}).check([batch_of([IMAGE] * 2)], {"prob": one}, 2)


# --- every type, rank and layout, in guarded memory


def test_every_operator_has_calls():
    without = [name for name in WITH_INPUTS if not calls(name, load_registry()[name].schema)]
    assert without == [
        "_conditional.merge", "_conditional.merge_by_index", "_conditional.split", "_conditional.split_by_index",
        "dl_tensor_python_function", "experimental.numba_function",
    ]  # fmt: skip
    assert set(CALLS) <= set(WITH_INPUTS)


def test_a_few_inputs_of_every_operator():
    report = examine("few", WITH_INPUTS)
    assert not report.bugs, "\n".join(report.bugs)
    assert len(report.results) > 80 and sum(report.refusals.values()) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITH_INPUTS if CALLS.get(name, True)])
def test_every_input_gives_a_result_or_is_refused(name):
    report = examine("every", [name])
    assert not report.bugs, "\n".join(report.bugs)
    assert report.results[name] and (report.refusals[name] or load_registry()[name].schema.accepts[0].types == tuple(DALIDataType))


# --- bugs that the search above found


def run(name, dtype, rank, empty="", call=0, layout=""):
    return Runner().run(Case(name, call, 0, dtype, rank, layout, empty))


def test_short_integer_signals_are_not_read_beyond_their_end():
    """nonsilent_region once read 256 elements and a window beyond the end of a signal that is shorter than a chunk."""
    report = examine("some", ["nonsilent_region"])
    assert not report.bugs and report.results["nonsilent_region"]


@pytest.mark.parametrize("call", [0, 1])
def test_points_without_coordinates_are_refused(call):
    with pytest.raises(SampleError, match=r"at least one coordinate, got shape \(4, 0\)"):
        run_arrays("coord_transform", [np.zeros((4, 0), np.float32)], **({"M": [1.0, 2.0]} if call else {}))


@pytest.mark.parametrize(
    ("name", "dtype", "rank", "call"),
    [
        ("coord_transform", types.FLOAT, 2, 1), ("decoders.audio", types.UINT8, 1, 0), ("decoders.numpy", types.UINT8, 1, 0),
        ("decoders.numpy", types.UINT8, 1, 1), ("random_bbox_crop", types.FLOAT, 2, 0), ("random_bbox_crop", types.FLOAT, 2, 1),
    ],
)  # fmt: skip
def test_empty_batches(name, dtype, rank, call):
    assert run(name, dtype, rank, "batch", call)
