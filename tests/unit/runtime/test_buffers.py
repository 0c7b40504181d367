"""Memory pools: blocks are reused, and never while a user refers to them."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import signal
import threading
import weakref

import numpy as np
import pytest
from helpers import pipelines
from helpers.interrupted_places import PlacedInterrupts
from helpers.probes import StepProbe, call
from helpers.processes import wait_until
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncdali import fn, types
from asyncdali.device.buffers import SMALL, BufferPool, size_class
from asyncdali.system import forks

BIG = 3 * SMALL


pipeline_of = functools.partial(pipelines.pipeline_of, batch_size=4)


def big():
    """A pipeline whose batches of 800 KB are in pooled memory."""
    return fn.copy(fn.random.uniform(shape=[50_000]))


# --- the pool


@pytest.mark.parametrize("ahead", [0, 3])
def test_a_closed_pool_keeps_no_memory(ahead):
    """Blocks that are not in use are freed at once, others with their last view. The same is true for later blocks."""
    made = []

    def make(size):
        array = np.empty(size, np.uint8)
        made.append(weakref.ref(array))
        return array

    def alive():
        return sum(reference() is not None for reference in made)

    pool = BufferPool(make, ahead=ahead)
    kept, free = pool.allocate(BIG), pool.allocate(BIG)
    kept[:] = 7
    view = kept[5:9]
    del free
    pool.close()
    assert alive() == 1 and pool.free_bytes == 0
    del kept
    assert alive() == 1 and (view == 7).all()
    del view
    assert alive() == 0
    later = pool.allocate(BIG)
    assert alive() == 1
    del later
    assert alive() == 0
    pool.close()


def test_a_closed_pipeline_keeps_no_memory(monkeypatch):
    """Also without the garbage collector."""
    pools = []
    init = BufferPool.__init__
    monkeypatch.setattr(BufferPool, "__init__", lambda pool, *args, **kwargs: (init(pool, *args, **kwargs), pools.append(pool))[0])
    pipe = pipeline_of(big)
    for _ in range(3):
        outputs = pipe.run()
    expected = np.array(outputs[0][0])
    assert any(pool.allocated_bytes for pool in pools)
    pipe.close()
    assert not any(pool.free_bytes for pool in pools)
    np.testing.assert_array_equal(outputs[0][0], expected)


@given(size=st.integers(1, 1 << 40))
@settings(derandomize=True)
def test_size_classes(size):
    block = size_class(size)
    assert block >= size and size_class(block) == block
    assert size <= SMALL or block <= size * 1.26
    assert size_class(size + 1) >= block


def test_a_block_returns_with_its_last_view():
    pool = BufferPool()
    array = pool.allocate(BIG)
    address = array.ctypes.data
    view = array[10:].reshape(2, -1)[1]
    del array
    other = pool.allocate(BIG)
    assert other.ctypes.data != address  # the view keeps the block
    del view
    assert pool.allocate(BIG).ctypes.data == address
    assert pool.allocated_bytes == 2 * size_class(BIG)


def test_small_blocks_do_not_come_from_the_pool():
    pool = BufferPool()
    array = pool.allocate(100)
    assert len(array) == 100 and pool.allocated_bytes == 0


def test_the_pool_grows_when_everything_is_held():
    pool = BufferPool()
    held = [pool.allocate(BIG) for _ in range(20)]
    assert len({array.ctypes.data for array in held}) == 20
    for k, array in enumerate(held):
        array[:] = k
    assert all((array == k).all() for k, array in enumerate(held))
    del held, array
    again = [pool.allocate(BIG) for _ in range(20)]
    assert pool.allocated_bytes == 20 * size_class(BIG)
    del again


def test_free_blocks_of_other_sizes_are_freed():
    pool = BufferPool()
    for size in range(1, 60):
        pool.allocate(size * BIG)
    assert pool.allocated_bytes < 3 * size_class(60 * BIG)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40 * SMALL)), max_size=60))
def test_no_two_live_buffers_overlap(steps):
    pool = BufferPool()
    live = []
    for free, size in steps:
        if free and live:
            live.pop(size % len(live))
        else:
            live.append(pool.allocate(size))
    spans = sorted((array.ctypes.data, array.ctypes.data + len(array)) for array in live if len(array))
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
    in_use = sum(size_class(len(array)) for array in live if len(array) >= SMALL)
    pool._collect()
    assert in_use <= pool.allocated_bytes and pool.free_bytes <= pool.allocated_bytes
    assert pool.free_bytes == sum(size * len(blocks) for size, blocks in pool._free.items())


def test_a_pool_works_after_an_interrupt_at_any_place():
    """In dynamic mode the program's thread allocates, so Ctrl-C may come between any two steps."""
    sizes = [BIG, 2 * BIG, BIG, 9 * BIG, 4 * BIG]
    pool = BufferPool(spare=0.1)

    def steps():
        live = [pool.allocate(size) for size in sizes]
        del live[1::2]
        live += [pool.allocate(size) for size in sizes]

    handler = signal.getsignal(signal.SIGINT)
    gc.disable()  # a finalizer that runs by chance would swallow an interrupt
    try:
        interrupts = PlacedInterrupts(BufferPool.lend)
        steps()
        places = interrupts.chosen(steps, 1)
        assert len(places) > 20
        for place in places:
            with contextlib.suppress(KeyboardInterrupt):
                interrupts.at(place, steps)
            for _ in range(3):
                steps()
            assert pool.idle_bytes() <= pool.allocated_bytes, place
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, handler)


