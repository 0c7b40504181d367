"""Captured loops: results, draws, states and errors are those of the plain loop, and calls are really computed ahead."""

import contextlib
import gc
import itertools
import os
import signal
import threading
import warnings
import weakref

import numpy as np
import pytest
from helpers.interrupted_places import PlacedInterrupts
from PIL import Image

import asyncdali.dynamic as ndd
from asyncdali.codecs.jpeg import jpeg_kernels
from asyncdali.imperative import bricks, captures, fused, loops
from asyncdali.runtime.work import call_placement

pytestmark = pytest.mark.filterwarnings("ignore:capture")


@pytest.fixture(autouse=True)
def _no_work_is_left():
    """Wait for the threads: they compute the first step of a next epoch, also if no next epoch comes."""
    yield
    end_of_threads()


def end_of_threads():
    for thread in threading.enumerate():
        if thread.name.startswith("asyncdali-capture"):
            thread.join(30)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Twelve small pictures."""
    root = tmp_path_factory.mktemp("pictures")
    paths = []
    for k in range(12):
        Image.fromarray(np.random.default_rng(k).integers(0, 256, (20 + k, 30 - k, 3), np.uint8)).save(root / f"{k:02d}.png")
        paths.append(str(root / f"{k:02d}.png"))
    return paths


def content(made):
    """A result as bytes."""
    if isinstance(made, (tuple, list)):
        return b"|".join(map(content, made))
    return b"".join(np.asarray(t).tobytes() for t in (made.tensors if isinstance(made, ndd.Batch) else [made]))


def training(item, rng):
    """The body of a usual loop."""
    encoded, labels = item
    size = labels.batch_size
    pictures = ndd.decoders.image_random_crop(encoded, rng=rng)
    pictures = ndd.resize(pictures, size=[16, 16])
    mirror = ndd.random.coin_flip(batch_size=size, rng=rng)
    pictures = ndd.crop_mirror_normalize(pictures, mirror=mirror, mean=[1.0, 2.0, 3.0])
    return [pictures, labels + 1]


def run(files, body, capture, epochs=2, size=4, **arguments):
    """All steps as bytes, the state of the generator, and the reader."""
    reader = ndd.readers.File(files=files, random_shuffle=True, seed=3, enable_checkpointing=True, **arguments)
    rng = ndd.random.RNG(7)
    found = []
    with ndd.EvalMode.eager if capture else ndd.EvalMode.sync_cpu:  # nothing is computed ahead in mode `sync_cpu`
        for _ in range(epochs):
            for item in reader.next_epoch(batch_size=size, capture=capture):
                found.append(content(body(item, rng)))
    return found, str(rng.state), reader


def assert_equal_loops(files, body, least=0, **arguments):
    """Compare a body in a plain and in a captured loop. `least`: calls that were computed ahead."""
    plain, state, one = run(files, body, False, **arguments)
    captured, ended, other = run(files, body, True, **arguments)
    assert captured == plain
    assert ended == state and other.get_state() == one.get_state()
    assert other.captured_calls >= least


# --- K1


def test_K1_results_draws_and_states_are_those_of_the_plain_loop(files):
    assert_equal_loops(files, training, least=5 * 2, epochs=3)


def test_calls_as_expected_are_taken_without_another_look_at_their_arguments(files, monkeypatch):
    taken, take = [], captures.CapturedLoop.take
    monkeypatch.setattr(captures.CapturedLoop, "take", lambda self, *given: taken.append(take(self, *given)) or taken[-1])
    assert_equal_loops(files, training, epochs=6)
    assert len(taken) >= 4 * (3 * 6 - 3) and None not in taken


@pytest.mark.parametrize("departure", ["draw", "words", "size", "generator", "constant", "number", "array", "order", "type", "once more"])
def test_a_call_that_departs_from_what_was_expected_is_computed(files, departure):
    """One of six steps departs; what it draws, and later steps, are those of the plain loop."""
    steps = itertools.count()

    def body(item, rng):
        wrong = next(steps) % 6 == 4
        if wrong and departure == "words":
            rng.advance(3)
        pictures = ndd.decoders.image(item[0])
        if wrong and departure == "draw":
            ndd.random.uniform(rng=rng)
        size = 3 if wrong and departure == "size" else item[0].batch_size
        if wrong and departure == "number":
            size = np.int64(size)
        other = ndd.random.RNG(5) if wrong and departure == "generator" else rng
        angles = ndd.random.uniform(range=[0.0, 20.0], batch_size=size, rng=other)
        if wrong and departure == "size":
            with pytest.raises(ValueError, match="3 samples"):
                ndd.rotate(pictures, angle=angles)
            angles = 5.0
        if wrong and departure == "array":
            angles = np.float32(7.0) * np.ones((), np.float32)
        if wrong and departure == "type":
            angles = ndd.cast(angles, dtype=ndd.int32)
        calls = [
            lambda: ndd.rotate(pictures, angle=angles, fill_value=9.0 if wrong and departure == "constant" else 3.0),
            lambda: ndd.random.coin_flip(batch_size=item[0].batch_size, rng=rng),
        ]
        made = [call() for call in (calls[::-1] if wrong and departure == "order" else calls)]
        if wrong and departure == "once more":
            made.append(calls[0]())
        return made

    assert_equal_loops(files, body, least=3 * 6, epochs=6)


def test_K1_the_first_step_of_a_later_epoch_is_computed_ahead(files):
    """As in pipelines, the end of an epoch does not stop the work."""

    def loop(capture, last_batch, arguments):
        reader, rng, found, served = ndd.readers.File(files=files, **arguments), ndd.random.RNG(7), [], []
        size = 4 if last_batch == "wrap" else 5
        for _ in range(4):
            for number, item in enumerate(reader.next_epoch(batch_size=size, capture=capture, last_batch=last_batch)):
                before = reader.captured_calls
                found.append(content(training(item, rng)))
                if not number:
                    served.append(reader.captured_calls - before)
        return found, str(rng.state), served

    shard = {"num_shards": 2, "shard_id": 1}
    for last_batch in ("wrap", "partial", "drop"):
        for arguments in ({}, shard, {**shard, "stick_to_shard": True, "pad_last_batch": True}, {"shuffle_after_epoch": True}):
            with ndd.EvalMode.sync_cpu:
                plain = loop(False, last_batch, arguments)
            captured = loop(True, last_batch, arguments)
            assert captured[:2] == plain[:2]
            assert captured[2][2:] == [5, 5], (last_batch, arguments, captured[2])


def test_a_loop_works_after_an_interrupt_at_any_place_of_the_end_of_an_epoch(files):
    reader = ndd.readers.File(files=files)

    def epoch():
        return [content(ndd.resize(ndd.decoders.image(item[0]), size=[8, 8])) for item in reader.next_epoch(batch_size=4, capture=True)]

    handler, came = signal.getsignal(signal.SIGINT), 0
    gc.disable()  # a finalizer that runs by chance would swallow an interrupt
    try:
        expected = epoch()
        interrupts = PlacedInterrupts(captures.CapturedLoop.pause)
        for place in interrupts.chosen(epoch, 1):
            with contextlib.suppress(KeyboardInterrupt):
                interrupts.at(place, epoch)
            came += interrupts.came
            served = reader.captured_calls
            assert epoch() == expected, place
            assert reader.captured_calls > served
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, handler)
    assert came > 10


def test_K6_a_loop_that_was_left_reads_again(files, tmp_path):
    """Leaving a loop drops the items that it has read ahead. The next loop reads changed files again."""
    copies = [tmp_path / f"{k}.png" for k in range(4)]
    for source, copy in zip(files, copies, strict=False):
        copy.write_bytes(open(source, "rb").read())
    reader = ndd.readers.File(files=[str(copy) for copy in copies])
    for item in reader.next_epoch(batch_size=2, capture=True):
        ndd.decoders.image(item[0])
        break
    copies[2].write_bytes(open(files[9], "rb").read())
    for item in reader.next_epoch(batch_size=2, capture=True):
        assert content(item[0].tensors[0]) == open(files[9], "rb").read()
        break


def test_readers_end_with_what_was_computed_for_their_next_epoch(files):
    def loop():
        reader = ndd.readers.File(files=files)
        for _ in range(2):
            for item in reader.next_epoch(batch_size=4, capture=True):
                made = ndd.resize(ndd.decoders.image(item[0]), size=[8, 8])
        assert loops.current_loop() is None and made.batch_size == 4
        return weakref.ref(reader)

    before, gone = threading.active_count(), loop()
    end_of_threads()
    gc.collect()
    assert gone() is None and threading.active_count() <= before


def test_K1_sources_drive_loops():
    def items():
        for k in range(8):
            yield np.full((9, 8, 3), k, np.uint8)

    def loop(capture):
        source, rng, found = ndd.ExternalSource(items), ndd.random.RNG(1), []
        for item in source.captured(3) if capture else (ndd.Batch.broadcast(ndd.tensor(array), 3) for array in items()):
            noisy = ndd.noise.gaussian(item, stddev=20.0, rng=rng)
            found.append(content(ndd.flip(noisy, horizontal=1)))
        return found, str(rng.state), source

    captured = loop(True)
    assert captured[:2] == loop(False)[:2]
    assert captured[2].captured_calls >= 2 * 5


def test_K1_a_loop_without_calls_warns(files):
    reader = ndd.readers.File(files=files)
    with pytest.warns(UserWarning, match="no operator") as told:
        for _ in range(2):
            for _ in reader.next_epoch(batch_size=2, capture=True):
                pass
    assert len(told) == 1


# --- K2, K3, K9


def test_texts_in_a_captured_loop_are_those_of_the_plain_loop(files):
    def texts(capture):
        loop = ndd.readers.File(files=files[:4]).next_epoch(batch_size=2, capture=capture)
        return [repr(value) for _, labels in loop for value in (labels, labels + 1, (labels + 1).tensors[0])]

    found = texts(True)
    assert found == texts(False)
    assert [text.partition("(")[0] for text in found[:3]] == ["Batch", "Batch", "Tensor"]


def test_K2_nothing_has_to_be_constant_or_marked(files):
    """Constants from anywhere, arrays, functions, and arguments that differ."""
    table = {"size": [9, 8]}
    matrix = np.array([[1.0, 0, 2], [0, 1, 1]], np.float32)

    def shrink(pictures, factor):
        return ndd.resize(pictures, size=[extent * factor for extent in table["size"]])

    def body(item, rng):
        pictures = ndd.decoders.image(item[0])
        moved = ndd.warp_affine(shrink(pictures, 2), ndd.capture.invariant(matrix))
        return [moved, ndd.cast(moved, dtype=ndd.capture.invariant(ndd.float32))]

    assert_equal_loops(files, body, least=4 * 2)


def test_K3_arithmetic_slices_and_second_passes(files):
    def body(item, rng):
        pictures = ndd.decoders.image(item[0])
        small = ndd.resize(pictures, size=[8, 8])
        found = [small * 2 + 1, small.slice[2:5], ndd.math.sqrt(small), small.tensors[0], small.select([1, 0])]
        for k in range(3):
            found.append(ndd.random.uniform(range=[0.0, k + 1.0], batch_size=4, rng=rng))
        found.append(ndd.random.normal(rng=rng))
        return found

    assert_equal_loops(files, body, least=6)


def test_K9_steps_that_differ_fall_back(files):
    def body(item, rng):
        count = body.count = body.count + 1
        pictures = ndd.decoders.image(item[0])
        if count % 3 == 0:
            pictures = ndd.flip(pictures)
        if count % 4 == 0:
            rng.seed = count
        if count % 5 == 0:
            rng()
        size = [8, 8] if count % 2 else [7, 9]
        return [ndd.resize(pictures, size=size), ndd.random.uniform(range=[0.0, 1.0], batch_size=4, rng=rng)]

    found = []
    for capture in (False, True):
        body.count = 0
        found.append(run(files, body, capture, epochs=4)[:2])
    assert found[0] == found[1]


def test_K9_memory_that_was_changed_is_seen(files):
    def body(item, rng):
        pictures = ndd.decoders.image(item[0])
        small = ndd.resize(pictures, size=[8, 8])
        other = ndd.as_batch(small, layout="ABC")
        np.asarray(other.tensors[1])[...] = 7
        constant[...] = body.count = body.count + 1
        return [ndd.flip(small, horizontal=1), small + ndd.as_tensor(constant)]

    constant = np.zeros(3, np.float32)
    found = []
    for capture in (False, True):
        body.count = 0
        found.append(run(files, body, capture)[:2])
    assert found[0] == found[1]


def test_K9_memory_that_is_changed_after_a_call_is_not_read_later(files):
    """A result without memory of its own is computed before its input may change."""

    def body(item, rng):
        body.count += 1
        pictures = ndd.decoders.image(item[0])
        small = ndd.resize(pictures, size=[8, 8])
        flipped = ndd.flip(small, horizontal=1)
        for t in item[0].tensors:
            np.asarray(t)[...] = 0
        found = [flipped]
        if body.count % 4 == 3:
            np.asarray(small.tensors[2])[...] = 9
            found += [pictures, small, ndd.flip(small, vertical=1)]
        return found

    found = []
    for capture in (False, True):
        body.count = 0
        found.append(run(files, body, capture, epochs=4)[:2])
    assert found[0] == found[1]


def test_K9_results_of_one_step_are_right_in_a_later_one(files):
    def loop(capture):
        reader, rng, found, kept = ndd.readers.File(files=files), ndd.random.RNG(1), [], []
        for _ in range(3):
            for item in reader.next_epoch(batch_size=3, capture=capture):
                pictures = ndd.decoders.image_random_crop(item[0], rng=rng)
                small = ndd.resize(pictures, size=[8, 8])
                kept.append(pictures)
                found.append(content(ndd.flip(small)))
        return found, [content(item) for item in kept]

    assert loop(True) == loop(False)


# --- K4


def test_K4_only_a_batch_size_is_needed(files):
    reader = ndd.readers.File(files=files)
    with pytest.raises(ValueError, match="batch size"):
        reader.next_epoch(capture=True)


def test_K4_reseeding_restoring_and_drawing_between_epochs(files):
    def loop(capture):
        reader = ndd.readers.File(files=files, random_shuffle=True, seed=3)
        found = []
        for epoch in range(3):
            ndd.random.set_seed(epoch)
            ndd.random.get_default_rng()()
            for item in reader.next_epoch(batch_size=4, capture=capture):
                found.append(content(training(item, None)))
        return found, str(ndd.random.get_default_rng().state)

    assert loop(True) == loop(False)


@pytest.mark.parametrize("root", ["reader", "source"])
def test_generators_may_be_set_between_epochs_and_contexts_may_change(files, root):
    def epoch(made, capture, context):
        if root == "reader":
            return made.next_epoch(batch_size=4, capture=capture, ctx=context)
        return made.captured(4, ctx=context) if capture else pulled(made)

    def pulled(made):
        with contextlib.suppress(StopIteration):
            while True:
                yield made(batch_size=4)

    def loop(capture):
        numbers = np.arange(5, dtype=np.float32)
        made = ndd.readers.File(files=files) if root == "reader" else ndd.ExternalSource(numbers, cycle="raise")
        rng, found = ndd.random.RNG(1), []
        state = rng.get_state()
        for number in range(5):
            if number == 2:
                rng.set_state(state)
            if number == 3:
                rng.seed = 9
            for item in epoch(made, capture, ndd.EvalContext(num_threads=1 + number % 2)):
                data = item[1] if root == "reader" else item
                found.append(content([ndd.copy(data), ndd.random.normal(batch_size=4, rng=rng)]))
        return found, str(rng.state)

    assert loop(True) == loop(False)


def test_K4_captured_and_plain_loops_of_one_reader_may_be_mixed(files):
    def loop(kinds):
        reader, rng, found = ndd.readers.File(files=files), ndd.random.RNG(1), []
        for capture in kinds:
            for item in reader.next_epoch(batch_size=5, capture=capture):
                found.append(content(training(item, rng)))
        return found

    assert loop([False] * 4) == loop([True, False, True, True])


def test_K4_a_loop_inside_of_a_loop(files):
    def loop(capture):
        outer, inner, rng, found = ndd.readers.File(files=files), ndd.readers.File(files=files[:6]), ndd.random.RNG(1), []
        for item in outer.next_epoch(batch_size=4, capture=capture):
            found.append(content(training(item, rng)))
            for other in inner.next_epoch(batch_size=2, capture=capture):
                found.append(content(training(other, rng)))
            found.append(content(ndd.cast(item[1], dtype=ndd.float32)))
        return found, str(rng.state)

    assert loop(True) == loop(False)


def test_K4_a_later_epoch_may_run_in_another_thread(files):
    def loop(capture):
        reader, rng, found = ndd.readers.File(files=files), ndd.random.RNG(1), []

        def epoch():
            for item in reader.next_epoch(batch_size=4, capture=capture):
                found.append(content(training(item, rng)))

        epoch()
        thread = threading.Thread(target=epoch)
        thread.start()
        thread.join(60)
        epoch()
        return found

    assert loop(True) == loop(False)


# --- K5


def test_K5_other_sources_feed_the_loop(files):
    def loop(capture):
        reader, rng, found = ndd.readers.File(files=files), ndd.random.RNG(1), []
        feeder = ndd.ExternalSource(np.arange(5) * 30.0)
        with pytest.raises(StopIteration):
            for _ in range(4):
                for item in reader.next_epoch(batch_size=4, capture=capture):
                    pictures = ndd.resize(ndd.decoders.image(item[0]), size=[8, 8])
                    found.append(content([ndd.rotate(pictures, angle=feeder(batch_size=4)), ndd.random.coin_flip(batch_size=4, rng=rng)]))
        return found

    assert len(loop(True)) == 5
    assert loop(True) == loop(False)


def test_sources_in_the_body_may_be_called_at_any_time(files):
    """Twice in a step, first in a later step, not in each step, in two loops, and behind a loop that was left: no item is lost."""

    def loop(capture):
        first, second, found = ndd.ExternalSource(range(1000)), ndd.ExternalSource(range(1000)), []
        for stop in (2, 9):
            reader = ndd.readers.File(files=files)
            for step, item in enumerate(reader.next_epoch(batch_size=3, capture=capture)):
                padded = ndd.pad(item[0])
                values = [first(batch_size=3), first(batch_size=3)] + ([second(batch_size=3)] if step % 3 == 1 else [])
                found.append(content([ndd.pad(padded, fill_value=1), *(ndd.cast(value, dtype=ndd.float32) for value in values)]))
                if step == stop:
                    break
        return found, first().item(), second().item()

    assert loop(True) == loop(False)


# --- K6


def test_K6_leaving_early_loses_nothing(files):
    def loop(capture):
        reader, rng, found = ndd.readers.File(files=files, enable_checkpointing=True), ndd.random.RNG(1), []
        for stop in (2, 1, 3):
            for k, item in enumerate(reader.next_epoch(batch_size=3, capture=capture)):
                found.append(content(training(item, rng)))
                if k + 1 == stop:
                    break
        return found, str(rng.state), reader.get_state()

    assert loop(True) == loop(False)
    source, found = ndd.ExternalSource(range(20)), []
    for stop in (1, 3, 2):
        for k, item in enumerate(source.captured(2)):
            found.append(ndd.cast(item, dtype=ndd.int32).tensors[0].item())
            if k + 1 == stop:
                break
    assert found == list(range(6))
    assert source().item() == 6


def test_K6_a_second_loop_is_recorded_again(files):
    reader, rng = ndd.readers.File(files=files), ndd.random.RNG(1)
    before = 0
    for _ in range(3):
        for item in reader.next_epoch(batch_size=3, capture=True):
            training(item, rng)
        assert reader.captured_calls > before
        before = reader.captured_calls


# --- K7


def test_K7_an_error_is_raised_at_the_call_and_the_loop_continues(files, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no picture")
    names = [*files[:5], str(bad), *files[6:]]

    def loop(capture):
        reader, rng, found = ndd.readers.File(files=names), ndd.random.RNG(1), []
        for _ in range(2):
            for item in reader.next_epoch(batch_size=2, capture=capture):
                try:
                    pictures = ndd.decoders.image(item[0])
                except RuntimeError as error:
                    assert "bad.png" in str(error)
                    found.append("error")
                    continue
                small = ndd.resize(pictures, size=[8, 8])
                found.append(content(ndd.noise.gaussian(small, stddev=3.0, rng=rng)))
        return found, str(rng.state)

    captured = loop(True)
    assert captured[0].count("error") == 2
    assert captured == loop(False)


def test_K7_an_item_that_cannot_be_read_is_an_error_of_its_step(files, tmp_path):
    names = []
    for k in range(8):
        (tmp_path / f"{k}").write_bytes(bytes([k]))
        names.append(str(tmp_path / f"{k}"))
    reader = ndd.readers.File(files=names)
    (tmp_path / "4").unlink()
    items = reader.next_epoch(batch_size=2, capture=True)
    found = []
    for _ in range(2):
        found.append(np.asarray(next(items)[1].tensors[0]).item())
    with pytest.raises(OSError, match=r"/4\b"):
        next(items)
    found += [np.asarray(item[1].tensors[0]).item() for item in items]
    assert found == [0, 2, 6]


# --- K8


def test_K8_marked_values_are_the_values():
    for value in ([1, 2], (3,), np.arange(3), None, 2.5, ndd.tensor(3)):
        marked = ndd.capture.invariant(value)
        assert isinstance(marked, type(value))
        assert ndd.capture.invariant(marked) is marked
    array = ndd.capture.invariant(np.arange(3))
    assert (array + 1).tolist() == [1, 2, 3] and array.shape == (3,) and list(array) == [0, 1, 2]
    np.testing.assert_array_equal(ndd.cast(array, dtype=ndd.float32), [0.0, 1.0, 2.0])
    assert ndd.as_tensor(array).shape == (3,)


# --- the machinery


def test_calls_of_a_step_are_one_graph(files, monkeypatch):
    """Batches that only calls of the step read get no memory of their own, and the graph is built once for each of two steps at a time."""
    builds, runs = [], []
    build, work = fused.FusedProgram.__init__, fused.FusedProgram.run
    monkeypatch.setattr(fused.FusedProgram, "__init__", lambda self, *given: builds.append(given) or build(self, *given))
    monkeypatch.setattr(fused.FusedProgram, "run", lambda self, *given: runs.append(work(self, *given)) or runs[-1])
    assert_equal_loops(files, training, least=5 * 2, epochs=4)
    assert len(builds) == 2 and len(runs) >= 4
    assert all([call.wanted for call in given[0]] == [False, False, False, True] for given in builds)
    assert all([made.have_contents for made in step] == [False, False, False, True] for step in runs)


def test_reading_labels_does_not_compute_calls_of_the_pictures(files, monkeypatch):
    """Labels and encoded pictures are outputs of one read. The pictures' calls wait for contents of their own input only."""
    alone, work = [], bricks.Brick.run
    monkeypatch.setattr(bricks.Brick, "run", lambda self, *given: alone.append(self.schema.name) or work(self, *given))

    def body(item, rng):
        made = training(item, rng)
        np.asarray(ndd.as_tensor(item[1]))
        return made

    run(files * 4, body, True, epochs=1)
    assert alone.count("resize") == alone.count("decoders.image_random_crop") <= 2  # the steps before there is a prediction


