"""Decoders whose pictures are computed together with their reader: results, errors and states are those of mode `sync_cpu`."""

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
from asyncdali.imperative import bricks, calls, pair_graphs

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
    for k in range(10):
        kind = "PNG" if k % 4 == 3 else "JPEG"
        (tmp_path / f"{k}.{kind}").write_bytes(encode(picture(30 + k, 40 - k, seed=k), kind))
        names.append(str(tmp_path / f"{k}.{kind}"))
    return names


@pytest.fixture
def taken(monkeypatch):
    """Calls that computed their decoder, too. All work counts as long."""
    monkeypatch.setattr(bricks, "_LONG_NS", -1)
    found = []
    together = calls.together

    def counted(brick, *args):
        made = together(brick, *args)
        if made is not None:
            found.append(brick.schema.name)
        return made

    monkeypatch.setattr(calls, "together", counted)
    return found


def steps(files, body, size=4, **options):
    """The results of two epochs, and the state of the generator."""
    reader, rng = ndd.readers.File(files=files, random_shuffle=True, seed=3), ndd.random.RNG(5)
    made = [body(encoded, rng) for _ in range(2) for encoded, _ in reader.next_epoch(batch_size=size, **options)]
    return [[np.array(sample) for value in step for sample in value] for step in made], str(rng.state)


