"""Rows O and G of dynamic mode: calls of operators and random numbers. Expected are values of DALI, or better ones as a comment says."""

from __future__ import annotations

import gc
import math
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali import fn, pipeline_def, types
from asyncdali.imperative import bricks
from asyncdali.runtime.templates import tables

PICTURES = [np.random.default_rng(k).integers(0, 256, (9 + k, 8, 3), np.uint8) for k in range(3)]


def same(left: ndd.Tensor | ndd.Batch, right: ndd.Tensor | ndd.Batch) -> bool:
    if isinstance(left, ndd.Batch) and isinstance(right, ndd.Batch):
        return left.layout == right.layout and all(map(same, left.tensors, right.tensors))
    return type(left) is type(right) and left.dtype is right.dtype and np.array_equal(np.asarray(left), np.asarray(right))


def test_O1_batch_or_tensor() -> None:
    picture, batch = ndd.tensor(PICTURES[0]), ndd.batch(PICTURES)
    assert isinstance(ndd.flip(picture), ndd.Tensor) and isinstance(ndd.flip(PICTURES[0]), ndd.Tensor)
    assert isinstance(ndd.flip(batch), ndd.Batch) and isinstance(ndd.flip(ndd.batch(PICTURES[:1])), ndd.Batch)
    assert ndd.flip(picture, batch_size=4).batch_size == 4 and ndd.flip(picture, batch_size=1).batch_size == 1
    turned = ndd.rotate(picture, angle=ndd.batch([0.0, 90.0]))
    assert isinstance(turned, ndd.Batch) and same(turned.tensors[1], ndd.rotate(picture, angle=90.0))
    assert ndd.cast([PICTURES[0], PICTURES[0]], dtype=ndd.int32).shape == (2, 9, 8, 3)  # one tensor
    assert isinstance(ndd.ones(shape=[2]), ndd.Tensor) and ndd.ones(shape=[2], batch_size=3).batch_size == 3


def test_O2_numbers_of_samples() -> None:
    batch, picture = ndd.batch(PICTURES), ndd.tensor(PICTURES[0])
    for mode in ndd.EvalMode:
        with mode:
            for wrong in (lambda: ndd.cat(batch, ndd.batch(PICTURES[:2])), lambda: ndd.flip(batch, batch_size=2),
                          lambda: ndd.rotate(batch, angle=ndd.batch([1.0])), lambda: ndd.flip(picture, batch_size=-1)):  # fmt: skip
                with pytest.raises(ValueError):
                    wrong()
            for size in (2.0, "2", True):
                with pytest.raises(TypeError):
                    ndd.flip(picture, batch_size=size)
    assert ndd.flip(picture, batch_size=np.int64(2)).batch_size == 2 and ndd.flip(picture, batch_size=0).batch_size == 0
    with pytest.raises(ValueError, match="batch_size"):
        ndd.batch_permutation()


def test_O3_arguments_per_sample() -> None:
    batch = ndd.batch(PICTURES)
    found = ndd.flip(batch, horizontal=ndd.batch([0, 1, 1]), vertical=ndd.tensor(1.0), depthwise=None)
    for k, turn in enumerate((0, 1, 1)):
        assert same(found.tensors[k], ndd.flip(PICTURES[k], horizontal=turn, vertical=1))
    assert same(ndd.resize(batch, size=np.array([4.0, 5.0])), ndd.resize(batch, size=[4, 5]))
    with pytest.raises(TypeError):
        ndd.resize(batch, size=[4, 5], mode=ndd.tensor(1))


def test_O4_spelling_changes_nothing() -> None:
    picture, matrix, batch = ndd.tensor(PICTURES[0]), [1, 0, 2, 0, 1, 1], ndd.batch([1, 2, 3])
    written = ndd.warp_affine(picture, matrix=[1, 0, 2, 0, 1, 1])
    given = {"matrix": tuple(matrix)}
    assert same(ndd.warp_affine(picture, matrix=matrix), written) and same(ndd.warp_affine(picture, **given), written)
    space = {"ndd": ndd, "picture": picture, "m": matrix, "batch": batch, "order": [2, 0, 1]}
    exec("made = ndd.warp_affine(picture, matrix=m)\nordered = ndd.permute_batch(batch, indices=order)", space)
    assert same(space["made"], written)  # type: ignore[arg-type]
    assert [item.item() for item in space["ordered"].tensors] == [3, 1, 2]  # type: ignore[attr-defined]
    mixed = [ndd.cast(picture, dtype=kind).dtype for kind in (ndd.float32, types.FLOAT, "f32", np.float32, float)]
    assert mixed == [ndd.float32] * 5