def test_threads_may_drop_views_at_any_time():
    pool = BufferPool()
    errors = []

    def work(k):
        for n in range(200):
            array = pool.allocate(BIG + SMALL * (n % 3))
            array[:8] = k
            array[-8:] = k
            if not (array[:8] == k).all() or not (array[-8:] == k).all():
                errors.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and pool.allocated_bytes <= 20 * 2 * BIG


def test_a_forked_child_leaves_the_parents_memory_alone():
    pool = BufferPool()
    array = pool.allocate(BIG)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            before = len(pool._returned)
            del array
            code = 0 if len(pool._returned) == before and forks.pid == os.getpid() else 2
        finally:
            os.write(write, bytes([code]))
            os._exit(code)
    os.waitpid(pid, 0)
    assert os.read(read, 1) == b"\0"
    os.close(read)
    os.close(write)
    assert not pool._returned


# --- outputs of a pipeline


def test_held_outputs_stay_intact():
    """The test keeps the batches of 60 iterations in several forms, also after the pipeline was freed."""
    reference = pipeline_of(big)
    pipe = pipeline_of(big, prefetch_queue_depth=3)
    held = []
    for k in range(60):
        (batch,) = pipe.run()
        forms = (lambda b: b, lambda b: b[2], lambda b: np.asarray(b[1]), lambda b: np.from_dlpack(b[0]), lambda b: b.as_tensor())
        held.append(forms[k % 5](batch))
        del batch
    pipe.close()
    del pipe
    gc.collect()
    for k, item in enumerate(held):
        wanted = reference.run()[0].as_array()
        found = item.as_array() if k % 5 == 0 else np.asarray(item)
        np.testing.assert_array_equal(found, (wanted, wanted[2], wanted[1], wanted[0], wanted)[k % 5])


def test_memory_is_reused_when_outputs_are_dropped():
    """Memory is freed without the garbage collector, because no object of an iteration is part of a reference cycle."""
    pipe = pipeline_of(lambda: (big(), call(StepProbe, elements=20_000)), prefetch_queue_depth=2)
    gc.collect()
    gc.disable()
    try:
        for _ in range(60):
            pipe.run()
        # At most three batches are alive: the one returned last, the one in flight, and one in another size class.
        assert pipe._core.session.executor.pool.allocated_bytes <= 6 * (size_class(800_000) + size_class(640_000))
    finally:
        gc.enable()


