"""ExternalSource of dynamic mode: items, ends, cycles, several outputs, copies, and what an object is used for."""

import numpy as np
import pytest

import asyncdali.dynamic as ndd


def value(made):
    """A result as plain numbers."""
    if isinstance(made, tuple):
        return tuple(map(value, made))
    return [np.asarray(t).tolist() for t in made.tensors] if isinstance(made, ndd.Batch) else np.asarray(made).tolist()


def pulls(source, count):
    """So many calls; an end is "end"."""
    found = []
    for _ in range(count):
        try:
            found.append(value(source()))
        except StopIteration:
            found.append("end")
    return found


# --- X1


def test_X1_sources_are_iterables_or_callables_without_parameters():
    def generator():
        yield from range(3)

    numbers = iter(range(10, 13))
    for source, expected in (
        ([0, 1, 2], [0, 1, 2, "end"]), (range(3), [0, 1, 2, "end"]), (generator, [0, 1, 2, "end"]), (generator(), [0, 1, 2, "end"]),
        (lambda: next(numbers), [10, 11, 12, "end"]), (np.arange(2), [0, 1, "end", "end"]),
    ):  # fmt: skip
        assert pulls(ndd.ExternalSource(source), 4) == expected
    for wrong in (None, 3, 2.5):
        with pytest.raises(TypeError):
            ndd.ExternalSource(wrong)
    for wrong in (lambda index: index, lambda a, b: a, lambda *args, key: 1):
        with pytest.raises(ValueError, match="parameters"):
            ndd.ExternalSource(wrong)

    async def slow():
        yield 1

    with pytest.raises(TypeError, match="synchronous"):
        ndd.ExternalSource(slow)


def test_X1_cycles():
    for cycle in (None, "no", False):
        assert pulls(ndd.ExternalSource([1, 2], cycle=cycle), 4) == [1, 2, "end", "end"]
    for cycle in ("quiet", True):
        assert pulls(ndd.ExternalSource([1, 2], cycle=cycle), 5) == [1, 2, 1, 2, 1]
    assert pulls(ndd.ExternalSource([1, 2], cycle="raise"), 6) == [1, 2, "end", 1, 2, "end"]
    with pytest.raises(ValueError, match="cycle"):
        ndd.ExternalSource(lambda: 1, cycle="quiet")
    with pytest.raises(ValueError, match="foo"):
        ndd.ExternalSource([1], cycle="foo")


def test_kinds_of_sources_that_can_begin_again():
    def generator():
        yield from range(2)

    class Own:
        def __iter__(self):
            return iter([5, 6])

    for source, cycle, expected in (
        (generator, "quiet", [0, 1, 0, 1, 0]), (generator, "raise", [0, 1, "end", 0, 1]), (Own(), "raise", [5, 6, "end", 5, 6]),
        (iter([1, 2]), "quiet", [1, 2, "end", "end", "end"]), ([], "quiet", ["end"] * 5),
    ):  # fmt: skip
        assert pulls(ndd.ExternalSource(source, cycle=cycle), 5) == expected
    with pytest.raises(TypeError, match="generator"):
        pulls(ndd.ExternalSource(generator(), cycle="raise"), 3)


# --- X2


def test_X2_a_call_pulls_one_item():
    source = ndd.ExternalSource([np.arange(3), [1, 2], ndd.batch([1, 2, 3]), [[1, 2], [3, 4]]])
    made = source()
    assert isinstance(made, ndd.Tensor) and made.dtype is ndd.int64 and value(made) == [0, 1, 2]
    made = source(batch_size=2)
    assert isinstance(made, ndd.Batch) and value(made) == [[1, 2], [1, 2]]
    with pytest.raises(ValueError, match="3 samples"):
        source(batch_size=2)
    assert value(source()) == [[1, 2], [3, 4]]
    for _ in range(2):
        with pytest.raises(StopIteration):
            source()
    made = ndd.ExternalSource([ndd.batch([1, 2, 3])])(batch_size=3)
    assert isinstance(made, ndd.Batch) and value(made) == [1, 2, 3]


def test_X2_errors_of_the_source_pass_unchanged():
    count = 0

    def source():
        nonlocal count
        count += 1
        if count == 2:
            raise KeyError("mine")
        return count

    made = ndd.ExternalSource(source)
    assert value(made()) == 1
    with pytest.raises(KeyError, match="mine"):
        made()
    assert value(made()) == 3