def test_O5_wrong_arguments() -> None:
    picture = ndd.tensor(PICTURES[0])
    for mode in ndd.EvalMode:
        with mode:
            for wrong, word in ((lambda: ndd.resize(picture, sizes=[1, 2]), "sizes"), (lambda: ndd.cast(picture), "dtype"),
                                (lambda: ndd.flip(), "input"), (lambda: ndd.flip(picture, picture), "input"),
                                (lambda: ndd.flip(input=picture), "input")):  # fmt: skip
                with pytest.raises(TypeError, match=word):
                    wrong()
            for wrong in (lambda: ndd.resize(picture, size="a"), lambda: ndd.flip(picture, horizontal="a"),
                          lambda: ndd.resize(picture, size=[4, 4], interp_type="cubic"), lambda: ndd.flip("a")):  # fmt: skip
                with pytest.raises((TypeError, ValueError)):
                    wrong()


def test_O6_layouts() -> None:
    picture, plain = ndd.tensor(PICTURES[0]), ndd.tensor([[1.0, 2.0]])
    assert ndd.flip(picture).layout == "HWC" and ndd.resize(picture, size=[3, 3]).layout == "HWC"
    assert ndd.cast(picture, dtype=ndd.int32).layout is None and ndd.reductions.sum(picture, axes=[0]).layout is None
    assert ndd.transpose(ndd.flip(picture), perm=[2, 0, 1]).layout == "CHW"
    with pytest.raises(ValueError, match="dimensions"):
        ndd.flip(plain).evaluate()
    for _ in range(4):  # a call that failed is no template for the next one
        with pytest.raises(ValueError, match="layout"):
            ndd.flip(ndd.tensor(PICTURES[0], layout="ABC")).evaluate()
        with pytest.raises(ValueError, match="dimensions"):
            ndd.brightness(plain, brightness_shift=ndd.tensor(0.5)).evaluate()


def test_every_mode_refuses_an_input_without_a_possible_layout_at_the_call() -> None:
    plain = ndd.copy(ndd.tensor([[1.0, 2.0]]))
    for mode in ndd.EvalMode:
        with mode:
            for value in (plain, plain + 1, ndd.batch([[1.0], [2.0]])):
                with pytest.raises(ValueError, match=r"ndd\.flip: The number of dimensions"):
                    ndd.flip(value)
    with ndd.EvalMode.deferred:
        later = ndd.flip(ndd.copy(ndd.tensor(PICTURES[0], layout="ABC")))  # as in DALI, the call raises at its read
    with pytest.raises(ValueError, match="layout"):
        later.evaluate()


def test_O7_results() -> None:
    picture = ndd.copy(ndd.tensor(PICTURES[0]))  # memory of our own
    boxes, labels = np.array([[0.1, 0.1, 0.5, 0.5]], np.float32), np.array([1], np.int32)
    found = ndd.random_bbox_crop(boxes, labels, thresholds=[0.0])
    assert isinstance(found, tuple) and len(found) == 4
    with ndd.EvalMode.deferred:
        later = ndd.flip(picture)
        work = later._work
        assert work is not None
        assert (later.dtype, later.ndim, later.layout, later.device) == (ndd.uint8, 3, "HWC", ndd.Device("cpu"))
        batch = ndd.cast(ndd.flip(picture, batch_size=5), dtype=ndd.float32) + 1
        assert (batch.dtype, batch.ndim, batch.layout, batch.batch_size) == (ndd.float32, 3, "HWC", 5)
        chained = ndd.resize(batch, size=[4, 4]) * 2.5
        assert (chained.dtype, chained.batch_size) == (ndd.float32, 5) and chained._work is not None and batch._work is not None
        assert not work.is_done
        assert later.shape == (9, 8, 3) and work.is_done
        assert (chained.tensors[0].shape, chained.layout) == ((4, 4, 3), "HWC")


