"""Loops of mode `eager` whose bodies have long calls are computed ahead. Results, errors and states are those of `sync_cpu`."""

from __future__ import annotations

import gc
import os
import signal
import threading

import numpy as np
import pytest
from helpers.images import encode, picture
from helpers.interrupted_places import PlacedInterrupts

import asyncdali.dynamic as ndd
from asyncdali import types
from asyncdali.imperative import bricks, captures, loops

DECODERS = {
    "image": lambda x, rng: ndd.decoders.image(x),
    "image, gray": lambda x, rng: ndd.decoders.image(x, output_type=types.GRAY),
    "image_crop": lambda x, rng: ndd.decoders.image_crop(x, crop=(20, 24)),
    "image_random_crop": lambda x, rng: ndd.decoders.image_random_crop(x, rng=rng),
    "image_slice": lambda x, rng: ndd.decoders.image_slice(x, start=[3, 4], shape=[20, 19], axes=[0, 1]),
}
READERS = {
    "resize": lambda x, rng: ndd.resize(x, size=[17, 13]),
    "resize by data": lambda x, rng: ndd.resize(x, resize_x=ndd.random.uniform(range=[9, 20], batch_size=x.batch_size, rng=rng)),
    "crop": lambda x, rng: ndd.crop(x, crop=(11, 12), out_of_bounds_policy="pad"),
    "slice": lambda x, rng: ndd.slice(x, start=[2, 1], shape=[9, 8], axes=[0, 1], out_of_bounds_policy="pad"),
}


@pytest.fixture
def files(tmp_path):
    names = []
    for k in range(24):
        kind = "PNG" if k % 4 == 3 else "JPEG"
        (tmp_path / f"{k}.{kind}").write_bytes(encode(picture(30 + k, 60 - k, seed=k), kind))
        names.append(str(tmp_path / f"{k}.{kind}"))
    return names


@pytest.fixture
def long(monkeypatch):
    """All work counts as long."""
    monkeypatch.setattr(bricks, "_LONG_NS", -1)


def steps(files, body, size=4, epochs=2, **options):
    """The results of some epochs, the state of the generator, and the number of calls that were computed ahead."""
    reader, rng = ndd.readers.File(files=files, random_shuffle=True, seed=3), ndd.random.RNG(5)
    made = [body(encoded, rng) for _ in range(epochs) for encoded, _ in reader.next_epoch(batch_size=size, **options)]
    return [[np.array(sample) for value in step for sample in value] for step in made], str(rng.state), reader.captured_calls


def same(files, body, **options):
    """Compare a loop with mode `sync_cpu`. Returns the number of calls that were computed ahead."""
    with ndd.EvalContext(num_threads=3):
        found, state, served = steps(files, body, **options)
    with ndd.EvalContext(num_threads=1), ndd.EvalMode.sync_cpu:
        expected, expected_state, none = steps(files, body, **options)
    assert state == expected_state and none == 0
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)
    return served


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_results_are_equal(files, long, decoder, reader):
    """The first step shows that calls are long, two more that steps are alike. So the fifth of twelve is computed ahead."""
    calls = 3 if reader == "resize by data" else 2
    assert same(files, lambda x, rng: [READERS[reader](DECODERS[decoder](x, rng), rng)], last_batch="partial") >= 6 * calls


def test_results_of_several_uses_and_of_bytes_that_were_written(files, long):
    def several(encoded, rng):
        pictures = ndd.decoders.image(encoded)
        return [ndd.resize(pictures, size=[9, 9]), ndd.crop(pictures, crop=(8, 8)), pictures, ndd.flip(pictures), pictures + 1]

    def written(encoded, rng):
        pictures = ndd.decoders.image(encoded)
        for sample in encoded:
            np.asarray(sample)[...] = 0
        return [ndd.resize(pictures, size=[9, 9])]

    def looked_at(encoded, rng):
        pictures = ndd.decoders.image_random_crop(encoded, rng=rng)
        assert pictures.layout == "HWC" and pictures.dtype is ndd.uint8 and pictures.batch_size == 4
        assert min(pictures.shape)[2] == 3
        return [ndd.resize(pictures, size=[9, 9])]

    for body in (several, written, looked_at):
        assert same(files, body) > 0