def test_a_step_keeps_no_results_that_the_program_drops(files):
    """A step may have thousands of calls, and an iterator that is not finished stays in its step."""
    reader, alive = ndd.readers.File(files=files), []
    steps = reader.next_epoch(batch_size=4, capture=True)
    for number, item in enumerate(steps):
        for k in range(20):
            made = ndd.resize(ndd.decoders.image(item[0]), size=[8 + k, 8])
            work = made._work
            alive.append(weakref.ref(work))
            made.evaluate()
            assert np.asarray(made.tensors[0]).shape == (8 + k, 8, 3)
            del made, work
        gc.collect()
        assert sum(ref() is not None for ref in alive[20 * number :]) <= 1


def in_a_thread(function):
    """The result of a function that must not wait for itself."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(120)
    assert found, "the loop waits for itself, or has failed"
    return found[0]


def test_arithmetic_between_calls_makes_two_graphs(files):
    """A graph that needs a result of a lone call, which needs a result of the graph, could never begin."""

    def body(item, rng):
        small = ndd.resize(ndd.decoders.image(item[0]), size=[8, 8])
        more = ndd.cast(small * 2 + 1, dtype=ndd.uint8)
        both = ndd.cat(small, ndd.flip(more, vertical=1), axis=0)
        return [both, ndd.reductions.mean(both, axes=[0])]

    plain = run(files, body, False)[:2]
    captured = in_a_thread(lambda: run(files, body, True))
    assert captured[:2] == plain
    assert captured[2].captured_calls == 4 * 8  # all steps but the first two


def test_items_of_another_size_are_not_given_to_a_graph_for_this_one(files, monkeypatch):
    sizes, work = set(), fused.FusedProgram.run

    def watched(self, given, positions):
        sizes.update(len(samples) for samples in given)
        return work(self, given, positions)

    def loop(capture):
        reader, rng, found = ndd.readers.File(files=files[:9]), ndd.random.RNG(1), []
        for _ in range(4):
            for item in reader.next_epoch(batch_size=2, capture=capture, last_batch="partial"):
                found.append(content(training(item, rng)))
        return found, str(rng.state)

    monkeypatch.setattr(fused.FusedProgram, "run", watched)
    assert loop(True) == loop(False)
    assert sizes == {2}


def test_loops_end_with_their_iterators(files):
    def body(reader):
        for item in reader.next_epoch(batch_size=3, capture=True):
            ndd.decoders.image(item[0])
            assert loops.current_loop() is not None
            break

    body(ndd.readers.File(files=files))
    gc.collect()
    assert loops.current_loop() is None
    before = threading.active_count()
    for _ in range(5):
        body(ndd.readers.File(files=files))
    gc.collect()
    end_of_threads()
    assert threading.active_count() <= before


def test_shapes_are_known_without_a_copy_of_the_work(files):
    """Asking for shapes and types does not keep a value from being computed ahead."""

    def body(item, rng):
        pictures = ndd.decoders.image(item[0])
        assert all(shape[2] == 3 for shape in pictures.shape)
        assert (pictures.dtype, pictures.layout, pictures.ndim, pictures.batch_size) == (ndd.uint8, "HWC", 3, 4)
        return [ndd.resize(pictures, size=[8, 8])]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_equal_loops(files, body, least=2 * 2)


# --- what operators know of their neighbours


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Eight JPEGs."""
    root = tmp_path_factory.mktemp("photographs")
    for k in range(8):
        picture = Image.fromarray(np.random.default_rng(k).integers(0, 256, (40 + k, 60 - k, 3), np.uint8))
        picture.save(root / f"{k}.jpg")
    return [str(root / f"{k}.jpg") for k in range(8)]