def test_O8_devices() -> None:
    picture = ndd.tensor(PICTURES[0])
    there = ndd.flip(picture.gpu())
    assert there.device == ndd.Device("gpu") == ndd.flip(picture, device="gpu").device
    assert ndd.flip(picture.gpu(), device="cpu").device == ndd.Device("cpu")
    for name in ("mixed", "tpu", "gpu:9"):
        with pytest.raises(ValueError):
            ndd.flip(picture, device=name)
    for wrong in (lambda: picture + picture.gpu(), lambda: picture.gpu() * picture):
        with pytest.raises(ValueError):
            wrong()
    assert (picture.gpu() + 1).device == ndd.Device("gpu")


def test_data_moves_to_the_device_of_an_argument_or_of_the_call() -> None:
    picture = ndd.tensor(PICTURES[0])
    assert same(ndd.rotate(picture, angle=ndd.tensor(5.0).gpu()), ndd.rotate(picture, angle=5.0))
    assert ndd.cat(picture, picture.gpu()).device == ndd.Device("gpu") == ndd.flip(picture, device=ndd.Device("gpu")).device
    with ndd.Device("gpu"):  # inputs and `device` decide
        assert ndd.flip(picture).device == ndd.zeros(shape=[1]).device == ndd.Device("cpu")


def test_operators_that_are_dalis_for_gpus_only_work_on_the_cpu() -> None:
    picture = ndd.tensor(PICTURES[0], layout="HWC")
    calls = (ndd.experimental.dilate, ndd.experimental.erode, ndd.experimental.median_blur, ndd.jitter,
             lambda value, **where: ndd.experimental.resize(value, size=[3, 4], **where))  # fmt: skip
    for call in calls:
        assert call(picture).device == ndd.Device("cpu")
        assert call(picture, device="gpu").device == call(picture.gpu()).device == ndd.Device("gpu")


def test_O9_bricks_are_bounded_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bricks, "MOST", 8)
    picture = ndd.tensor(PICTURES[0])
    with ndd.EvalContext(num_threads=1) as context:
        for k in range(50):
            assert ndd.resize(picture, size=[k + 1, 2]).shape == (k + 1, 2, 3)
            assert ndd.resize(picture, size=[1, 2]).shape == (1, 2, 3)
        assert len(context.engine.bricks) <= 8
        before = len(context.engine.bricks)
        calls = [ndd.resize(picture, size=[50, 2]) for _ in range(50)]
        assert len(context.engine.bricks) == before and all(call.shape == (50, 2, 3) for call in calls)


def test_O9_templates_are_bounded_and_do_not_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CALLS", tables.Limits(4, None, True))
    with ndd.EvalContext(num_threads=1) as context:
        for k in range(100):  # shapes and contents that are new each time
            assert ndd.flip(np.zeros((k + 1, 2, 3), np.uint8)).shape == (k + 1, 2, 3)
            assert ndd.rotate(PICTURES[0], angle=ndd.tensor(float(k))).ndim == 3
        ((brick,),) = [[item for item in context.engine.bricks._known.values() if item.schema.name == "flip"]]
        for _ in range(3):
            ndd.flip(PICTURES[0])
        edges: list[object] = [None] * brick.plan.edge_count
        edges[brick.given[0]] = ndd.as_tensor(PICTURES[0])._samples()
        assert brick._templates.find(edges, 1) is not None
        assert len(brick._templates._known) <= 4 and len(brick._templates._seen) <= 4


def test_O10_results_own_their_memory() -> None:
    picture = ndd.tensor(PICTURES[0])
    made = [ndd.flip(picture) for _ in range(20)]
    first = np.asarray(made[0])
    first[...] = 7
    for other in made[1:]:
        assert np.array_equal(np.asarray(other), PICTURES[0][:, ::-1])
    assert (np.asarray(made[0]) == 7).all() and np.array_equal(np.asarray(picture), PICTURES[0])
    kept = np.asarray(ndd.flip(picture))
    for _ in range(20):
        ndd.flip(picture)
    assert np.array_equal(kept, PICTURES[0][:, ::-1])
    viewed = ndd.reshape(picture, shape=[-1])
    np.asarray(viewed)[0] ^= 1
    assert np.array_equal(np.asarray(picture), PICTURES[0]) or np.shares_memory(np.asarray(viewed), np.asarray(picture))


