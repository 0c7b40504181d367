"""Brief calls of dynamic mode: they are found by arguments and kinds of data, and run a template in the thread's own memory."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali.imperative import brief
from asyncdali.imperative.contexts import EvalContext
from asyncdali.runtime.templates import brief as templates

PICTURES = [np.random.default_rng(k).integers(0, 256, (5 + k, 7, 3), np.uint8) for k in range(4)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The table of brief calls of a context of its own. All calls with a template are brief, also on a busy machine."""
    monkeypatch.setattr(brief, "_BRIEF_NS", 1 << 60)
    with EvalContext(num_threads=1) as context:
        yield context.engine.brief


def remembered(calls: Any, call: Callable[[], Any], times: int = 3) -> Any:
    """The result of a call that is remembered now."""
    before = len(calls._known)
    for _ in range(times):
        made = call()
    assert len(calls._known) > before
    return made


CASES = {
    "flip": lambda x: ndd.flip(x, horizontal=1),
    "resize": lambda x: ndd.resize(x, size=[4, 3]),
    "cat": lambda x: ndd.cat(x, x, axis=0),
    "sum": lambda x: ndd.reductions.sum(x),
    "number": lambda x: x * 2.5,
    "numbers": lambda x: ndd.math.clamp(x, 3, 90),
    "values": lambda x: x + x,
    "swapped": lambda x: 7 - x,
    "reshape": lambda x: ndd.reshape(ndd.flip(x), rel_shape=[1.0, -1.0], layout="HW"),
    "squeeze": lambda x: ndd.squeeze(ndd.expand_dims(ndd.flip(x), axes=[0], new_axis_names="F"), axis_names="F"),
}


@pytest.mark.parametrize("kind", ["tensor", "batch", "ragged"])
@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_planned_calls(calls: Any, name: str, kind: str) -> None:
    def data(first: int) -> Any:
        pictures = [picture + np.uint8(first) for picture in ([PICTURES[1]] * 3 if kind == "batch" else PICTURES)]
        return ndd.tensor(pictures[0], layout="HWC") if kind == "tensor" else ndd.batch(pictures, layout="HWC")

    remembered(calls, lambda: CASES[name](data(0)))
    for first in range(4):
        made = CASES[name](data(first))
        with EvalContext(num_threads=1):  # another table
            expected = CASES[name](data(first))
        assert (made.shape, made.layout, made.dtype) == (expected.shape, expected.layout, expected.dtype)
        pairs = [(made, expected)] if kind == "tensor" else zip(made.tensors, expected.tensors, strict=True)
        for one, other in pairs:
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("is_ours", [True, False])
def test_views_share_the_memory_of_results_only(calls: Any, is_ours: bool) -> None:
    """The memory of data of the program is its own, as in other calls."""
    array = np.array(PICTURES[0])
    for _ in range(4):
        x = ndd.flip(ndd.tensor(array, layout="HWC")) if is_ours else ndd.as_tensor(array, layout="HWC")
        view = ndd.reshape(x, rel_shape=[1.0, -1.0], layout="HW")
        assert view.shape == (5, 21) and view.layout == "HW"
        np.asarray(view)[0, 0] ^= 255
        assert np.asarray(view)[0, 0] == (np.asarray(x)[0, 0, 0] if is_ours else 255 - array[0, 0, 0])
    assert any("View" in type(call._template).__name__ for call in calls._known.values())


def test_results_are_inputs_of_brief_calls(calls: Any) -> None:
    """Their memory has an address, and an array of addresses is made when it is asked for."""

    def chain(x: Any) -> Any:
        return ndd.cast(ndd.flip(x + 1, horizontal=0, vertical=1), dtype=ndd.float32)

    x = ndd.batch(PICTURES, layout="HWC")
    for _ in range(4):
        made = chain(x)
    assert len(calls._known) == 3
    for picture, sample in zip(PICTURES, made.tensors, strict=True):
        np.testing.assert_array_equal(np.asarray(sample), (picture.astype(np.int32) + 1)[::-1].astype(np.float32))
    shuffled = ndd.permute_batch(made, indices=[3, 1, 0, 2])
    np.testing.assert_array_equal(np.asarray(shuffled.tensors[0]), np.asarray(made.tensors[3]))


def test_what_makes_a_difference_is_in_the_key(calls: Any) -> None:
    x = ndd.tensor(np.float32([[0.0, 2.0], [3.0, 4.0]]), layout="HW")
    assert not np.signbit(np.asarray(remembered(calls, lambda: x * 0.0))).any()
    assert np.signbit(np.asarray(remembered(calls, lambda: x * -0.0))).all()
    assert not np.signbit(np.asarray(x * 0.0)).any()
    whole = ndd.tensor(np.int32([[1, 2]]))
    assert [str((whole * other).dtype) for other in (1, 1.0, True) for _ in range(3)] == ["i32"] * 3 + ["f32"] * 3 + ["i32"] * 3
    picture = ndd.tensor(PICTURES[0], layout="HWC")
    for _ in range(3):
        assert ndd.brightness(picture, brightness=1).dtype == ndd.uint8
        for value, shift in ((0.0, 0.0), (-0.0, -0.0), (1, 1.0)):
            made = ndd.brightness(picture, brightness=value, brightness_shift=shift, dtype=ndd.float32)
            assert (np.asarray(made) == np.float32(PICTURES[0]) * value + shift).all()
    for layout in ("HW", "", "XY"):
        for _ in range(3):
            assert ndd.transpose(ndd.as_tensor(x, layout=layout), perm=[1, 0]).layout == (layout[::-1] or None)
    for _ in range(3):
        assert isinstance(ndd.cast(ndd.batch([PICTURES[0]]), dtype=ndd.int32), ndd.Batch)
        assert isinstance(ndd.cast(ndd.tensor(PICTURES[0]), dtype=ndd.int32), ndd.Tensor)


