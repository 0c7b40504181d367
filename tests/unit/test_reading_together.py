"""Files of several iterations of a GPU pipeline are read together: the same batches, errors and positions as one by one."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, use
from PIL import Image

from asyncdali import fn, pipeline_def
from asyncdali.errors import PipelineClosed
from asyncdali.readers.files import contents

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


class Reads(list[int]):
    """The numbers of files that were read at a time. Nothing is read before `begin` is set."""

    def __init__(self) -> None:
        self.begin = threading.Event()
        self.begin.set()


@pytest.fixture
def reads(monkeypatch):
    noted, whole_files = Reads(), contents.whole_files

    def note(texts, *given):
        assert noted.begin.wait(300)
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


def run(paths, iterations: int, depth: int, reads: Reads | None = None, **options) -> list[list[list[np.ndarray]]]:
    """With `reads`, all iterations that fit into the queue are due before the first file is read."""
    with graph(paths, prefetch_queue_depth=depth, **options) as pipe:
        if reads is not None:
            reads.begin.clear()
        pipe.schedule_run()
        if reads is not None:
            reads.begin.set()
        found = []
        for _ in range(iterations):
            pipe.schedule_run()
            found.append(shown(pipe.outputs()))
        return found


def test_batches_are_those_of_single_reads(paths, reads):
    """Epochs end inside of what is read together, and some batches have files of another kind."""
    expected = run(paths, 24, 2, reads)
    assert set(reads) == {BATCH}
    reads.clear()
    same(run(paths, 24, 6, reads), expected)
    assert reads[:2] == [BATCH, 3 * BATCH]  # the size of the first files is unknown


@pytest.mark.parametrize(("depth", "most"), [(4, 1), (5, 2), (8, 3)])
def test_enough_iterations_stay_in_progress(paths, reads, depth, most):
    run(paths, 12, depth, reads)
    assert max(reads) == 3 * BATCH if most > 1 else BATCH
    with graph(paths, prefetch_queue_depth=depth) as pipe:
        pipe.build()
        assert pipe._core.session.executor.admission.together == most


def test_large_batches_are_read_one_by_one(paths, reads, monkeypatch):
    monkeypatch.setattr(contents, "_MOST_BYTES_TOGETHER", 100)
    run(paths, 12, 6, reads)
    assert set(reads) == {BATCH}


def test_an_error_belongs_to_its_iteration(paths, reads, tmp_path):
    """Other batches that would have been read together with a missing file arrive."""
    expected = run(paths, 16, 2)
    (tmp_path / "07.img").rename(tmp_path / "gone")
    reads.clear()
    reads.begin.clear()
    found = []
    with graph(paths, prefetch_queue_depth=6) as pipe:
        pipe.schedule_run()
        reads.begin.set()
        for _ in range(16):
            pipe.schedule_run()
            try:
                found.append(shown(pipe.outputs()))
            except RuntimeError as error:
                assert "07.img" in str(error)
                found.append(None)
    gone = np.frombuffer((tmp_path / "gone").read_bytes(), np.uint8)
    assert found.count(None) == sum(any(np.array_equal(file, gone) for file in batch[1]) for batch in expected) > 1
    assert 3 * BATCH in reads
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
    """Queued iterations wait for later ones only while others are in progress."""
    expected = run(paths, 12, 2)
    with graph(paths, prefetch_queue_depth=6) as pipe:
        found = []
        for queued in (6, 1, 5):
            for _ in range(queued):
                pipe.schedule_run()
            while not pipe.empty():
                found.append(shown(pipe.outputs()))
    same(found[:12], expected)


def test_closing_while_iterations_wait_to_be_admitted(paths, reads, monkeypatch):
    """A caller that waits for an iteration gets an error."""
    pipe = graph(paths, prefetch_queue_depth=6)
    pipe.run()
    executor = pipe._core.session.executor
    admission = executor.admission
    monkeypatch.setattr(admission, "_least", -1)
    monkeypatch.setattr(admission, "together", 100)
    record = executor.new_record(admission._admitted + len(admission._queued), BATCH)
    executor.submit(record)
    assert admission.unfinished()[-1] is record and not record.finished
    pipe.close()
    record.wait()
    assert isinstance(record.error, PipelineClosed)