def test_O11_missing_arguments() -> None:
    for mode in ndd.EvalMode:
        with mode:
            for wrong in (lambda: ndd.cast(PICTURES[0]), lambda: ndd.rotate(PICTURES[0], angle=None), lambda: ndd.coord_transform()):
                with pytest.raises(TypeError):
                    wrong()


def test_O12_one_channel() -> None:
    gray = ndd.tensor(np.full((4, 4, 1), 9, np.uint8))
    for call in (ndd.hsv, ndd.hue, ndd.saturation, ndd.color_twist):
        for value in (gray, ndd.batch([gray, gray])):
            with pytest.raises(RuntimeError, match="4, 4, 1"):
                call(value).evaluate()


def test_B6_every_operator_takes_batches_without_samples() -> None:
    pictures, numbers = ndd.as_batch(np.zeros((0, 8, 9, 3), np.uint8)), ndd.as_batch(np.zeros((0, 4, 5), np.float32))
    cases = {
        "flip": (ndd.flip(pictures), ndd.uint8, 3),
        "crop": (ndd.crop(pictures, crop=(2, 2)), ndd.uint8, 3),
        "slice": (ndd.slice(pictures, start=[1], end=[2], axes=[0]), ndd.uint8, 3),
        "resize": (ndd.resize(pictures, size=[3, 3]), ndd.uint8, 3),
        "cmn": (ndd.crop_mirror_normalize(pictures, crop=(2, 2)), ndd.float32, 3),
        "cast": (ndd.cast(pictures, dtype=ndd.int16), ndd.int16, 3),
        "sum": (ndd.reductions.sum(numbers, axes=[0]), ndd.float32, 1),
        "mean": (ndd.reductions.mean(numbers), ndd.float32, 0),
        "cat": (ndd.cat(numbers, numbers), ndd.float32, 2),
        "stack": (ndd.stack(numbers, numbers), ndd.float32, 3),
        "transpose": (ndd.transpose(numbers, perm=[1, 0]), ndd.float32, 2),
        "reshape": (ndd.reshape(numbers, shape=[-1]), ndd.float32, 1),
        "pad": (ndd.pad(numbers), ndd.float32, 2),
        "normalize": (ndd.normalize(numbers), ndd.float32, 2),
        "blur": (ndd.gaussian_blur(pictures, window_size=3), ndd.uint8, 3),
        "rotate": (ndd.rotate(pictures, angle=5.0), ndd.uint8, 3),
        "hsv": (ndd.hsv(pictures, hue=5.0), ndd.uint8, 3),
        "one_hot": (ndd.one_hot(ndd.as_batch(np.zeros((0,), np.int32)), num_classes=3), ndd.float32, 1),
        "add": (numbers + 1, ndd.float32, 2),
        "sqrt": (ndd.math.sqrt(numbers), ndd.float32, 2),
        "less": (numbers < numbers, ndd.bool, 2),
        "uniform": (ndd.random.uniform(range=[0, 1], batch_size=0), ndd.float32, 0),
        "expand": (ndd.expand_dims(numbers, axes=[0]), ndd.float32, 3),
        "erase": (ndd.erase(pictures, anchor=[1.0], shape=[1.0]), ndd.uint8, 3),
        "decode": (ndd.decoders.image(ndd.as_batch(np.zeros((0, 5), np.uint8))), ndd.uint8, 3),
    }
    for name, (found, kind, ndim) in cases.items():
        assert (found.batch_size, found.shape, found.dtype, found.ndim) == (0, [], kind, ndim), name


# --------------------------------------------------------------------------------------------------------------- random