def test_failed_iterations_give_memory_back_too():
    pipe = pipeline_of(lambda: (big(), call(StepProbe, bad=1, elements=20_000)))
    for _ in range(30):
        with pytest.raises(RuntimeError):
            pipe.run()
        gc.collect()
    # A few batches are in flight; their number depends on timing.
    assert pipe._core.session.executor.pool.allocated_bytes <= 6 * size_class(800_000)


def test_holding_makes_the_pool_grow_and_dropping_makes_it_reuse():
    pipe = pipeline_of(big)
    held = [pipe.run() for _ in range(12)]
    wait_until(lambda: (queue := pipe.statistics().queue).ready == queue.in_flight)  # iterations in flight use memory, too
    grown = pipe._core.session.executor.pool.allocated_bytes
    assert grown >= 12 * 800_000
    del held
    for _ in range(12):
        pipe.run()
    assert pipe._core.session.executor.pool.allocated_bytes <= grown


def test_writing_into_an_output_changes_no_other_output():
    def graph():
        a = fn.random.uniform(shape=[3])
        return a, fn.copy(a), types.Constant([1, 2], device="cpu"), fn.reshape(types.Constant([1, 2], device="cpu"), shape=[2, 1])

    pipe, reference = pipeline_of(graph), pipeline_of(graph)
    for _ in range(6):
        outputs, wanted = pipe.run(), [batch.as_array() for batch in reference.run()]
        for batch, array in zip(outputs, wanted, strict=True):
            np.testing.assert_array_equal(batch.as_array(), array)
            for k in range(4):
                np.asarray(batch[k])[...] = 77


def test_aliases_keep_the_memory_of_their_source():
    pipe = pipeline_of(lambda: fn.reshape(fn.reshape(big(), shape=[50, 1000]), layout="HW"))
    (batch,) = pipe.run()
    reference = batch.as_array()
    view = np.asarray(batch[3])
    del batch
    for _ in range(10):
        pipe.run()
    pipe.close()
    np.testing.assert_array_equal(view, reference[3])
    assert view.shape == (50, 1000)


def test_transferred_batches_keep_their_memory():
    pipe = pipeline_of(lambda: big().gpu())
    (batch,) = pipe.run()
    wanted = batch.as_cpu().as_array()
    tensor = batch[1]
    del batch
    for _ in range(5):
        pipe.run()
    pipe.close()
    np.testing.assert_array_equal(np.asarray(tensor.as_cpu()), wanted[1])


def test_outputs_are_dense_and_contiguous():
    def graph():
        ragged = fn.copy(fn.random.uniform(shape=fn.random.uniform(range=[1, 9], dtype=types.INT32, shape=[1])))
        return fn.copy(fn.random.uniform(shape=[2])), ragged, fn.reshape(fn.copy(fn.random.normal(shape=[6])), shape=[2, 3])

    dense, ragged, reshaped = pipeline_of(graph).run()
    assert dense.is_dense_tensor() and reshaped.is_dense_tensor() and not ragged.is_dense_tensor()
    sizes = [int(np.prod(shape)) * 4 for shape in ragged.shape()]
    starts = [ragged[k].data_ptr() for k in range(4)]
    assert starts == [starts[0] + sum(sizes[:k]) for k in range(4)] and ragged.data_ptr() == starts[0]


def test_large_intermediates_do_not_fill_every_threads_scratch(monkeypatch):
    from asyncdali.runtime.work import segments

    monkeypatch.setattr(segments, "MAX_SCRATCH", 1000)
    graph = lambda: fn.copy(fn.copy(call(StepProbe, elements=100, factor=2)))  # noqa: E731
    for _ in range(2):
        outputs = pipeline_of(graph, num_threads=3).run()
        assert [np.unique(np.asarray(tensor)).tolist() for tensor in outputs[0]] == [[0], [2], [4], [6]]


def test_bytes_per_sample_reserves():
    pipe = pipeline_of(big, bytes_per_sample=200_000)
    pipe.build()
    assert pipe._core.session.executor.pool.allocated_bytes >= 800_000
    pipe.run()
