"""Files of several iterations of a GPU pipeline are read together: the same batches, errors and positions as one by one."""

from __future__ import annotations

import io

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, use
from PIL import Image

from asyncdali import fn, pipeline_def
from asyncdali.readers.files import contents
from asyncdali.runtime.order.placement import OnCaller

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")

BATCH = 4


@pytest.fixture(autouse=True)
def cuda(monkeypatch):
    driver = StandIn()
    use(driver, monkeypatch)
    return driver


def encoded(seed: int, kind: str = "JPEG") -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).resize((40 + seed % 7, 30 + seed % 5)).save(out, kind)
    return out.getvalue()


@pytest.fixture
def paths(tmp_path):
    """Thirty pictures; two of them are no JPEGs, so their batch is not of the usual kind."""
    for k in range(30):
        (tmp_path / f"{k:02}.img").write_bytes(encoded(k, "PNG" if k in (13, 22) else "JPEG"))
    return sorted(map(str, tmp_path.iterdir()))


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, seed=5, enable_checkpointing=True)
def graph(paths):
    files, labels = fn.readers.file(files=paths, random_shuffle=True, initial_fill=8, name="Reader")
    return fn.decoders.image(files, device="mixed"), files, labels


@pytest.fixture
def reads(monkeypatch):
    """The numbers of files that were read at a time."""
    noted, whole_files = [], contents.whole_files

    def note(texts, *given):
        noted.append(len(texts.starts))
        return (yield from whole_files(texts, *given))

    monkeypatch.setattr(contents, "whole_files", note)
    return noted


def shown(outputs) -> list[list[np.ndarray]]:
    return [[np.array(batch[k]) for k in range(len(batch))] for batch in (outputs[0].as_cpu(), *outputs[1:])]


def same(made, expected) -> None:
    for ours, theirs in zip(made, expected, strict=True):
        for batch, other in zip(ours, theirs, strict=True):
            for one, two in zip(batch, other, strict=True):
                np.testing.assert_array_equal(one, two)


def run(paths, iterations: int, depth: int, **options) -> list[list[list[np.ndarray]]]:
    with graph(paths, prefetch_queue_depth=depth, **options) as pipe:
        return [shown(pipe.run()) for _ in range(iterations)]


def test_batches_are_those_of_single_reads(paths, reads):
    """Epochs end inside of what is read together, and some batches have files of another kind."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(contents, "_MOST_BYTES_TOGETHER", 1)
        expected = run(paths, 24, 2)
    assert set(reads) == {BATCH}
    for depth in (2, 6):
        reads.clear()
        same(run(paths, 24, depth), expected)
        assert reads[:2] == [BATCH, 6 * BATCH] and set(reads[2:]) == {6 * BATCH}  # the size of the first files is unknown


def test_a_smaller_batch_reads_its_own_files(paths, reads):
    """The samples that were read for later batches are others than those behind a smaller batch."""

    def sizes():
        yield from (np.zeros((size, 1), np.float32) for size in (BATCH, BATCH, BATCH - 1, BATCH, BATCH, BATCH - 2, BATCH))

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, seed=5, prefetch_queue_depth=2)
    def fed():
        files, _ = fn.readers.file(files=paths, random_shuffle=True, initial_fill=8, name="Reader")
        return fn.decoders.image(files, device="mixed"), files, fn.external_source(sizes, batch=True)

    def result():
        with fed() as pipe:
            return [shown(pipe.run()[:2]) for _ in range(7)]

    found = result()
    assert 6 * BATCH in reads
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(contents, "_MOST_BYTES_TOGETHER", 1)
        same(found, result())


def test_large_batches_are_read_one_by_one(paths, reads, monkeypatch):
    monkeypatch.setattr(contents, "_MOST_BYTES_TOGETHER", 100)
    run(paths, 12, 6)
    assert set(reads) == {BATCH}


def test_an_error_belongs_to_its_iteration(paths, reads, tmp_path):
    """Other batches that would have been read together with a missing file arrive."""
    expected = run(paths, 16, 2)
    (tmp_path / "07.img").rename(tmp_path / "gone")
    reads.clear()
    found = []
    with graph(paths, prefetch_queue_depth=6) as pipe:
        for _ in range(16):
            try:
                found.append(shown(pipe.run()))
            except RuntimeError as error:
                assert "07.img" in str(error)
                found.append(None)
    gone = np.frombuffer((tmp_path / "gone").read_bytes(), np.uint8)
    assert found.count(None) == sum(any(np.array_equal(file, gone) for file in batch[1]) for batch in expected) > 1
    assert 6 * BATCH in reads
    same([batch for batch in found if batch is not None], [b for a, b in zip(found, expected, strict=True) if a is not None])


def test_a_checkpoint_between_iterations_that_are_read_together(paths):
    expected = run(paths, 16, 2)
    for done in (7, 8, 9):
        with graph(paths, prefetch_queue_depth=6) as pipe:
            for _ in range(done):
                pipe.run()
            saved = pipe.checkpoint()
        same(run(paths, 16 - done, 6, checkpoint=saved), expected[done:])


def test_a_caller_that_queues_nothing_more_gets_all_iterations(paths):
    expected = run(paths, 12, 2)
    with graph(paths, prefetch_queue_depth=6) as pipe:
        found = []
        for queued in (6, 1, 5):
            for _ in range(queued):
                pipe.schedule_run()
            while not pipe.empty():
                found.append(shown(pipe.outputs()))
    same(found[:12], expected)


def test_the_caller_wakes_no_thread_for_an_iteration(paths):
    """Its call has the interpreter; another thread would wait for it beside a thread that runs pure Python."""
    with graph(paths, prefetch_queue_depth=2) as pipe:
        pipe.run()
        session = pipe._core.session
        woken = []
        session.executor.stages.cpu.submit = woken.append
        for _ in range(12):
            pipe.run()
        assert isinstance(session.executor.placement, OnCaller) and not woken