def test_X2_an_object_is_not_iterable():
    with pytest.raises(TypeError, match="not iterable"):
        iter(ndd.ExternalSource([1]))


# --- X3


def test_X3_items_of_several_values():
    source = ndd.ExternalSource([(1, 2), [3, 4], (5,), (6, 7, 8), 9, (ndd.batch([1]), 2), (ndd.batch([1]), ndd.batch([2]))], 2)
    assert pulls(source, 2) == [(1, 2), (3, 4)]
    for _ in range(3):
        with pytest.raises(ValueError, match="2 values"):
            source()
    with pytest.raises(TypeError, match="all Tensors or all Batches"):
        source()
    assert value(source()) == ([1], [2])
    made = ndd.ExternalSource([([1], [2.5])], 2, layout=["A", "B"], dtype=[ndd.float32, ndd.int32])()
    assert [(item.layout, item.dtype) for item in made] == [("A", ndd.float32), ("B", ndd.int32)]
    made = ndd.ExternalSource([([1], [2])], 2, layout="A", dtype="u8")(batch_size=3)
    assert [(item.layout, item.dtype, item.batch_size) for item in made] == [("A", ndd.uint8, 3)] * 2
    for wrong in ({"layout": ["A"]}, {"dtype": [ndd.int8] * 3}):
        with pytest.raises(ValueError, match="2 outputs"):
            ndd.ExternalSource([1], 2, **wrong)
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="num_outputs"):
            ndd.ExternalSource([1], wrong)
    with pytest.raises(ValueError):
        ndd.ExternalSource([[1, 2]], layout="HWC")()


# --- X4


def test_X4_arrays_are_copied():
    def source(array):
        for k in range(3):
            array[:] = k
            yield array

    made = ndd.ExternalSource(source(np.zeros(2)))
    assert [np.asarray(item).tolist() for item in [made(), made(), made()]] == [[0, 0], [1, 1], [2, 2]]
    array = np.zeros(2)
    made = ndd.ExternalSource(source(array), no_copy=True)
    first = made()
    made()
    assert value(first) == [1, 1]
    array = np.zeros(2)
    made = ndd.ExternalSource([ndd.as_tensor(array)])()
    array[:] = 7
    assert value(made) == [0, 0]


# --- X5


@pytest.mark.filterwarnings("ignore:capture")
def test_X5_an_object_is_called_or_drives_a_loop():
    source = ndd.ExternalSource(range(5))
    source()
    with pytest.raises(RuntimeError, match="called before"):
        source.captured(2)
    source = ndd.ExternalSource(range(5))
    items = source.captured(2)
    next(items)
    for use in (source, lambda: source.captured(2)):
        with pytest.raises(RuntimeError, match="drives"):
            use()
    items.close()
    assert value(source()) == 1
    source = ndd.ExternalSource(range(3), cycle="raise")
    assert [value(item) for item in source.captured(2)] == [[0, 0], [1, 1], [2, 2]]
    assert [value(item) for item in source.captured(1)] == [[0], [1], [2]]
    for size, error in ((-1, ValueError), (None, TypeError), (2.0, TypeError)):
        with pytest.raises(error):
            source.captured(size)
    with pytest.raises(TypeError, match="EvalContext"):
        source.captured(2, ctx=3)


@pytest.mark.filterwarnings("ignore:capture")
def test_an_interrupt_of_a_captured_loop_loses_no_item():
    interrupts = iter([2, 5])
    due = next(interrupts)

    class Numbers:
        count = 0

        def __call__(self):
            nonlocal due
            if self.count == due:
                due = next(interrupts, -1)
                raise KeyboardInterrupt
            if self.count == 8:
                raise StopIteration
            self.count += 1
            return self.count

    items, found = ndd.ExternalSource(Numbers()).captured(1), []
    for _ in range(11):
        try:
            found.append(value(next(items)))
        except KeyboardInterrupt:
            found.append("interrupt")
        except StopIteration:
            found.append("end")
    assert found == [[1], "interrupt", [2], [3], [4], "interrupt", [5], [6], [7], [8], "end"]
