"""Provenance: the origin of each sample of any step, beside what the step returns."""

from __future__ import annotations

import gc
import os
import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from helpers.orders import order_of
from PIL import Image

import asyncdali
from asyncdali import fn, pipeline_def
from asyncdali.errors import CheckpointError
from asyncdali.plugin.base_iterator import BaseIterator
from asyncdali.sampling import order as orders
from asyncdali.sampling import shuffle_jumps
from asyncdali.sampling.order import SampleOrder, Shuffling
from asyncdali.sampling.sharding import Sharding

PICTURES = os.path.join(os.path.dirname(asyncdali.__file__), "data", "pictures")


@pipeline_def(batch_size=4, num_threads=2, seed=5, enable_checkpointing=True)
def training():
    encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=5, name="R")
    mean = fn.random.uniform(range=(0, 1), name="U")
    images = fn.resize(fn.decoders.image_random_crop(encoded, name="D"), size=(32, 32))
    images = fn.noise.gaussian(fn.random_resized_crop(images, size=16, name="RRC"), name="noise")
    return images, label, fn.random.coin_flip(name="C"), fn.random.normal(shape=(2,), name="N", mean=mean), mean


@pytest.fixture
def pipe():
    made = training()
    made.build()
    yield made
    made.close()


def random_order(choice):
    count = choice.randint(1, 40)
    shards = choice.randint(1, min(4, count))
    sharding = Sharding(shards, choice.randrange(shards), choice.random() < 0.5, choice.random() < 0.5)
    shuffling = Shuffling(choice.random() < 0.6, choice.randint(1, 12), choice.randrange(100))
    return SampleOrder(count, sharding, shuffling)


@pytest.mark.parametrize("seed", range(40))
def test_moved_equals_a_walk(seed):
    choice = random.Random(seed)
    order, samples = random_order(choice), choice.randint(1, 17)
    position = order.start
    for _ in range(choice.randint(0, 5)):
        position = order.after(position, choice.choice((samples, 3)))
    behind = position
    for batches in range(30):
        assert order.moved(position, batches, samples) == behind
        assert sum(run.samples for run in order.runs(behind, samples)) == samples
        behind = order.after(behind, samples)


def test_moved_refuses_a_negative_number():
    with pytest.raises(ValueError, match="number of batches is -1"):
        order_of(10).moved(order_of(10).start, -1, 4)


@pytest.mark.parametrize("size, slots", [(30_000, 1), (20_000, 2), (60_000, 1000), (100_000, 4000)])
def test_a_jump_of_the_engine_equals_its_draws(size, slots):
    visit = orders._BufferedVisit(None, 0, size, 77, slots)
    visit.skip(size)
    assert orders._engine_behind(77, size, slots) == visit.engine


def test_places_are_logarithms():
    states = np.array([1, 2, 16807, 123456789, shuffle_jumps.MODULUS - 1], np.int64)
    assert [pow(16807, int(place), shuffle_jumps.MODULUS) for place in shuffle_jumps.places(states)] == states.tolist()
    assert [shuffle_jumps.place(state) for state in states.tolist()] == shuffle_jumps.places(states).tolist()


def test_a_jump_counts_steps_that_are_repeated():
    """With 3 slots, 3 of the engine's 2^31 - 2 states are drawn again. The engine comes to one of them in this jump."""
    last = (shuffle_jumps.MODULUS - 2) // 3 * 3 + 1
    before = last * pow(16807, -5, shuffle_jumps.MODULUS) % shuffle_jumps.MODULUS
    x, draws = before, 0
    while draws < 9:
        x = x * 16807 % shuffle_jumps.MODULUS
        draws += x - 1 < (shuffle_jumps.MODULUS - 2) // 3 * 3
    assert shuffle_jumps.after_draws(before, 9, 3) == x


def test_runs_name_epoch_shard_and_padding():
    order = SampleOrder(5, Sharding(2, 0, False, True))
    assert [tuple(run) for run in order.runs(order.start, 4)] == [(2, 0, 0, False), (2, 0, 0, True)]
    order = SampleOrder(5, Sharding(2, 0))
    assert [tuple(run) for run in order.runs(order.start, 4)] == [(2, 0, 0, False), (2, 1, 1, False)]