def test_G1_words_and_states() -> None:
    generator = ndd.random.RNG(5)
    assert [generator() for _ in range(3)] == [3289868317, 299389332, 4225117243]
    assert str(generator.state) == "Philox_0000000000000005_0000000000000000:0000000000000000_3"
    assert ndd.random.RNG(-1).state == ndd.random.RNG(2**64 - 1).state
    assert ndd.random.RNG(2**64 + 5)() == 3289868317
    import random

    random.seed(3)
    before = random.getstate()
    first = ndd.random.RNG()
    assert random.getstate() == before  # DALI draws the seed from Python's generator
    random.seed(3)
    assert ndd.random.RNG().state != first.state


def test_G2_calls_draw_seven_words() -> None:
    for size in (None, 1, 8):
        generator = ndd.random.RNG(3)
        ndd.random.uniform(batch_size=size, rng=generator)
        other = ndd.random.RNG(3)
        other.advance(7)
        assert generator.state == other.state
    few, many = (ndd.random.normal(batch_size=size, rng=ndd.random.RNG(9)) for size in (2, 5))
    assert [item.item() for item in few] == [item.item() for item in many.tensors[:2]]
    assert ndd.random.normal(rng=ndd.random.RNG(9)).item() == few.tensors[0].item()


def test_G3_generators() -> None:
    generator = ndd.random.RNG(5)
    with pytest.raises(AttributeError):
        generator.seed  # noqa: B018
    generator.seed = 7
    assert generator() == ndd.random.RNG(7)()
    state = generator.state
    word = generator()
    for text in (state, str(state)):
        assert ndd.random.RNG(state=text)() == word
        generator.set_state(text)
        assert generator() == word
    skipped = ndd.random.RNG(5)
    skipped.advance(9)
    walked = ndd.random.RNG(5)
    for _ in range(9):
        walked()
    assert skipped.state == walked.state == str(walked.state)
    copied = walked.clone()
    walked()
    assert copied.state != walked.state
    for wrong in (lambda: ndd.random.RNG(state="x"), lambda: ndd.random.RNG(5, state="x"), lambda: skipped.advance(-1)):
        with pytest.raises(ValueError):
            wrong()
    for wrong in (lambda: ndd.random.RNG(1.5), lambda: ndd.random.RNG("a"), lambda: skipped.advance(1.5), lambda: skipped.set_state(3)):
        with pytest.raises(TypeError):
            wrong()
    assert ndd.random.RNG(np.int64(5)).state == ndd.random.RNG(5).state  # DALI: OverflowError
    assert str(walked.state) in repr(walked)


def test_seeds_and_states_of_generators_are_checked() -> None:
    generator = ndd.random.RNG(5)
    for state in (generator.state, str(generator.state)):
        with pytest.raises(ValueError, match="not both"):
            ndd.random.RNG(5, state=state)
    with pytest.raises(ValueError, match="Philox"):
        generator.set_state("x")
    for wrong in (1.5, "a", None, True):
        with pytest.raises(TypeError, match="seed"):
            generator.seed = wrong
    assert generator.get_state(cuda_stream=None) == ndd.random.RNG(5).state
    generator.seed = np.int64(9)
    assert generator.state == ndd.random.RNG(9).state
    with pytest.raises(TypeError, match="subclassed"):
        type("Own", (ndd.random.RNG,), {})


def test_a_seed_belongs_to_the_thread_that_set_it() -> None:
    words: list[int] = []

    def seeded() -> None:
        ndd.random.set_seed(5)
        thread = threading.Thread(target=lambda: (ndd.random.set_seed(77), ndd.random.get_default_rng()()))
        thread.start()
        thread.join(30)
        words.append(ndd.random.get_default_rng()())

    thread = threading.Thread(target=seeded)
    thread.start()
    thread.join(60)
    assert words == [ndd.random.RNG(5)()]