def same(files, body, **options):
    with ndd.EvalContext(num_threads=3):
        found, state = steps(files, body, **options)
    with ndd.EvalContext(num_threads=1), ndd.EvalMode.sync_cpu:
        expected, expected_state = steps(files, body, **options)
    assert state == expected_state
    for one, other in zip(found, expected, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_results_are_equal(files, taken, decoder, reader):
    same(files, lambda x, rng: [READERS[reader](DECODERS[decoder](x, rng), rng)], last_batch="partial")
    assert len(taken) == 6


def test_pictures_that_are_used_twice_are_decoded_at_the_call(files, taken):
    def body(encoded, rng):
        pictures = ndd.decoders.image(encoded)
        return [ndd.resize(pictures, size=[9, 9]), ndd.crop(pictures, crop=(8, 8)), pictures]

    same(files, body)
    assert taken == ["resize"]


def test_pictures_that_are_looked_at_first(files, taken):
    def body(encoded, rng):
        pictures = ndd.decoders.image_random_crop(encoded, rng=rng)
        assert pictures.layout == "HWC"
        assert pictures.dtype is ndd.uint8
        assert pictures.batch_size == 4
        assert min(pictures.shape)[2] == 3
        return [ndd.resize(pictures, size=[9, 9])]

    same(files, body)
    assert not taken


def test_other_operators_get_decoded_pictures(files, taken):
    same(files, lambda x, rng: [ndd.flip(ndd.decoders.image(x)), ndd.decoders.image(x) + 1])
    assert not taken


def test_bytes_that_the_program_writes_are_decoded_before(files, taken):
    def body(encoded, rng):
        pictures = ndd.decoders.image(encoded)
        for sample in encoded:
            np.asarray(sample)[...] = 0
        return [ndd.resize(pictures, size=[9, 9])]

    same(files, body)
    assert not taken


def test_errors_name_the_decoder_the_sample_and_both_lines(files, taken):
    with open(files[5], "r+b") as file:
        file.truncate(60)
    reader = ndd.readers.File(files=files)
    failures, good = [], 0
    for encoded, _ in reader.next_epoch(batch_size=2):
        try:
            pictures = ndd.decoders.image(encoded)
            small = ndd.resize(pictures, size=[5, 5])
            good += small.batch_size
        except RuntimeError as error:
            failures.append(error)
    assert good == 8
    (error,) = failures
    text = str(error) + "".join(getattr(error, "__notes__", ()))
    assert "ndd.decoders.image, sample 1" in text
    assert files[5] in text
    assert text.count(f"{__file__}:") == 2


def test_bytes_of_a_broken_file_can_be_looked_at(files, taken):
    with open(files[0], "r+b") as file:
        file.truncate(60)
    encoded, _ = next(ndd.readers.File(files=files).next_epoch(batch_size=2))
    pictures = ndd.decoders.image(encoded)
    assert len(np.asarray(encoded.tensors[0])) == 60
    with pytest.raises(RuntimeError, match="ndd.decoders.image"):
        ndd.resize(pictures, size=[5, 5])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_decodes_what_waits(files, taken):
    encoded, _ = next(ndd.readers.File(files=files).next_epoch(batch_size=8))
    with ndd.EvalContext(num_threads=3):
        ndd.resize(ndd.decoders.image(encoded), size=[5, 5])
        pictures = ndd.decoders.image(encoded)
        child = os.fork()
        if not child:
            try:
                signal.alarm(30)
                status = 0 if ndd.resize(pictures, size=[5, 5]).batch_size == 8 and len(pictures.shape) == 8 else 1
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0


def test_an_error_of_the_reader_is_its_own(files, taken):
    for encoded, _ in ndd.readers.File(files=files).next_epoch(batch_size=2):
        pictures = ndd.decoders.image(encoded)
        with pytest.raises(RuntimeError, match="ndd.crop"):
            ndd.crop(pictures, crop=(100, 100))
        assert len(pictures.shape) == 2


def test_errors_of_unread_pictures_are_raised_by_the_context(files, taken):
    with open(files[0], "r+b") as file:
        file.truncate(60)
    items = ndd.readers.File(files=files).next_epoch(batch_size=2)
    with pytest.raises(RuntimeError, match="ndd.decoders.image"), ndd.EvalContext():
        kept = ndd.decoders.image(next(items)[0])
    with ndd.EvalContext():
        kept = ndd.decoders.image(next(items)[0])
        assert ndd.resize(kept, size=[4, 4]).batch_size == 2


def test_modes_and_single_samples_are_computed_at_the_call(files, taken):
    for mode in (ndd.EvalMode.sync_cpu, ndd.EvalMode.sync_full, ndd.EvalMode.deferred):
        with mode:
            for encoded, _ in ndd.readers.File(files=files).next_epoch(batch_size=5):
                assert ndd.resize(ndd.decoders.image(encoded), size=[5, 5]).batch_size == 5
    for encoded, _ in ndd.readers.File(files=files).next_epoch():
        ndd.resize(ndd.decoders.image(encoded), size=[5, 5])
    for encoded, _ in ndd.readers.File(files=files).next_epoch(batch_size=5, capture=True):
        ndd.resize(ndd.decoders.image(encoded), size=[5, 5])
    assert not taken


def test_threads_and_graphs_are_bounded(files, taken, monkeypatch):
    monkeypatch.setattr(pair_graphs, "_MOST", 2)
    with ndd.EvalContext(num_threads=3) as context:
        ndd.rotate(ndd.batch([picture(30, 30, seed=k) for k in range(9)]), angle=3.0)
        before = threading.active_count()
        for size in range(4, 10):
            for encoded, _ in ndd.readers.File(files=files).next_epoch(batch_size=5):
                ndd.resize(ndd.decoders.image(encoded), size=[size, 5])
        assert len(context.engine.graphs) <= 2
        assert threading.active_count() <= before + 2
    assert len(taken) == 12


def test_an_interrupt_at_chosen_places_changes_no_later_result(files, taken):
    (encoded, _), handler = next(ndd.readers.File(files=files).next_epoch(batch_size=6)), signal.getsignal(signal.SIGINT)
    with ndd.EvalMode.sync_cpu:
        expected = [np.array(sample) for sample in ndd.resize(ndd.decoders.image(encoded), size=[9, 9])]
    made = []

    def step():
        made[:] = ndd.resize(ndd.decoders.image(encoded), size=[9, 9])

    gc.disable()
    try:
        with ndd.EvalContext(num_threads=3):
            interrupts, came = PlacedInterrupts(calls._paired), 0
            for place in interrupts.chosen(step, 6):
                try:
                    interrupts.at(place, step)
                except KeyboardInterrupt:
                    came += 1
                    step()
                for one, other in zip(made, expected, strict=True):
                    np.testing.assert_array_equal(np.asarray(one), other)
        assert came > 5
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, handler)


def test_eight_threads(files, taken):
    expected = None
    failures = []

    def work():
        nonlocal expected
        try:
            made = steps(files, lambda x, rng: [ndd.resize(ndd.decoders.image_random_crop(x, rng=rng), size=[9, 9])])
            results.append(made)
        except Exception as error:
            failures.append(error)

    results: list = []
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