def test_short_bodies_single_samples_and_other_modes_are_not_computed_ahead(files, monkeypatch):
    body = lambda x, rng: [ndd.resize(ndd.decoders.image(x), size=[5, 5])]  # noqa: E731
    monkeypatch.setattr(bricks, "_LONG_NS", 1 << 60)
    assert steps(files, body)[2] == 0
    monkeypatch.setattr(bricks, "_LONG_NS", -1)
    reader = ndd.readers.File(files=files)
    for encoded, _ in reader.next_epoch():
        ndd.resize(ndd.decoders.image(encoded), size=[5, 5])
    assert reader.captured_calls == 0
    for mode in (ndd.EvalMode.sync_cpu, ndd.EvalMode.sync_full, ndd.EvalMode.deferred):
        with mode:
            assert steps(files, body)[2] == 0

        def inside(x, rng, mode=mode):
            with mode:
                return body(x, rng)

        assert steps(files, inside)[2] == 0


def test_calls_in_another_mode_inside_of_a_loop_are_not_computed_ahead(files, long):
    def body(mode):
        def called(encoded, rng):
            small = ndd.resize(ndd.decoders.image(encoded), size=[8, 8])
            with mode:
                return [small, small + 1, ndd.flip(small)]

        return called

    served = {mode: same(files, body(mode)) for mode in (ndd.EvalMode.eager, ndd.EvalMode.sync_cpu)}
    assert served[ndd.EvalMode.eager] == 2 * served[ndd.EvalMode.sync_cpu] > 0