@pytest.mark.parametrize("library", ["numpy.random.seed", "torch.manual_seed"])
def test_seeds_of_numpy_and_torch_seed_the_default_generator(library: str) -> None:
    """Where the program gives no seed of its own. Nothing is drawn from the other library's generator."""
    module, _, name = library.rpartition(".")
    pytest.importorskip(module.partition(".")[0])
    draws = {"numpy.random": "numpy.random.randint(1 << 30)", "torch": "int(torch.randint(1 << 30, ()))"}[module]
    code = f"""
import {module}
import asyncdali.dynamic as ndd
for seed in (3, 4):
    {module}.{name}(seed)
    expected = {draws}
    {module}.{name}(seed)
    print(ndd.random.get_default_rng().state if seed == SEED else "", {draws} == expected)
"""
    found = []
    for seed in (3, 4, 3):
        command = [sys.executable, "-c", code.replace("SEED", str(seed))]
        made = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
        found.append(made.stdout)
        assert made.stdout.count("True") == 2 and "Philox" in made.stdout
    assert found[0] == found[2] != found[1]


def test_G4_default_generator() -> None:
    ndd.random.set_seed(3)
    first = ndd.random.uniform(), ndd.random.get_default_rng()()
    ndd.random.set_seed(3)
    second = ndd.random.uniform(), ndd.random.get_default_rng()()
    assert first[0].item() == second[0].item() and first[1] == second[1]
    assert ndd.random.uniform().item() != ndd.random.uniform().item()
    with pytest.raises(TypeError):
        ndd.random.set_seed(None)


def test_G4_threads_draw_different_numbers() -> None:
    """Their seeds are made of NumPy's state, which all threads have, and of the number of the thread."""
    states: list[str] = []
    for _ in range(6):
        thread = threading.Thread(target=lambda: states.append(str(ndd.random.get_default_rng().state)))
        thread.start()
        thread.join(30)
    assert len(set(states)) == 6


def test_G5_only_generators_are_generators() -> None:
    for rng in (5, "a", np.random.default_rng(3)):
        with pytest.raises(ValueError, match="RNG"):
            ndd.random.uniform(rng=rng)
    with pytest.raises(TypeError, match="rng"):
        ndd.random.uniform(seed=5)
    with pytest.raises(TypeError, match="random"):
        ndd.flip(PICTURES[0], rng=ndd.random.RNG(3))


def test_G6_no_batch_size_is_inherited() -> None:
    ndd.flip(ndd.batch(PICTURES))
    assert isinstance(ndd.random.coin_flip(), ndd.Tensor)
    assert ndd.random.uniform(ndd.batch([[1.0], [2.0, 3.0]])).shape == [(1,), (2,)]


def test_calls_leave_nothing_behind() -> None:
    picture = ndd.tensor(PICTURES[0])
    counts = []
    for _ in range(3):
        for _ in range(300):
            ndd.flip(picture)
            picture + 1
        counts.append(sys.getallocatedblocks())
    assert counts[2] - counts[1] < 100


def test_a_known_call_takes_few_steps_of_python_and_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """DALI makes about 500 Python and builtin calls, and wakes a thread. Here neither the mode nor the number of samples matters."""
    monkeypatch.setattr(bricks, "_LONG_NS", 1 << 60)  # on a busy machine any call may be long, and is shared with threads the next time
    calls = [
        lambda x: ndd.flip(x), lambda x: ndd.resize(x, size=[4, 5]), lambda x: ndd.reductions.sum(x), lambda x: x + 1,
        lambda x: ndd.math.sqrt(x), lambda x: ndd.random.uniform(range=[0.0, 1.0], batch_size=3),
    ]  # fmt: skip
    values = [ndd.copy(ndd.tensor(PICTURES[0])), *(ndd.copy(ndd.batch(PICTURES * count)) for count in (1, 20))]
    found = []
    for mode in (ndd.EvalMode.eager, ndd.EvalMode.sync_cpu):
        with ndd.EvalContext(num_threads=2) as context, mode:
            found.append([[steps_of(call, value) for call in calls] for value in values])
            assert context.engine.crew._workers is None
    assert found[0] == found[1]
    _, few, many = found[0]
    assert few == many and max(map(max, found[0])) <= 100


def steps_of(call: object, value: object) -> int:
    """Python and builtin functions that a call enters when it is known."""
    for _ in range(4):
        call(value)  # type: ignore[operator]
    events: list[str] = []
    gc.disable()  # finalizers are functions, too
    sys.setprofile(lambda _, event, __: events.append(event))
    try:
        call(value)  # type: ignore[operator]
    finally:
        sys.setprofile(None)
        gc.enable()
    return sum(event in ("call", "c_call") for event in events)