@pytest.mark.parametrize("step", [0, 1, 7, 40])
def test_a_step_is_what_the_run_returns(pipe, step):
    told = pipe.provenance(step)
    for _ in range(step):
        pipe.run()
    images, _, flips, normals, means = pipe.run()
    assert str(images.provenance()) == str(told) and told.digest() == images.provenance().digest()
    assert [taken.file for taken in told.readers["R"]] == [images[k].source_info() for k in range(4)]
    assert [taken.epoch for taken in told.readers["R"]] == [(4 * step + k) // 64 for k in range(4)]
    np.testing.assert_array_equal(told.draws["U"], means.as_array())
    np.testing.assert_array_equal(told.draws["N"], normals.as_array())
    np.testing.assert_array_equal(told.draws["C"], flips.as_array())
    assert told.unknown == {} and set(told.windows) == {"D", "RRC"}
    assert [window["shape"] for window in told.windows["D"]] != [window["shape"] for window in told.windows["RRC"]]
    assert told.to_dict()["samples"][2] == told.sample(2)


def test_windows_are_those_that_were_decoded():
    @pipeline_def(batch_size=4, num_threads=1, seed=2)
    def decoding():
        encoded, _ = fn.readers.file(file_root=PICTURES, name="R")
        return fn.decoders.image_random_crop(encoded, name="D"), fn.decoders.image(encoded)

    pipe = decoding()
    crops, images = pipe.run()
    for k, window in enumerate(crops.provenance().windows["D"]):
        (top, left), (height, width) = window["anchor"], window["shape"]
        whole = np.asarray(images.at(k))[top : top + height, left : left + width]
        assert np.asarray(crops.at(k)).shape == whole.shape
        assert np.abs(np.asarray(crops.at(k)).astype(int) - whole).mean() < 12  # chroma at the border of a window has other neighbours


def test_asking_changes_nothing(pipe):
    other = training()
    for step in range(12):
        batch = pipe.run()
        str(batch[0].provenance()), str(pipe.provenance(100 * step))
        for ours, theirs in zip(batch, other.run(), strict=True):
            np.testing.assert_array_equal(ours.as_array(), theirs.as_array())


def test_a_restored_pipeline_knows_the_steps_before(pipe):
    for _ in range(20):
        pipe.run()
    restored = training(checkpoint=pipe.checkpoint())
    restored.build()
    assert str(restored.provenance(3)) == str(pipe.provenance(3))
    assert str(restored.provenance(50)) == str(pipe.provenance(50))
    assert restored.run()[0].provenance().step == 20


def test_steps_before_a_checkpoint_of_another_seed_are_refused(pipe):
    for _ in range(3):
        pipe.run()
    other = training(checkpoint=pipe.checkpoint(), seed=6)
    other.build()
    assert str(other.provenance(3)) == str(pipe.provenance(3))
    with pytest.raises(CheckpointError, match="step 2 is before step 3 of the restored checkpoint.*seed of the run"):
        other.provenance(2)


def test_a_negative_step_is_refused(pipe):
    with pytest.raises(ValueError, match="the step is -1"):
        pipe.provenance(-1)


def test_only_outputs_of_pipelines_have_a_provenance(pipe):
    batch = pipe.run()[1]
    with pytest.raises(RuntimeError, match="no pipeline has returned this list"):
        batch[:2].provenance()


def test_outputs_keep_no_pipeline_alive():
    pipe = training()
    batch = pipe.run()[1]
    pipe.close()
    del pipe
    gc.collect()
    with pytest.raises(RuntimeError, match="the pipeline that made this batch is gone"):
        batch.provenance()


def test_sources_are_named_with_the_iteration_that_they_are_called_for():
    pipe = asyncdali.Pipeline(batch_size=3, num_threads=1, seed=1)
    with pipe:
        data = fn.external_source(lambda info: np.float32(info.idx_in_epoch), batch=False, name="S")
        pipe.set_outputs(data, fn.random.uniform(name="U"))
    pipe.run()
    told = pipe.run()[1].provenance()
    assert told.sources == {"S": {"epoch": 0, "iteration": 1}} and told.sample(2)["sources"]["S"]["sample"] == 2
    assert len(told.draws["U"]) == 3
    assert pipe.provenance(1).draws == told.draws


def test_operators_in_branches_are_known_for_batches_that_were_returned():
    @pipeline_def(batch_size=6, num_threads=1, seed=3, enable_conditionals=True)
    def branching():
        flip = fn.random.coin_flip(dtype=asyncdali.types.BOOL, name="flip")
        value = fn.random.uniform(range=(0, 1), name="whole")
        if flip:
            value = fn.random.uniform(value, range=(10, 11), name="inside")
        return value, flip

    pipe = branching()
    pipe.run()
    values, flips = pipe.run()
    told = values.provenance()
    chosen = np.asarray(flips.as_array(), bool)
    assert told.draws["flip"] == chosen.tolist() and told.unknown == {}
    assert told.draws["inside"] == [float(value) if flag else None for value, flag in zip(values.as_array(), chosen)]
    later = pipe.provenance(30)
    assert "decisions of all iterations before" in later.unknown["inside"] and "inside" not in later.draws
    assert len(later.draws["whole"]) == 6


def test_user_functions_are_not_called():
    calls = []

    @pipeline_def(batch_size=2, num_threads=1, seed=3)
    def calling():
        data = fn.python_function(fn.random.uniform(name="U"), function=lambda x: calls.append(1) or x, num_outputs=1)
        return fn.random.normal(data, name="N")

    pipe = calling()
    pipe.build()
    told = pipe.provenance(4)
    assert list(told.draws) == ["U"] and "N" in told.unknown and calls == []


class Batches(BaseIterator):
    def _converted(self, outputs, keep):
        return [output.as_array() for output in outputs]


@pytest.mark.parametrize("prepared", [True, False])
def test_iterators_know_the_batch_that_they_returned(pipe, prepared):
    iterator = Batches([pipe], ["images", "labels", "flips", "normals", "means"], reader_name="R", prepare_first_batch=prepared)
    with pytest.raises(RuntimeError, match="call next"):
        iterator.provenance()
    for step in range(3):
        (batch,) = next(iterator)
        (told,) = iterator.provenance()
        assert told.step == step
        np.testing.assert_array_equal(told.draws["U"], batch[4])


def test_bad_samples_are_named(tmp_path):
    (tmp_path / "a").mkdir()
    for k, name in enumerate(["0_circles/1.jpg", "0_circles/2.jpg", "0_circles/3.jpg", "0_circles/4.jpg"]):
        data = Path(PICTURES, name).read_bytes()
        (tmp_path / "a" / f"{k}.jpg").write_bytes(b"no picture" if k == 2 else data)

    @pipeline_def(batch_size=4, num_threads=1, seed=1, on_error="replace", max_bad=3)
    def repaired():
        return fn.decoders.image(fn.readers.file(file_root=str(tmp_path), name="R")[0])

    (images,) = repaired().run()
    told = images.provenance()
    assert told.bad == {"R": {2: "replace"}} and told.sample(2)["bad"] == {"R": "replace"} and "this sample is bad" in str(told)
    (by,) = told.replaced["R"].values()
    wanted = Image.open(tmp_path / "a" / f"{by['number']}.jpg")
    assert by["number"] in (0, 1, 3) and by["file"].endswith(f"{by['number']}.jpg") and f"{by['file']} stands in its place" in str(told)
    assert np.asarray(images[2]).shape[:2] == (wanted.height, wanted.width)
    np.testing.assert_array_equal(np.asarray(images[2]), np.asarray(images[by["number"]]))


def test_windows_and_draws_of_a_returned_batch_need_no_second_plan(monkeypatch):
    @pipeline_def(batch_size=4, num_threads=1, seed=5)
    def mirroring():
        encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="R")
        images = fn.resize(fn.decoders.image_random_crop(encoded, name="D"), size=(32, 32))
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(name="C")), label

    pipe = mirroring()
    pipe.build()
    expected = str(pipe.provenance(0))
    monkeypatch.setattr(type(pipe._core.built().dry_runs), "_plan", None)  # calling it raises a TypeError
    told = pipe.run()[0].provenance()
    assert set(told.draws) == {"C"} and set(told.windows) == {"D"} and str(told) == expected
    with pytest.raises(TypeError):
        pipe.provenance(7).draws  # noqa: B018


