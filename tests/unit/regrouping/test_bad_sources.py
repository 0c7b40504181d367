"""Samples that a source from Python cannot give are replaced or dropped, wherever the source is called."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest

from asyncdali import fn, pipeline_def
from asyncdali.errors import OperatorError
from asyncdali.pipeline.front import core_of

BATCH = 6
EPOCH = 5
BROKEN = (1, 8, 9, 14, 22)
"""Indices for which the source raises."""
EMPTY = (3, 17)
"""Indices for which the source gives a sample that an operator refuses."""


class Broken(Exception):
    pass


def by_index(info):
    if info.iteration >= EPOCH:
        raise StopIteration
    if info.idx_in_epoch in BROKEN:
        raise Broken(f"number {info.idx_in_epoch}")
    number = -1 if info.idx_in_epoch in EMPTY else info.idx_in_epoch
    return np.int32([number, info.epoch_idx, info.idx_in_epoch])


async def by_index_async(info):
    return by_index(info)


def refuse(value):
    if value[0] < 0:
        raise ValueError("negative")
    return value


def by_iteration(iteration):
    return [np.int32([iteration * BATCH + k]) for k in range(BATCH)]


SOURCES = {"called": (by_index, {}), "awaited": (by_index_async, {}), "workers": (by_index, {"parallel": True})}


def make(source, arguments=None, batch_size=BATCH, second=False, **options):
    @pipeline_def(batch_size=batch_size, num_threads=2, device_id=None, seed=3)
    def define():
        both = fn.external_source(source=source, batch=False, name="numbers", **(arguments or {}))
        value, number = both[0:2], both[2:3]
        checked = fn.python_function(value, function=refuse)
        more = (fn.external_source(source=by_iteration, name="others"),) if second else ()
        return checked, number, fn.random.uniform(), *more

    pipe = define(**{"on_error": "replace", **options})
    pipe.build()
    return pipe


def stream(pipe, iterations=EPOCH):
    found = []
    for _ in range(iterations):
        columns = [[np.asarray(item).ravel().tolist() for item in column] for column in pipe.run()]
        found.append(list(zip(*columns, strict=True)))
    return found


def numbers(made):
    return [[sample[1][0] for sample in batch] for batch in made]


@pytest.fixture(scope="module")
def expected():
    pipe = make(by_index)
    made = stream(pipe)
    with pytest.raises(StopIteration):
        pipe.run()
    assert [(entry.reader, entry.index, entry.iteration) for entry in pipe.quarantine() if entry.index in BROKEN + EMPTY] == [
        ("numbers", index, index // BATCH) for index in (1, 3, 8, 9, 14, 17, 22)
    ]
    assert {entry.operator for entry in pipe.quarantine()} == {"external_source", "python_function"}
    pipe.close()
    return made


def test_replacements_come_from_the_epoch_so_far(expected):
    for iteration, batch in enumerate(expected):
        for place, (value, number, _) in enumerate(batch):
            index = iteration * BATCH + place
            assert value == [number[0], 0]  # all outputs of a sample come from one index
            if index in BROKEN + EMPTY:
                assert number[0] not in BROKEN + EMPTY
                assert number[0] < (iteration + 1) * BATCH
            else:
                assert number == [index]
    replaced = [batch[place][1][0] // BATCH for batch, place in ((expected[2], 2), (expected[2], 5), (expected[3], 4))]
    assert any(found < iteration for found, iteration in zip(replaced, (2, 2, 3), strict=True))  # some come from earlier batches


@pytest.mark.parametrize("kind", sorted(SOURCES))
@pytest.mark.parametrize("options", [{"prefetch_queue_depth": 1}, {"prefetch_queue_depth": 4, "num_threads": 1}])
def test_one_stream_wherever_the_source_is_called(kind, options, expected):
    source, arguments = SOURCES[kind]
    pipe = make(source, arguments, py_num_workers=2, **options)
    assert stream(pipe) == expected
    with pytest.raises(StopIteration):
        pipe.run()
    pipe.reset()
    again = stream(pipe)
    assert [[sample[0][1] for sample in batch] for batch in again] == [[1] * BATCH] * EPOCH
    pipe.close()


@pytest.mark.parametrize("engine_sources", [True, False])
def test_one_stream_with_engines(engine_sources, expected):
    pipe = make(by_index, engines=2, engine_sources=engine_sources)
    assert [puller.elsewhere for puller in core_of(pipe).built().producer.sources.pullers] == [engine_sources]
    assert stream(pipe) == expected
    pipe.close()


def test_batches_that_lie_in_engines_are_made_again_for_a_bad_file(tmp_path):
    names = [str(tmp_path / f"{k}.npy") for k in range(BATCH * EPOCH)]
    for k, name in enumerate(names):
        np.save(name, np.int32([k]))
    for k in BROKEN:
        (tmp_path / f"{k}.npy").write_bytes(b"nothing")

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=3)
    def define():
        data = fn.readers.numpy(files=names, name="reader")
        return data, fn.external_source(source=by_iteration), fn.external_source(source=single, batch=False), fn.random.uniform()

    made = []
    for options in ({}, {"engines": 2}):
        pipe = define(on_error="replace", **options)
        pipe.build()
        made.append(stream(pipe))
        assert sorted(entry.index for entry in pipe.quarantine()) == sorted(BROKEN)
        pipe.close()
    assert made[0] == made[1]
    flat = list(itertools.chain(*made[0]))
    assert [sample[1][0] for sample in flat] == [sample[2][0] for sample in flat] == list(range(BATCH * EPOCH))
    assert not {sample[0][0] for sample in flat} & set(BROKEN)


def single(info):
    return np.int32([info.idx_in_epoch])


def test_a_restart_continues_the_stream(expected):
    pipe = make(by_index, enable_checkpointing=True)
    saved = []
    for _ in range(EPOCH):
        saved.append(pipe.checkpoint())
        stream(pipe, 1)
    pipe.close()
    for k in range(EPOCH):
        again = make(by_index, enable_checkpointing=True, checkpoint=saved[k])
        assert stream(again, EPOCH - k) == expected[k:]
        again.close()


def test_coroutines_get_the_same_stream(expected):
    async def run(pipe):
        found = []
        for _ in range(EPOCH):
            columns = [[np.asarray(item).ravel().tolist() for item in column] for column in await pipe.run_async()]
            found.append(list(zip(*columns, strict=True)))
        return found

    for source in (by_index, by_index_async):
        pipe = make(source)
        assert asyncio.run(run(pipe)) == expected
        pipe.close()


@pytest.mark.parametrize("on_gpu", ["source", "behind"])
@pytest.mark.parametrize(("on_error", "count"), [("replace", 30), ("drop", 25)])
def test_batches_on_a_gpu(on_gpu, on_error, count, monkeypatch):
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, seed=3)
    def define():
        if on_gpu == "source":
            return fn.external_source(source=by_index, batch=False, device="gpu") * 2
        return fn.external_source(source=by_index, batch=False).gpu() * 2

    pipe = define(on_error=on_error)
    pipe.build()
    seen = [int(np.asarray(sample)[2]) // 2 for _ in range(EPOCH) for sample in pipe.run()[0].as_cpu()]
    assert len(seen) == count
    assert not set(seen) & set(BROKEN)
    pipe.close()


def test_an_interrupt_while_another_index_is_asked(expected):
    asked, interrupts = [], []

    def source(info):
        asked.append(info.idx_in_epoch)
        if not interrupts and len(asked) > 1 and info.idx_in_epoch < asked[-2] - BATCH:  # of an earlier batch: by a repair
            interrupts.append(info.idx_in_epoch)
            raise KeyboardInterrupt
        return by_index(info)

    pipe, made, raised = make(source, prefetch_queue_depth=1), [], 0
    while len(made) < EPOCH:
        try:
            made += stream(pipe, 1)
        except KeyboardInterrupt:
            raised += 1
    assert made == expected
    assert raised == len(interrupts) == 1
    pipe.close()


def test_a_restart_beside_a_source_of_batches():
    pipe = make(by_index, second=True, enable_checkpointing=True)
    saved, made = [], []
    for _ in range(EPOCH):
        saved.append(pipe.checkpoint())
        made += stream(pipe, 1)
    pipe.close()
    for k in range(EPOCH):
        again = make(by_index, second=True, enable_checkpointing=True, checkpoint=saved[k])
        assert stream(again, EPOCH - k) == made[k:]
        again.close()


@pytest.mark.parametrize("engines", [0, 2])
def test_dropped_samples_leave_the_others_as_they_are(expected, engines):
    pipe = make(by_index, on_error="drop", engines=engines)
    wanted = [
        [sample for place, sample in enumerate(batch) if iteration * BATCH + place not in BROKEN + EMPTY]
        for iteration, batch in enumerate(expected)
    ]
    assert stream(pipe) == wanted
    pipe.close()


def test_all_sources_are_asked_for_the_same_index():
    def halves(info):
        if info.idx_in_epoch == 10:
            raise Broken("a half")
        return np.int32([info.idx_in_epoch]), np.int32([-info.idx_in_epoch])

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def define():
        first, second = fn.external_source(source=halves, num_outputs=2, batch=False)
        return first, second, fn.external_source(source=by_index, batch=False)

    pipe = define(on_error="replace")
    pipe.build()
    for iteration, batch in enumerate(stream(pipe)):
        for place, (first, second, (_, _, index)) in enumerate(batch):
            assert first == [index]
            assert second == [-index]
            assert (index == iteration * BATCH + place) == (iteration * BATCH + place not in (*BROKEN, 10))
    pipe.close()


def test_beside_a_source_of_batches_the_batch_is_the_reserve():
    pipe = make(by_index, second=True)
    for iteration, batch in enumerate(stream(pipe)):
        for place, (value, number, _, other) in enumerate(batch):
            index = iteration * BATCH + place
            assert value[0] == number[0] == other[0]
            assert number[0] // BATCH == iteration
            assert (number[0] == index) == (index not in BROKEN + EMPTY)
    assert {entry.reader for entry in pipe.quarantine()} == {""}
    pipe.close()


class Items:
    """An iterator that raises for some items, and goes on behind them."""

    def __init__(self, count=EPOCH * BATCH):
        self.next, self.count = 0, count

    def __iter__(self):
        self.next = 0
        return self

    def __next__(self):
        number, self.next = self.next, self.next + 1
        if number >= self.count:
            raise StopIteration
        if number in BROKEN:
            raise Broken(number)
        return np.int32([-1 if number in EMPTY else number, 0, number])


class AsyncItems(Items):
    __iter__ = None

    def __aiter__(self):
        self.next = 0
        return self

    async def __anext__(self):
        try:
            return self.__next__()
        except StopIteration:
            raise StopAsyncIteration from None


@pytest.mark.parametrize("kind", [Items, AsyncItems])
def test_items_of_an_iterator_are_replaced_by_others_of_their_batch(kind):
    made = []
    for depth in (1, 3):
        pipe = make(kind(), prefetch_queue_depth=depth)
        made.append(stream(pipe))
        with pytest.raises(StopIteration):
            pipe.run()
        pipe.close()
    assert made[0] == made[1]
    for iteration, batch in enumerate(numbers(made[0])):
        for place, number in enumerate(batch):
            index = iteration * BATCH + place
            assert number // BATCH == iteration
            assert number == index or index in BROKEN + EMPTY
            assert number not in BROKEN + EMPTY


def test_an_error_that_ends_a_generator_is_raised():
    def items():
        for number in itertools.count():
            if number == 8:
                raise Broken("the generator ends")
            yield np.int32([number, 0, number])

    pipe = make(items, prefetch_queue_depth=1)
    assert numbers(stream(pipe, 1)) == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(Broken, match="the generator ends"):
        pipe.run()
    with pytest.raises(StopIteration):
        pipe.run()
    pipe.close()


def test_an_error_of_a_whole_batch_is_raised():
    def batches(iteration):
        if iteration == 1:
            raise Broken("a batch")
        return [np.zeros((BATCH, 2), np.int32), np.zeros((BATCH, 1), np.int32)]

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def define():
        return tuple(fn.external_source(source=batches, num_outputs=2))

    pipe = define(on_error="replace")
    pipe.build()
    pipe.run()
    with pytest.raises(Broken, match="a batch"):
        pipe.run()
    assert pipe.quarantine() == []
    pipe.close()


@pytest.mark.parametrize("parallel", [False, True])
def test_an_error_of_every_sample_is_raised_as_it_is(parallel):
    pipe = make(_always, {"parallel": parallel})
    with pytest.raises(Broken, match="number 0"):
        pipe.run()
    with pytest.raises(Broken, match="number 6"):
        pipe.run()
    assert pipe.quarantine() == []
    pipe.close()


def _always(info):
    raise Broken(f"number {info.idx_in_epoch}")


def test_a_function_decides_about_a_source():
    asked = []

    def decide(error, entry):
        asked.append((entry.index, type(error.__cause__).__name__, error.sample))
        return "raise" if entry.index == 8 else "replace"

    pipe = make(by_index, on_error=decide, prefetch_queue_depth=1)
    stream(pipe, 1)
    with pytest.raises(Broken, match="number 8"):
        pipe.run()
    assert ("Broken" in {kind for _, kind, _ in asked}) and asked[0] == (1, "Broken", 1)
    assert [batch[0] for batch in numbers(stream(pipe, 2))] == [12, 18]
    pipe.close()


def test_past_the_budget_of_sources(expected):
    pipe = make(by_index, max_bad=2, prefetch_queue_depth=1)
    assert stream(pipe, 1) == expected[:1]
    with pytest.raises(RuntimeError, match=r"max_bad=2 allows \(2\):\n +\d x external_source: number 1"):
        pipe.run()
    pipe.close()
    pipe = make(by_index, max_bad=0.1)
    with pytest.raises(RuntimeError, match=r"max_bad=0.1 allows \(0\)"):  # a fraction of readers' samples, and there is no reader
        pipe.run()
    pipe.close()


@pytest.mark.parametrize(("on_error", "raises"), [
    ({"numbers": "raise", "*": "replace"}, "number 1"), ({"external_source": "replace"}, "negative"),
    ({"external_source": "replace", "python_function": lambda error, entry: "raise"}, "negative"),
])  # fmt: skip
def test_operators_have_rules_of_their_own(on_error, raises):
    pipe = make(by_index, on_error=on_error, prefetch_queue_depth=1)
    with pytest.raises((Broken, OperatorError), match=raises):
        pipe.run()
    pipe.close()


def test_rules_by_operator_give_the_same_stream(expected):
    pipe = make(by_index, on_error={"numbers": "replace", "python_function": lambda error, entry: "replace"})
    assert stream(pipe) == expected
    pipe.close()


def test_rules_by_operator_may_differ(expected):
    pipe = make(by_index, on_error={"numbers": "drop", "python_function": "replace"})
    wanted = [
        [sample for place, sample in enumerate(batch) if iteration * BATCH + place not in BROKEN]
        for iteration, batch in enumerate(expected)
    ]
    assert stream(pipe) == wanted
    pipe.close()


@pytest.mark.parametrize(("on_error", "text"), [
    ({"decoder": "replace"}, "on_error names 'decoder', which is no operator of this pipeline. Its operators: .*numbers"),
    ({"numbers": "skip"}, "on_error of 'numbers' is 'skip'"),
])  # fmt: skip
def test_wrong_rules_are_named(on_error, text):
    with pytest.raises(ValueError, match=text):
        make(by_index, on_error=on_error)


def test_rules_name_operators_before_a_selection():
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=None, seed=3)
    def define():
        numbers = fn.external_source(source=by_index, batch=False, name="numbers")
        even = fn.experimental.select(numbers[2:3], where=fn.reductions.sum(numbers[2:3]) % 2 == 0)
        return fn.python_function(even, function=refuse, name="behind")

    pipe = define(on_error={"numbers": "replace", "behind": "replace"})
    pipe.build()
    found = []
    with pytest.raises(StopIteration):
        while True:
            (column,) = pipe.run()
            found += [int(np.asarray(one).item()) for one in column]
    assert [number for number in range(0, BATCH * EPOCH, 2) if number not in BROKEN] == sorted(set(found))
    assert sorted(entry.index for entry in pipe.quarantine() if entry.index in BROKEN) == sorted(BROKEN)
    pipe.close()
    with pytest.raises(ValueError, match="on_error names 'number'"):
        define(on_error={"number": "replace"}).build()