def test_wrong_spellings_name_the_right_ones() -> None:
    picture, batch = ndd.tensor(PICTURES[0]), ndd.batch(PICTURES)
    cases = [
        (lambda: ndd.decoders.image(picture, device="mixed"), ValueError, "device='gpu'"), (lambda: len(batch), TypeError, "batch_size"),
        (lambda: batch[0], TypeError, r"batch\.tensors\[i\]"), (lambda: ndd.readers.file, AttributeError, "readers.File"),
        (lambda: ndd.random.uniform(seed=3), TypeError, r"RNG\(seed\)"), (lambda: ndd.external_source, AttributeError, "ExternalSource"),
        (lambda: ndd.fn, AttributeError, "ndd.resize"), (lambda: ndd.pipeline_def, AttributeError, "next_epoch"),
        (lambda: ndd.image_decoder, AttributeError, "decoders.image"), (lambda: ndd.resise, AttributeError, "resize"),
        (lambda: picture.as_cpu(), AttributeError, r"cpu\(\)"), (lambda: picture.numpy(), AttributeError, "numpy.asarray"),
        (lambda: batch.at(0), AttributeError, "tensors"), (lambda: np.asarray(batch), TypeError, "as_tensor"),
    ]  # fmt: skip
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()
    assert not hasattr(picture, "__cuda_array_interface__") and not hasattr(picture, "nothing")


def test_signs_of_zero_are_constants_of_their_own() -> None:
    """0.0 and -0.0 are equal, so a table of calls by constants must ask for more."""
    x = ndd.tensor(np.array([1.0, -2.0], np.float32))
    for zero in (0.0, -0.0, 0.0):
        assert np.signbit(np.asarray(x * zero)).tolist() == [math.copysign(1, zero) < 0, math.copysign(1, zero) > 0]
        assert np.signbit(np.asarray(ndd.pad(x, fill_value=zero, axes=[0], shape=[3]))[2]) == (math.copysign(1, zero) < 0)


class Changing:
    """An array whose contents change; its hash does not."""

    def __init__(self, values: list[int]):
        self.values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.array(self.values)