def test_a_failed_sample_is_computed_again_for_its_error(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code only says that a sample has failed. The usual way tells what, and the user's line."""
    x = ndd.tensor(PICTURES[0], layout="HWC")
    expected = remembered(calls, lambda: ndd.flip(x))
    (call,) = calls._known.values()
    failures = []

    def failing(*words: int) -> int:
        failures.append(words)
        return 1

    monkeypatch.setattr(call._template, "_run", failing)
    np.testing.assert_array_equal(np.asarray(ndd.flip(x)), np.asarray(expected))
    assert len(failures) == 1


def test_signal_handlers_may_call_between_any_two_steps(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler runs on the same thread, with the same memory for the job."""
    x, y = ndd.tensor(PICTURES[0], layout="HWC"), ndd.tensor(PICTURES[1], layout="HWC")
    for value in (x, y):
        remembered(calls, lambda value=value: ndd.flip(value))
    allocate, inner = calls._allocate, []

    def handled(size: int) -> np.ndarray:
        monkeypatch.setattr(calls, "_allocate", allocate)
        made = allocate(size)
        inner.append(ndd.flip(y))
        return made

    monkeypatch.setattr(calls, "_allocate", handled)
    np.testing.assert_array_equal(np.asarray(ndd.flip(x)), PICTURES[0][:, ::-1])
    np.testing.assert_array_equal(np.asarray(inner[0]), PICTURES[1][:, ::-1])


def test_threads_of_the_user_call_at_the_same_time(calls: Any) -> None:
    """Each has its own memory for jobs."""
    values = [ndd.tensor(np.full((6, 6, 3), k, np.uint8), layout="HWC") for k in range(8)]
    begin, wrong = threading.Barrier(8), []

    def work(number: int) -> None:
        with EvalContext() as context:
            begin.wait(60)
            for _ in range(300):
                if not (np.asarray(ndd.flip(values[number]) + 1) == number + 1).all():
                    wrong.append(number)
            assert context.engine.brief._known

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not wrong


DRAWS = {
    "uniform": lambda **given: ndd.random.uniform(range=[2.0, 3.0], **given),
    "values": lambda **given: ndd.random.uniform(values=[1.0, 0.0, -0.0], dtype=ndd.float32, **given),
    "shape": lambda **given: ndd.random.normal(mean=3.0, shape=[2, 3], **given),
    "coin": lambda **given: ndd.random.coin_flip(probability=0.3, **given),
}


@pytest.mark.parametrize("batch_size", [None, 1, 4])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_equal_those_of_planned_calls(calls: Any, name: str, batch_size: int | None) -> None:
    given = {} if batch_size is None else {"batch_size": batch_size}
    rng, other = ndd.random.RNG(5), ndd.random.RNG(5)
    for _ in range(6):
        made = DRAWS[name](rng=rng, **given)
        with EvalContext(num_threads=1):  # another table
            expected = DRAWS[name](rng=other, **given)
        assert type(made) is type(expected) and made.shape == expected.shape and made.dtype == expected.dtype
        assert isinstance(made, ndd.Tensor) == (batch_size is None)
        for one, two in [(made, expected)] if batch_size is None else zip(made.tensors, expected.tensors, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(two))
        assert rng.state == other.state
    if name in ("uniform", "coin"):
        assert len(calls._known) == 1


def test_draws_of_other_sizes_and_wrong_ones_are_not_mixed_up(calls: Any) -> None:
    for _ in range(3):
        assert ndd.random.uniform(range=[0.0, 1.0], batch_size=1).batch_size == 1
        assert isinstance(ndd.random.uniform(range=[0.0, 1.0]), ndd.Tensor)
        with pytest.raises(TypeError, match="batch_size is an integer"):
            ndd.random.uniform(range=[0.0, 1.0], batch_size=True)
        with pytest.raises(ValueError, match=r"must be an ndd.random.RNG"):
            ndd.random.uniform(range=[0.0, 1.0], rng=3)
        with pytest.raises(ValueError, match="range"):
            ndd.random.uniform(range=[1.0, 0.0])


def test_files_of_samples_are_those_of_the_inputs(calls: Any) -> None:
    for name in ("first", "second"):
        x = ndd.batch(PICTURES[:1], layout="HWC")
        x._samples().source_info = [name]
        for _ in range(3):
            made = ndd.flip(x)
        assert list(made._samples().source_info) == [name]
    assert len(calls._known) == 1
    plain = ndd.batch(PICTURES[:1], layout="HWC")
    for _ in range(3):
        assert ndd.flip(plain)._samples().source_info is None


def test_deferred_calls_wait(calls: Any) -> None:
    x = ndd.tensor(PICTURES[0], layout="HWC")
    remembered(calls, lambda: ndd.flip(x))
    with ndd.EvalMode.deferred:
        late = ndd.flip(x)
        assert late._held is None
    with ndd.EvalMode.sync_cpu:
        assert ndd.flip(x)._held is not None


def test_arrays_live_while_compiled_code_reads_them(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, lives = [], []

    def address_of(array: np.ndarray) -> int:
        arrays.append(weakref.ref(array))
        return address(array)

    address = templates.address_of
    x = ndd.tensor(PICTURES[0], layout="HWC")
    remembered(calls, lambda: ndd.flip(x))
    (call,) = calls._known.values()
    run = call._template._run

    def watched(*words: int) -> int:
        lives.append(all(reference() is not None for reference in arrays))
        return run(*words)

    monkeypatch.setattr(templates, "address_of", address_of)
    monkeypatch.setattr(call._template, "_run", watched)
    ndd.flip(x)
    assert lives == [True] and arrays