def test_files_are_read_ahead_only_while_steps_are_alike(files, long, tmp_path):
    """Each step calls another operator, so the files that the program changes between the steps are those that are read."""
    names = [str(tmp_path / f"{k}") for k in range(12)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    reader = ndd.readers.File(files=names)
    for number, (encoded, _) in enumerate(reader.next_epoch(batch_size=1)):
        assert encoded.shape == [(number + 1,)]
        ndd.cast(encoded, dtype=(ndd.float32, ndd.int16)[number % 2])
        if number < 11:
            (tmp_path / names[number + 1]).write_bytes(b"x" * (number + 2))
    assert reader.captured_calls == 0


def test_loops_with_work_in_vain_stop(files, long, monkeypatch):
    """Pairs of steps are alike, and every prediction of a second step is for another operator."""
    ahead = []
    compute_ahead = captures.CapturedLoop._compute_ahead
    monkeypatch.setattr(captures.CapturedLoop, "_compute_ahead", lambda self, *args: ahead.append(1) or compute_ahead(self, *args))
    number = 0

    def body(encoded, rng):
        nonlocal number
        number += 1
        return [ndd.cast(encoded, dtype=(ndd.float32, ndd.int16)[number // 2 % 2])]

    steps(files, body, size=1, epochs=2)
    assert number == 48
    assert 3 <= len(ahead) <= 8


@pytest.mark.parametrize("capture", [False, True])
def test_operators_that_read_or_write_files_are_called_at_the_call(files, long, tmp_path, monkeypatch, capture):
    monkeypatch.chdir(tmp_path)
    path = np.frombuffer(str(tmp_path / "x").encode(), np.uint8)
    found, written = [], []
    for number, (encoded, _) in enumerate(ndd.readers.File(files=files).next_epoch(batch_size=3, capture=capture)):
        (tmp_path / "x").write_bytes(bytes([number]))
        found.append(int(np.asarray(ndd.io.file.read(path))[0]))
        ndd.dump_image(ndd.resize(ndd.decoders.image(encoded), size=[1, 1 + number]))
        written.append((tmp_path / "0--0.ppm").read_text().split()[1])
    assert found == list(range(8))
    assert written == [str(1 + number) for number in range(8)]


def test_errors_name_the_call_and_the_sample_and_the_loop_continues(files, long):
    with open(files[13], "r+b") as file:
        file.truncate(60)
    reader, failures, good = ndd.readers.File(files=files), [], 0
    for encoded, _ in reader.next_epoch(batch_size=2):
        try:
            pictures = ndd.decoders.image(encoded)
            good += ndd.resize(pictures, size=[5, 5]).batch_size
        except RuntimeError as error:
            failures.append(error)
            assert len(np.asarray(encoded.tensors[1])) == 60
    assert good == 22 and reader.captured_calls >= 2 * 4
    (error,) = failures
    assert "ndd.decoders.image, sample 1" in str(error)
    assert files[13] in str(error)


def test_an_error_of_a_later_call_is_its_own(files, long):
    reader = ndd.readers.File(files=files)
    for encoded, _ in reader.next_epoch(batch_size=2):
        pictures = ndd.decoders.image(encoded)
        with pytest.raises(RuntimeError, match="ndd.crop"):
            ndd.crop(pictures, crop=(100, 100))
        assert len(pictures.shape) == 2


def test_leaving_a_loop_ends_its_threads_and_loses_nothing(files, long):
    reader, before = ndd.readers.File(files=files), threading.active_count()
    seen = []
    for _ in range(3):
        for encoded, labels in reader.next_epoch(batch_size=2, last_batch="partial"):
            ndd.resize(ndd.decoders.image(encoded), size=[5, 5])
            seen += np.asarray(ndd.as_tensor(labels)).ravel().tolist()
            if len(seen) % 14 == 0:
                break
    del encoded, labels
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("asyncdali-capture"):
            thread.join(30)
    assert threading.active_count() <= before
    assert loops.current_loop() is None
    assert seen == [*range(24), *range(4)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_continues_the_loop(files, long):
    items = ndd.readers.File(files=files).next_epoch(batch_size=2)

    def step():
        encoded, labels = next(items)
        with ndd.EvalContext(num_threads=2):
            assert ndd.resize(ndd.decoders.image(encoded), size=[5, 5]).batch_size == 2
        return np.asarray(ndd.as_tensor(labels)).ravel().tolist()

    for _ in range(6):
        step()
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(60)
            status = 0 if [step() for _ in range(6)] == [[2 * k, 2 * k + 1] for k in range(6, 12)] else 1
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert [step() for _ in range(6)] == [[2 * k, 2 * k + 1] for k in range(6, 12)]


def test_an_interrupt_at_chosen_places_loses_nothing(files, long):
    with ndd.EvalMode.sync_cpu:
        expected = steps(files, lambda x, rng: [ndd.resize(ndd.decoders.image_random_crop(x, rng=rng), size=[9, 9])], size=6, epochs=9)[0]
    handler, rng = signal.getsignal(signal.SIGINT), ndd.random.RNG(5)
    reader = ndd.readers.File(files=files, random_shuffle=True, seed=3)
    items, found, kept = [reader.next_epoch(batch_size=6)], [], []

    def step():
        while not kept:
            try:
                kept.append(next(items[0]))
            except StopIteration:
                items[0] = reader.next_epoch(batch_size=6)
        state = rng.state
        try:
            made = ndd.resize(ndd.decoders.image_random_crop(kept[0][0], rng=rng), size=[9, 9])
        except KeyboardInterrupt:
            rng.state = state
            raise
        found.append([np.array(sample) for sample in made])
        kept.clear()

    gc.disable()
    try:
        with ndd.EvalContext(num_threads=3):
            for _ in range(8):
                step()
            came = 0
            for function in (captures.CapturedLoop.begin, captures.CapturedLoop.call):
                interrupts = PlacedInterrupts(function)
                for place in interrupts.chosen(step, 6):
                    try:
                        interrupts.at(place, step)
                    except KeyboardInterrupt:
                        came += 1
                        step()
        assert came > 3
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, handler)
    for one, other in zip(found, expected, strict=False):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


def test_eight_threads_with_loops_of_their_own(files, long):
    failures, results = [], []

    def work():
        try:
            results.append(steps(files, lambda x, rng: [ndd.resize(ndd.decoders.image_random_crop(x, rng=rng), size=[9, 9])])[:2])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert len(results) == 8
    for made, state in results[1:]:
        assert state == results[0][1]
        for one, other in zip(made, results[0][0], strict=True):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_array_equal(left, right)


def test_one_iterator_in_several_threads(files, long):
    """Steps belong to the thread that asks. A loop that changes its thread is computed at the call."""
    items = ndd.readers.File(files=files * 4).next_epoch(batch_size=2)
    lock, seen, failures = threading.Lock(), [], []

    def work():
        try:
            while True:
                with lock:
                    item = next(items, None)
                if item is None:
                    return
                made = ndd.resize(ndd.decoders.image(item[0]), size=[5, 5])
                seen.append((np.asarray(ndd.as_tensor(item[1])).ravel()[0], np.array(ndd.as_tensor(made))))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    with ndd.EvalMode.sync_cpu:
        expected = [
            (np.asarray(ndd.as_tensor(labels)).ravel()[0], np.array(ndd.as_tensor(ndd.resize(ndd.decoders.image(encoded), size=[5, 5]))))
            for encoded, labels in ndd.readers.File(files=files * 4).next_epoch(batch_size=2)
        ]
    assert len(seen) == len(expected) == 48
    for (label, made), (other, wanted) in zip(sorted(seen, key=lambda one: one[0]), expected, strict=True):
        assert label == other
        np.testing.assert_array_equal(made, wanted)