@pytest.mark.parametrize("shown", ["itself", "reshaped", "computed", "called", "branch"])
def test_changes_of_outputs_do_not_change_the_draws(shown):
    def change(array):
        array[...] = 7
        return array

    @pipeline_def(batch_size=3, num_threads=1, seed=5, enable_conditionals=True)
    def drawing():
        draw = fn.random.uniform(shape=[1], name="U")
        flip = fn.random.coin_flip(probability=1.0, dtype=asyncdali.types.BOOL, name="F")
        if shown == "reshaped":
            draw = fn.reshape(draw, shape=[1, 1])
        elif shown == "computed":
            draw = fn.cast(draw, dtype=asyncdali.types.FLOAT)
        elif shown == "called":
            draw = fn.python_function(draw, function=change)
        elif shown == "branch":
            if flip:
                draw = fn.random.uniform(draw, name="B")
            else:
                draw = draw + 1
        return draw

    pipe = drawing()
    expected = pipe.provenance(0).draws["U"]
    (draws,) = pipe.run()
    before = draws.as_array().tolist()
    draws.as_array()[...] = 9
    told = draws.provenance()
    assert told.draws["U"] == expected
    if shown == "branch":
        assert told.draws["B"] == before and told.draws["F"] == [True] * 3


def test_a_change_of_an_output_does_not_change_its_draws(pipe):
    flips = pipe.run()[2]
    before = np.array(flips.as_array())
    flips.as_array()[:] = 7
    assert flips.provenance().draws["C"] == before.tolist()