def test_arguments_that_change_are_read_in_each_call() -> None:
    x = ndd.tensor(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    axes, perm = Changing([0]), [0, 1, 2]
    for wanted in ([0], [1], [2]):
        axes.values = wanted
        assert np.array_equal(np.asarray(ndd.reductions.sum(x, axes=axes)), np.arange(24).reshape(2, 3, 4).sum(axis=wanted[0]))
    size = np.array([2.0, 3.0], np.float32)
    pictures = ndd.batch(PICTURES)
    for _ in range(3):
        size += 1
        assert ndd.resize(pictures.tensors[0], size=size).shape == (*size.astype(int), 3)
        sizes = ndd.batch([size + k for k in range(3)])
        assert ndd.resize(pictures, size=sizes).shape == [(*(size + k).astype(int), 3) for k in range(3)]
        assert ndd.resize(pictures, size=[4, 5]).shape == [(4, 5, 3)] * 3
    for _ in range(3):
        perm.append(perm.pop(0))
        assert np.array_equal(np.asarray(ndd.transpose(x, perm=perm)), np.asarray(x).transpose(perm))
    for kind in (ndd.int32, ndd.float32, ndd.uint8, ndd.int32):
        assert ndd.cast(x, dtype=kind).dtype == kind
        with pytest.raises(TypeError, match="unexpected argument 'dtyp'"):
            ndd.cast(x, dtyp=kind)
        with pytest.raises(TypeError, match="'dtype' is missing"):
            ndd.cast(x)


NUMBERS = [
    0, 1, 2, 1.0, 2.0, 0.0, -0.0, True, np.float32(2), np.int64(1), None, "two", [1, 2], (1, 2), [1.0, 2], np.array([1.0, 2.0], np.float32),
]  # fmt: skip
DRAWN = {
    "rotate": ("angle", "fill_value"), "resize": ("size", "max_size"), "crop": ("crop", "crop_pos_x"), "pad": ("fill_value", "axes"),
    "brightness": ("brightness", "brightness_shift"), "flip": ("horizontal", "vertical"), "normalize": ("mean", "stddev"),
}  # fmt: skip
"""Operators, and arguments that get numbers of all kinds."""


def outcome(name: str, value: object, arguments: dict[str, object]) -> tuple[object, ...]:
    try:
        found = getattr(ndd, name)(value, **arguments).evaluate()
    except Exception as error:
        return type(error), str(error)
    tensors = found.tensors if isinstance(found, ndd.Batch) else [found]
    return type(found), found.dtype, found.layout, *((tensor.shape, np.asarray(tensor).tobytes()) for tensor in tensors)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_known_calls_equal_calls_of_a_new_context(seed: int) -> None:
    """A call that is found by its arguments as given, and one that is checked: with arguments that are equal, or nearly."""
    source, values = random.Random(seed), [ndd.tensor(PICTURES[0]), ndd.batch(PICTURES)]
    calls = []
    for _ in range(60):
        name = source.choice(list(DRAWN))
        chosen = {argument: source.choice(NUMBERS) for argument in DRAWN[name] if source.random() < 0.7}
        calls.append((name, source.choice(values), chosen))
    for name, value, chosen in source.choices(calls, k=150):
        found = outcome(name, value, chosen)
        with ndd.EvalContext(num_threads=1):
            assert outcome(name, value, chosen) == found, (name, chosen)


def test_O1_tensor_lists_of_pipelines_are_batches() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def numbers() -> object:
        return fn.random.uniform(shape=[3], seed=1), fn.random.uniform(range=[3.0, 4.0], seed=2)

    with numbers() as pipe:
        data, angles = pipe.run()
    made = ndd.cast(data, dtype=ndd.float64)
    assert isinstance(made, ndd.Batch)
    assert made.shape == [(3,), (3,)]
    assert isinstance(data + ndd.tensor(1), ndd.Batch)
    assert isinstance(ndd.cast(data[0], dtype=ndd.float64), ndd.Tensor)
    picture = ndd.tensor(np.zeros((4, 4, 3), np.uint8), layout="HWC")
    assert isinstance(ndd.rotate(picture, angle=angles), ndd.Batch)


CASTS = {
    "a float for an int": lambda x: (ndd.flip(x, horizontal=ndd.tensor(0.6)), ndd.flip(x, horizontal=1)),
    "a float for a mirror": lambda x: (
        ndd.crop_mirror_normalize(x, mirror=ndd.tensor(0.4)),
        ndd.crop_mirror_normalize(x, mirror=0),
    ),
    "floats for a shape": lambda x: (
        ndd.random.uniform(shape=ndd.tensor([2.6]), rng=ndd.random.RNG(3)),
        ndd.random.uniform(shape=[3], rng=ndd.random.RNG(3)),
    ),
    "integers for floats": lambda x: (
        ndd.warp_affine(x, matrix=[[1, 0, 2], [0, 1, 0]]),
        ndd.warp_affine(x, matrix=[1.0, 0.0, 2.0, 0.0, 1.0, 0.0]),
    ),
    "float64 for floats": lambda x: (
        ndd.experimental.warp_perspective(x, matrix=np.eye(3)),
        ndd.experimental.warp_perspective(x, matrix=np.eye(3, dtype=np.float32)),
    ),
    "a truth value of NumPy": lambda x: (
        ndd.crop_mirror_normalize(x, mirror=np.bool_(True)),
        ndd.crop_mirror_normalize(x, mirror=1),
    ),
}


@pytest.mark.parametrize("name", CASTS)
def test_O3_data_for_arguments_is_cast_to_their_type(name: str) -> None:
    """Rounded, as the operator `cast` does."""
    x = ndd.tensor(np.random.default_rng(1).integers(0, 256, (8, 9, 3)).astype(np.uint8), layout="HWC")
    for _ in range(2):
        made, expected = CASTS[name](x)
        assert same(made, expected)


def test_M2_a_list_of_bytes_names_the_function_for_lists() -> None:
    with pytest.raises(TypeError, match=r"decode_batch\(list\)"):
        ndd.decoders.image([b"a", b"b"])
