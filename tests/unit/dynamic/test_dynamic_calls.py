"""Calls of operators in dynamic mode: bricks are found again, and equal pipelines' results."""

import weakref

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali import fn, pipeline_def
from asyncdali.imperative.contexts import EvalContext
from asyncdali.runtime.templates import whole

PICTURES = [np.random.default_rng(k).integers(0, 256, (11 + k, 13, 3), np.uint8) for k in range(3)]


def in_pipeline(call):
    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def define():
        return call(fn.external_source(source=[PICTURES], layout="HWC"))

    pipe = define()
    pipe.build()
    (made,) = pipe.run()
    return [np.asarray(made[k]) for k in range(3)]


CASES = {
    "flip": lambda module, x: module.flip(x, horizontal=1),
    "resize": lambda module, x: module.resize(x, size=[7, 5]),
    "crop_mirror_normalize": lambda module, x: module.crop_mirror_normalize(x, crop=(8, 9), mean=[3.0, 4.0, 5.0], mirror=1),
    "sum": lambda module, x: module.reductions.sum(x, axes=[0]),
    "arithmetic": lambda module, x: (x + 3) * 2.5,
}


@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_pipelines(name):
    call = CASES[name]
    expected = in_pipeline(lambda node: call(fn, node))
    for _ in range(4):  # planned, planned, made into a template, copied
        made = call(ndd, ndd.batch(PICTURES, layout="HWC"))
        for k in range(3):
            np.testing.assert_array_equal(np.asarray(made.tensors[k]), expected[k])
            single = call(ndd, ndd.tensor(PICTURES[k], layout="HWC"))
            np.testing.assert_array_equal(np.asarray(single), expected[k])


def test_a_brick_is_found_again():
    x = ndd.tensor(PICTURES[0], layout="HWC")
    with EvalContext(num_threads=1) as context:  # its table of bricks is its own
        ndd.flip(x)
        bricks = context.engine.bricks
        before = len(bricks)
        for _ in range(20):
            ndd.flip(x)
        assert len(bricks) == before
        ndd.flip(x, vertical=1)
        assert len(bricks) == before + 1


def test_deferred_calls_wait_for_the_read():
    x = ndd.tensor([1, 2, 3])
    with ndd.EvalMode.deferred:
        late = ndd.cast(x, dtype=ndd.float32)
        wrong = ndd.reshape(x, shape=[7])
    assert late._held is None
    np.testing.assert_array_equal(np.asarray(late), np.float32([1, 2, 3]))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="reshape"):
            wrong.shape  # noqa: B018


def test_a_call_needs_no_torch_and_no_gpu():
    assert ndd.Device.current() == ndd.Device.CPU
    assert np.asarray(ndd.math.sqrt(4)) == 2


def test_random_operators_with_inputs_may_be_called_again_and_again():
    pictures = ndd.batch([np.zeros((4, 5, 3), np.uint8)] * 2, layout="HWC")
    rng = ndd.random.RNG(3)
    states, made = [], []
    for _ in range(6):
        states.append(rng.get_state())
        made.append([np.asarray(item) for item in ndd.noise.gaussian(pictures, stddev=9.0, rng=rng).tensors])
    assert len({item[0].tobytes() for item in made}) == 6
    for state, expected in zip(states, made, strict=True):
        again = ndd.noise.gaussian(pictures, stddev=9.0, rng=ndd.random.RNG(state=state))
        np.testing.assert_array_equal([np.asarray(item) for item in again.tensors], expected)


def test_the_words_of_a_template_live_while_compiled_code_reads_them(monkeypatch):
    """The memory of a temporary array may be another thread's before it is read."""
    arrays, lives = [], []

    def address_of(array):
        arrays.append(weakref.ref(array))
        return address(array)

    def relocate(*words):
        lives.append(all(reference() is not None for reference in arrays))
        return whole_relocate(*words)

    address = whole.address_of
    monkeypatch.setattr(whole, "address_of", address_of)
    x = ndd.batch(PICTURES, layout="HWC")
    with EvalContext(num_threads=1) as context:
        for _ in range(3):
            ndd.flip(x, vertical=1)
        (brick,) = [found for found in context.engine.bricks._known.values() if found._templates is not None and found._templates._known]
        (template,) = brick._templates._known.values()
        whole_relocate, template._relocate = template._relocate, relocate
        arrays.clear()
        brick.run(context.engine, [x._samples()], 3)
    assert lives == [True] and len(arrays) >= 3


PICTURE_OF_BYTES = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
SAME = {
    "cast": lambda x: ndd.cast(x, dtype=ndd.uint8), "cast_like": lambda x: ndd.cast_like(x, x), "copy": ndd.copy,
    "transpose": lambda x: ndd.transpose(x, perm=[0, 1, 2]), "resize": lambda x: ndd.resize(x, size=[2, 2]),
    "flip": lambda x: ndd.flip(x, horizontal=0),
    "permute_batch": lambda x: ndd.permute_batch(ndd.as_batch([x, x]), indices=[1, 1]).tensors[0],
}  # fmt: skip
VIEWS = {
    "reshape": lambda x: ndd.reshape(x, shape=[4, 3]), "reinterpret": lambda x: ndd.reinterpret(x, layout="ABC"),
    "expand_dims": lambda x: ndd.expand_dims(x, axes=[0]), "squeeze": lambda x: ndd.squeeze(ndd.expand_dims(x, axes=[0]), axes=[0]),
    "per_frame": lambda x: ndd.per_frame(ndd.as_tensor(x, layout="FHW")),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SAME, *VIEWS])
def test_O10_only_views_share_memory_with_an_input(name: str) -> None:
    """As in DALI. A program that writes a result of another operator does not change the input, nor another sample."""
    x = ndd.tensor(PICTURE_OF_BYTES, layout="HWC")
    for _ in range(3):  # the third call runs from a template, if there is one
        made = {**SAME, **VIEWS}[name](x)
        np.asarray(made)[...] = 77
        assert (np.asarray(x) == 77).all() == (name in VIEWS)
        np.asarray(x)[...] = PICTURE_OF_BYTES
    permuted = ndd.permute_batch(ndd.as_batch([x, x]), indices=[1, 1])
    np.asarray(permuted.tensors[0])[...] = 77
    assert np.array_equal(np.asarray(permuted.tensors[1]), PICTURE_OF_BYTES)