def test_large_draws_are_not_kept():
    @pipeline_def(batch_size=3, num_threads=1, seed=2)
    def drawing():
        return fn.random.uniform(shape=[40, 50], name="U"), fn.random.uniform(shape=[2, 3], name="V")

    outputs = drawing().run()
    told = outputs[0].provenance()
    assert told.draws["U"] == ["float32 of shape (40, 50)"] * 3 and list(outputs[0].moment.choices) == []
    np.testing.assert_array_equal(told.draws["V"], outputs[1].as_array())


def cropping(**options):
    @pipeline_def(batch_size=3, num_threads=1, seed=2, **options)
    def graph():
        encoded, _ = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="R")
        where = {"crop_pos_x": fn.random.uniform(range=(0, 1), name="x"), "crop_pos_y": fn.random.uniform(range=(0, 1), name="y")}
        whole = fn.decoders.image(encoded, name="whole")
        crop = fn.crop(whole, crop=(20, 30), name="crop", **where)
        normal = fn.crop_mirror_normalize(whole, crop=(20, 30), name="normal", dtype=asyncdali.types.UINT8, output_layout="HWC", **where)
        middle = fn.crop_mirror_normalize(fn.resize(whole, size=(40, 50)), crop_w=10, crop_h=12, name="middle")
        plain = fn.crop_mirror_normalize(whole, name="plain", dtype=asyncdali.types.UINT8, output_layout="HWC")
        return whole, crop, normal, fn.decoders.image_crop(encoded, crop=(20, 30), name="decoded", **where), middle, plain

    return graph()


def test_windows_of_crops_are_those_that_were_cut():
    pipe = cropping()
    for step in range(3):
        whole, crops, normal, *_ = pipe.run()
        told = crops.provenance()
        assert set(told.windows) == {"crop", "normal", "decoded", "middle"}
        assert told.windows["crop"] == told.windows["normal"] == told.windows["decoded"]
        assert told.windows["middle"] == [{"anchor": [14, 20], "shape": [12, 10]}] * 3
        for k, window in enumerate(told.windows["crop"]):
            (top, left), (height, width) = window["anchor"], window["shape"]
            expected = np.asarray(whole.at(k))[top : top + height, left : left + width]
            np.testing.assert_array_equal(crops.at(k), expected)
            np.testing.assert_array_equal(normal.at(k), expected)
        assert str(pipe.provenance(step)) == str(told)


def test_windows_in_branches():
    @pipeline_def(batch_size=6, num_threads=1, seed=3, enable_conditionals=True)
    def branching():
        encoded, _ = fn.readers.file(file_root=PICTURES, name="R")
        flip = fn.random.coin_flip(dtype=asyncdali.types.BOOL, name="flip")
        if flip:
            image = fn.decoders.image_random_crop(encoded, name="inside")
        else:
            image = fn.decoders.image(encoded)
        return image, flip

    images, flips = branching().run()
    told = images.provenance()
    for k, window in enumerate(told.windows["inside"]):
        assert (window is not None) == bool(flips.at(k))
        assert window is None or list(np.asarray(images.at(k)).shape[:2]) == window["shape"]
    assert told.sample(flips.as_array().tolist().index(0))["windows"] == {"inside": None} and "window" in str(told)


def test_several_readers_and_padded_samples():
    @pipeline_def(batch_size=5, num_threads=1, seed=3)
    def reading():
        one = fn.readers.file(file_root=PICTURES, num_shards=10, shard_id=1, pad_last_batch=True, name="one")
        two = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="two")
        return *one, *two

    pipe = reading()
    batches = [pipe.run() for _ in range(4)]
    for step, (one, _, two, _) in enumerate(batches):
        told = pipe.provenance(step)
        assert str(told) == str(one.provenance()) == str(two.provenance())
        for name, tensors in (("one", one), ("two", two)):
            assert [taken.file for taken in told.readers[name]] == [tensors[k].source_info() for k in range(5)]
    padding = [[taken.padding for taken in batch[0].provenance().readers["one"]] for batch in batches]
    assert padding == [[False] * 5, [False] + [True] * 4, [False] * 5, [False] * 2 + [True] * 3]  # shards of 6 and 7 samples
    assert [taken.number for taken in batches[1][0].provenance().readers["one"]] == [11] * 5


def test_engines_tell_the_same_and_which_one_it_was():
    plain = training()
    with closing(training(engines=1, engine_start_method="forkserver")) as pipe:
        for step in range(3):
            told, expected = pipe.run()[0].provenance(), plain.run()[0].provenance()
            assert told.engine.startswith("engine 0 (process ") and expected.engine == "" and told.engine in str(told)
            told.engine = ""
            assert str(told) == str(expected) == str(pipe.provenance(step)) and told.to_dict() == expected.to_dict()


def test_nothing_is_discovered_for_provenance_before_it_is_asked_for(tmp_path):
    @pipeline_def(batch_size=1, num_threads=1)
    def reading():
        return fn.readers.file(file_root=str(tmp_path / "missing"), lazy_init=True, name="R")

    reading().build()