def test_a_reader_scans_the_heads_of_files_for_the_decoder_of_a_loop(photographs, monkeypatch):
    scanned = []
    original = jpeg_kernels.read_headers
    monkeypatch.setattr(jpeg_kernels, "read_headers", lambda *given: scanned.append(1) or original(*given))
    _, _, reader = run(photographs, training, True, epochs=6)
    assert reader.captured_calls >= 10 * 2
    assert 1 <= len(scanned) <= 4  # of twelve steps those that began before the loop had recorded two


def test_bytes_that_the_program_has_changed_are_scanned_again(photographs):
    small = min((np.fromfile(path, np.uint8) for path in photographs), key=len)

    def body(item, rng):
        files, _ = item
        ndd.decoders.image(files)  # computed ahead, so the reader scans
        for file in files.tensors:
            np.asarray(file)[: len(small)] = small
        return ndd.decoders.image(files)

    steps = run(photographs, body, True, epochs=4, size=2)[0]
    picture = content(ndd.decoders.image(ndd.as_tensor(small)))
    assert steps == [2 * picture] * 16


def test_a_decoder_of_a_loop_feeds_the_resize_behind_it(photographs, monkeypatch):
    made = []
    build = fused.FusedProgram._build
    monkeypatch.setattr(fused.FusedProgram, "_build", lambda self: made.append(self) or build(self))
    run(photographs, training, True, epochs=3)
    feeding = [built.operator.neighbours.feeds for program in made for segment in program._graph._segments for built in segment.operators]
    assert any(feeding)


