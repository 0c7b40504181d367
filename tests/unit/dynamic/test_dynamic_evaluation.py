"""Rows E of dynamic mode: when calls are computed, their errors, contexts, threads, forks."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali.errors import OperatorError

PICTURE = np.random.default_rng(1).integers(0, 256, (9, 8, 3), np.uint8)
MODES = list(ndd.EvalMode)


def own_picture() -> ndd.Tensor:
    """A tensor in memory of the library, which deferred calls do not read at once."""
    return ndd.copy(ndd.tensor(PICTURE, layout="HWC"))


def test_E1_modes() -> None:
    assert ndd.EvalMode.current() is ndd.EvalMode.eager is ndd.EvalMode.default
    with ndd.EvalMode.deferred as mode:
        assert mode is ndd.EvalMode.current()
        with ndd.EvalMode.sync_cpu:
            assert ndd.EvalMode.current() is ndd.EvalMode.sync_cpu
            seen: list[ndd.EvalMode] = []
            thread = threading.Thread(target=lambda: seen.append(ndd.EvalMode.current()))
            thread.start()
            thread.join(30)
            assert seen == [ndd.EvalMode.eager]
        assert ndd.EvalMode.current() is ndd.EvalMode.deferred
    assert ndd.EvalMode.current() is ndd.EvalMode.eager
    assert [mode.name for mode in MODES] == ["deferred", "eager", "sync_cpu", "sync_full"]


def test_modes_have_an_order() -> None:
    assert ndd.EvalMode.deferred < ndd.EvalMode.eager < ndd.EvalMode.sync_cpu < ndd.EvalMode.sync_full


def test_E2_external_data_is_read_at_once() -> None:
    for mode in MODES:
        array = PICTURE.copy()
        with mode:
            made = [ndd.flip(array), ndd.flip(ndd.as_tensor(array)), ndd.as_tensor(array) + 0, ndd.flip(ndd.as_batch([array, array]))]
            array[...] = 0
            for value in made[:2]:
                assert np.array_equal(np.asarray(value), PICTURE[:, ::-1]), mode
            assert np.array_equal(np.asarray(made[2]), PICTURE)
            assert np.array_equal(np.asarray(made[3].tensors[1]), PICTURE[:, ::-1])


def test_E3_random_numbers_are_drawn_by_the_call() -> None:
    expected = []
    for mode in MODES:
        generator = ndd.random.RNG(4)
        with mode:
            first, second = (ndd.random.uniform(rng=generator) for _ in range(2))
            values = second.item(), first.item()
        expected.append((values, str(generator.state)))
    assert len(set(expected)) == 1


def test_E4_modes_give_the_same_results() -> None:
    def program() -> bytes:
        picture = own_picture()
        small = ndd.resize(picture, size=[5, 6])
        mixed = ndd.cast(small, dtype=ndd.float32) * 1.5 + ndd.random.normal(rng=ndd.random.RNG(3))
        ndd.rotate(small, angle=5.0)  # its result is not used
        batch = ndd.batch([mixed, mixed[1:]])
        return np.asarray(ndd.reductions.sum(batch).tensors[1]).tobytes() + np.asarray(ndd.as_tensor(batch.slice[:2])).tobytes()

    results = set()
    for mode in MODES:
        with mode:
            results.add(program())
    assert len(results) == 1


def failing(picture: ndd.Tensor) -> ndd.Tensor:
    return ndd.crop(picture, crop=(90, 9))  # the line of the call


def test_E5_errors_of_deferred_calls_come_at_every_read() -> None:
    with ndd.EvalMode.deferred:
        wrong = failing(own_picture())
        dependent = ndd.flip(wrong) + 1
        assert (wrong.dtype, dependent.dtype) == (ndd.uint8, ndd.int32)
        for read in (lambda: wrong.shape, lambda: np.asarray(wrong), lambda: repr(wrong), lambda: dependent.shape,
                     lambda: dependent.evaluate(), lambda: wrong.shape):  # fmt: skip
            with pytest.raises(RuntimeError, match=r"ndd\.crop.*out of bounds") as caught:
                read()
            error = caught.value
            assert isinstance(error, OperatorError) and error.operator == "crop" and error.line == f"{__file__}:{line_of(failing)}"
            assert error.__cause__ is not None and error.__cause__.__cause__ is None  # one link
            text = "".join(traceback.format_exception(error)) if sys.version_info >= (3, 11) else str(error)
            assert f"Called at {__file__}:{line_of(failing)}, read at {__file__}:" in text


def test_errors_of_deferred_calls_have_the_classes_of_eager_ones() -> None:
    programs = (
        lambda: ndd.reinterpret(own_picture(), layout="AB"), lambda: ndd.reshape(own_picture(), shape=[7]),
        lambda: ndd.copy(ndd.tensor([1])) // 0,
    )  # fmt: skip
    for program in programs:
        with pytest.raises(RuntimeError) as eager:
            program()
        with ndd.EvalMode.deferred:
            later = program()
        with pytest.raises(RuntimeError) as deferred:
            later.evaluate()
        assert type(deferred.value) is type(eager.value) and str(deferred.value) == str(eager.value)


def test_a_deferred_result_that_is_dropped_is_not_computed() -> None:
    with ndd.EvalContext(), ndd.EvalMode.deferred:
        failing(own_picture())


def line_of(function: object) -> int:
    return function.__code__.co_firstlineno + 1  # type: ignore[attr-defined]


def test_E6_unread_errors_are_reported() -> None:
    with pytest.raises(RuntimeError, match="out of bounds"), ndd.EvalContext(), ndd.EvalMode.deferred:
        kept = failing(own_picture())
    assert kept is not None
    with ndd.EvalContext() as context, ndd.EvalMode.deferred:
        kept = failing(own_picture())
        with pytest.raises(RuntimeError, match="out of bounds"):
            context.evaluate_all()
        context.evaluate_all()


def test_E7_errors_come_from_the_call_without_our_frames() -> None:
    for mode in MODES[1:]:
        with mode:
            ragged = ndd.batch([[1, 2], [3]])
            for wrong in (
                lambda: failing(own_picture()), lambda: failing(ndd.as_tensor(PICTURE)), lambda: ndd.tensor([1]) // 0,
                lambda: ndd.imread("/missing.jpg"), lambda: ndd.io.file.read("/missing"), lambda: ndd.decode_batch([b"x"]),
                lambda: ndd.tensor([1])[3], lambda ragged=ragged: ragged.slice[3], lambda: ndd.tensor("a"), lambda: ndd.batch([]),
                lambda ragged=ragged: ndd.as_tensor(ragged), lambda: ndd.math.sqrt("a"), lambda: ndd.math.max(None, 1),
                lambda: ndd.readers.File(file_root="/missing"),
            ):  # fmt: skip
                with pytest.raises((RuntimeError, ValueError, TypeError, OSError, IndexError)) as caught:
                    wrong()
                frames = traceback.extract_tb(caught.value.__traceback__)
                assert sum("asyncdali" in frame.filename and frame.filename != __file__ for frame in frames) <= 1
                assert caught.value.__cause__ is None
                assert "pipeline" not in str(caught.value)
    with ndd.EvalMode.deferred, pytest.raises(RuntimeError):  # external data
        failing(ndd.as_tensor(PICTURE))


def test_E8_contexts() -> None:
    with ndd.EvalContext(num_threads=2) as context:
        assert ndd.EvalContext.current() is context and context.num_threads == 2
        with context:
            assert ndd.EvalContext.current() is context
        assert ndd.EvalContext.current() is context
        failures: list[BaseException] = []

        def other() -> None:
            try:
                with context:
                    pass
            except RuntimeError as error:
                failures.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)
        assert len(failures) == 1
    with ndd.EvalContext() as context, ndd.EvalMode.deferred:
        later = ndd.flip(own_picture())
        work = later._work
    assert work is not None and work.is_done
    with pytest.raises(ValueError):
        ndd.EvalContext(num_threads=2, thread_pool=ndd.ThreadPool(2))


def test_E9_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    ndd.set_num_threads(3)
    try:
        assert ndd.get_num_threads() == 3 == ndd.EvalContext.default().num_threads
        assert np.array_equal(np.asarray(ndd.flip(PICTURE)), PICTURE[:, ::-1])
        for wrong in (0, -1, 10**6):
            with pytest.raises(ValueError):
                ndd.set_num_threads(wrong)
        for kind in (True, 1.5, "a"):
            with pytest.raises(TypeError):
                ndd.set_num_threads(kind)
    finally:
        ndd.set_num_threads(None)
    monkeypatch.setenv("DALI_NUM_THREADS", "5")
    assert ndd.get_num_threads() == 5
    monkeypatch.delenv("DALI_NUM_THREADS")
    with ndd.EvalContext(num_threads=0) as context:
        assert context.num_threads == ndd.ThreadPool(0).num_threads == 0 and ndd.flip(PICTURE).shape == (9, 8, 3)
    pool = ndd.ThreadPool(2, device_id=None)
    with ndd.EvalContext(thread_pool=pool), ndd.EvalContext(thread_pool=pool) as inner:
        assert inner.thread_pool is pool
    for wrong in (-1, 10**6):
        with pytest.raises(ValueError):
            ndd.ThreadPool(wrong)
    with pytest.raises(ValueError):
        ndd.ThreadPool(device_id=7)


def test_a_thread_has_one_default_context_and_shares_the_threads_of_the_process() -> None:
    mine, others = ndd.EvalContext.default(), []
    thread = threading.Thread(target=lambda: others.extend((ndd.EvalContext.default(), ndd.EvalContext.current())))
    thread.start()
    thread.join(30)
    assert mine is ndd.EvalContext.default() is ndd.EvalContext.current()
    assert others[0] is others[1] is not mine and others[0].engine.crew is mine.engine.crew


def test_numbers_of_threads_have_a_default_and_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DALI_NUM_THREADS", raising=False)
    if hasattr(os, "sched_getaffinity"):
        assert ndd.get_num_threads() == len(os.sched_getaffinity(0))
    usual = ndd.get_num_threads()
    ndd.set_num_threads(usual + 1)
    ndd.set_num_threads(None)
    assert ndd.get_num_threads() == usual
    for wrong, error in ((-1, ValueError), (10**6, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="num_threads"):
            ndd.EvalContext(num_threads=wrong)
    monkeypatch.setenv("DALI_NUM_THREADS", "x")
    with pytest.raises(ValueError, match="DALI_NUM_THREADS"):
        ndd.get_num_threads()


def test_E10_eight_threads_call_the_same_operators() -> None:
    pictures = [np.random.default_rng(k).integers(0, 256, (9 + k % 3, 8, 3), np.uint8) for k in range(8)]
    calls = [
        lambda x, k: ndd.flip(x), lambda x, k: ndd.resize(x, size=[5, 4 + k % 2]), lambda x, k: ndd.rotate(x, angle=ndd.tensor(float(k))),
        lambda x, k: x * 2.5, lambda x, k: ndd.reductions.sum(x, axes=[0]), lambda x, k: ndd.crop_mirror_normalize(x, crop=(4, 4)),
        lambda x, k: ndd.noise.gaussian(x, stddev=9.0, rng=ndd.random.RNG(k)), lambda x, k: ndd.random.uniform(rng=ndd.random.RNG(k)),
    ]  # fmt: skip
    expected = [[np.asarray(call(ndd.tensor(picture), k)) for call in calls] for k, picture in enumerate(pictures)]
    wrong: list[object] = []
    barrier = threading.Barrier(8)

    def work(k: int) -> None:
        try:
            barrier.wait(60)
            for turn in range(12):
                for number, call in enumerate(calls):
                    if not np.array_equal(np.asarray(call(ndd.tensor(pictures[k]), k)), expected[k][number]):
                        wrong.append((turn, number, k))
        except BaseException as error:
            wrong.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_E10_results_are_read_in_other_threads() -> None:
    with ndd.EvalMode.deferred:
        later = ndd.flip(own_picture())
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(np.asarray(later))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4 and all(np.array_equal(array, PICTURE[:, ::-1]) for array in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_E11_forked_children_call_operators() -> None:
    batch = ndd.batch([np.random.default_rng(k).integers(0, 256, (200, 200, 3), np.uint8) for k in range(8)])
    expected = np.asarray(ndd.gaussian_blur(batch, window_size=5).tensors[7]).tobytes()
    for _ in range(2):
        ndd.gaussian_blur(batch, window_size=5)  # long work: the threads of the parent have started
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            same = all(np.asarray(ndd.gaussian_blur(batch, window_size=5).tensors[7]).tobytes() == expected for _ in range(3))
            os.write(write, b"y" if same else b"n")
        finally:
            os._exit(0)
    os.close(write)
    ready, _, _ = __import__("select").select([read], [], [], 60)
    answer = os.read(read, 1) if ready else b""
    if not ready:
        os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(read)
    assert answer == b"y"


def test_E12_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    if ndd.get_current_stream() is not None:
        pytest.skip("there is a GPU")
    assert ndd.get_default_stream() is None and ndd.stream(stream=None) is None
    with pytest.raises(RuntimeError):
        ndd.stream()
    ndd.set_current_stream(None)
    ndd.set_default_stream(None)  # in DALI every later call fails
    assert ndd.flip(PICTURE).shape == (9, 8, 3)


def test_a_call_of_long_work_uses_threads_and_ends_with_an_error_of_a_sample() -> None:
    pictures = [np.zeros((300, 300, 3), np.uint8) for _ in range(8)]
    with ndd.EvalContext(num_threads=2):
        for _ in range(3):
            assert ndd.gaussian_blur(ndd.batch(pictures), window_size=9).batch_size == 8
        good, bad = np.frombuffer(b"P5 1 1 255\n\x07", np.uint8), np.zeros(4, np.uint8)
        with pytest.raises(RuntimeError, match="sample 5"):
            ndd.decoders.image(ndd.batch([bad if k == 5 else good for k in range(8)]))


def test_E2_E7_long_calls_end_before_they_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their inputs may be written afterwards, and their errors come from the call, although other threads work on them."""
    monkeypatch.setattr("asyncdali.imperative.bricks._LONG_NS", -1)
    for mode in (ndd.EvalMode.eager, ndd.EvalMode.sync_cpu):
        with ndd.EvalContext(num_threads=3), mode:
            batch = ndd.flip(ndd.batch([np.full((60, 60, 3), 10 + k, np.uint8) for k in range(8)]))
            views = [np.asarray(t) for t in batch.tensors]
            made = ndd.gaussian_blur(batch, window_size=5)
            for view in views:
                view[...] = 0
            assert [int(np.asarray(t).min()) for t in made.tensors] == [10 + k for k in range(8)]
            encoded = ndd.batch([np.zeros(4 + k % 2, np.uint8) for k in range(8)])
            with pytest.raises(RuntimeError, match="sample 0") as caught:
                ndd.decoders.image(encoded)
            assert not getattr(caught.value, "__notes__", None)  # no other line than that of the call


def test_an_interrupt_after_the_own_part_of_a_shared_call_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = ndd.batch([np.full((200, 200, 3), k, np.uint8) for k in range(8)])
    with ndd.EvalContext(num_threads=2) as context:
        expected = np.asarray(ndd.gaussian_blur(batch, window_size=5).tensors[3])
        workers = context.engine.crew.workers()
        assert workers is not None
        take_part = workers.take_part

        def interrupted(job: object, thread: int) -> bool:
            last = take_part(job, thread)  # type: ignore[arg-type]
            signal.raise_signal(signal.SIGINT)
            return last

        monkeypatch.setattr(workers, "take_part", interrupted)
        monkeypatch.setattr("asyncdali.imperative.bricks._LONG_NS", 0)
        with pytest.raises(KeyboardInterrupt):
            ndd.gaussian_blur(batch, window_size=5)
        monkeypatch.undo()
        assert np.array_equal(np.asarray(ndd.gaussian_blur(batch, window_size=5).tensors[3]), expected)