def test_steps_that_are_alike_share_their_graphs(files, monkeypatch):
    planned = []
    graphs_of = captures._graphs_of
    monkeypatch.setattr(captures, "_graphs_of", lambda *given: planned.append(1) or graphs_of(*given))
    assert_equal_loops(files, training, epochs=20)
    assert 1 <= len(planned) <= 4


@pytest.mark.parametrize("threads", [1, 3])
def test_the_threads_of_the_context_compute_the_pixels_of_a_loop(photographs, monkeypatch, threads):
    """Threads that compute ahead only plan, as a pipeline's stage thread does."""
    jobs = []
    finish = call_placement._finish

    def noted(job, helpers, state, most=None):
        jobs.append((job.is_pixels, helpers.count, state))
        finish(job, helpers, state, most)

    monkeypatch.setattr(call_placement, "_finish", noted)
    with ndd.EvalContext(num_threads=threads):
        run(photographs, training, True, epochs=3)
    end_of_threads()
    pixels = [job for job in jobs if job[0]]
    assert pixels and all(job == (True, threads, None) for job in pixels)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["reader", "source"])
def test_a_child_that_is_forked_in_the_body_computes_with_threads_of_its_own(photographs, kind):
    arrays = [np.fromfile(path, np.uint8) for path in photographs]
    if kind == "reader":
        items = (item[0] for _ in range(9) for item in ndd.readers.File(files=photographs).next_epoch(batch_size=2, capture=True))
    else:
        batches = (ndd.batch(arrays[2 * k % 8 : 2 * k % 8 + 2]) for k in range(99))
        items = iter(ndd.ExternalSource(batches).captured(2))

    def body(encoded):
        return content(ndd.resize(ndd.decoders.image(encoded), size=[50, 50]))

    for _ in range(5):
        body(next(items))
    item = next(items)
    loop = loops.current_loop()
    while loop._lanes:  # no thread holds a lock that the child would wait for
        lane = loop._lanes.pop()
        lane.close()
        assert lane.join(60)
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(60)
            found = [body(item), *(body(next(items)) for _ in range(6))]
            expected = [body(ndd.batch(arrays[2 * k % 8 : 2 * k % 8 + 2])) for k in range(5, 12)]
            status = 0 if found == expected else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    body(item)
