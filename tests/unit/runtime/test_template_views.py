"""Plans that look at more than a template's key are not copied (``runtime/templates/views.py``), whoever wrote the operator."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.marks import slow
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, ops, types
from asyncdali.batch import Batch as OwnBatch
from asyncdali.compiled.addresses import Within, address_of
from asyncdali.extending import DATA, OUTPUTS, Batch, Field, Operator, Planned, Schema, Step, StreamOperator, Table, laid_out, register
from asyncdali.operators import REGISTRY
from asyncdali.operators.base import Iteration
from asyncdali.operators.moves.copy import Copy
from asyncdali.operators.moves.copy_kernels import copy_step
from asyncdali.runtime.templates.host import HostTemplate
from asyncdali.runtime.templates.keys import is_repeatable
from asyncdali.runtime.work import segments

COUNT, FILES, ITERATIONS = 3, 12, 9
NUMBERS = Table("NUMBERS", Field("sources", "addresses", "of the numbers"), OUTPUTS, Field("sizes", "int64[samples]", "bytes"))


class Looker(Operator):
    """Gives a number per sample, which `look` finds in the inputs or in the iteration. Plans are pure."""

    repeatable = True
    look: ClassVar[Any] = None
    schema = Schema(name="test_looker", doc="Gives a number per sample.", accepts=(DATA,))

    def infer(self, dtypes):
        copy_step.compile()
        return [types.INT64]

    def plan(self, inputs, arguments, iteration):
        found = np.array(type(self).look(inputs[0], iteration), np.int64)
        return self.given(found)

    def given(self, found):
        output = Batch(np.ones((len(found), 1), np.int64), types.INT64)
        table, keep = NUMBERS.make(
            sources=Within(np.arange(len(found)), found), outputs=output.addresses, sizes=np.full(len(found), 8, np.int64)
        )
        return Planned([output], [Step(copy_step.address, table, lambda code, text, sample: text, keep=keep)])


class OwnLooker(Copy):
    """The same as a subclass of an operator of this package."""

    repeatable = True
    look: ClassVar[Any] = None
    schema = Schema(name="test_looker", doc="Gives a number per sample.", accepts=(DATA,))
    infer, plan, given = Looker.infer, Looker.plan, Looker.given


class Placer(StreamOperator):
    """Gives the moving word of its position, or something that `use` computes from it."""

    repeatable = True
    places_position = True
    use: ClassVar[Any] = staticmethod(lambda hi: hi)
    schema = Schema(name="test_placer", doc="Gives its position.", accepts=(DATA,), seeded=True)
    infer = Looker.infer

    def plan(self, inputs, arguments, iteration):
        count = len(inputs[0])
        output = Batch(np.ones((count, 1), np.int64), types.INT64)
        word = type(self).use(iteration.position.hi)
        table, keep = NUMBERS.make(
            sources=((word,),) * 0 or tuple(((word,)) for _ in range(count)), outputs=output.addresses, sizes=np.full(count, 8, np.int64)
        )
        return Planned([output], [Step(copy_step.address, table, lambda code, text, sample: text, keep=keep)])


def _byte(address):
    return ctypes.c_uint8.from_address(int(address)).value


def _memory(owner):
    """A byte of the memory that an owner keeps."""
    if isinstance(owner, (list, tuple)):
        return _memory(owner[0])
    return int(np.asarray(owner).reshape(-1)[0]) if isinstance(owner, np.ndarray) else 0


def _heads(heads):
    return 0 if heads is None else int(heads.marks.sum())


SLOTS = {
    "_addresses": lambda batch: _byte(batch._addresses[0]) if batch._addresses is not None else 0,
    "_first": lambda batch: _byte(batch._first) if batch._first else 0,
    "_view": lambda batch: 0 if batch._view is None else len(batch._view.starts),
    "alias_of": lambda batch: int(batch.alias_of is None),
    "contiguous": lambda batch: int(batch.contiguous),
    "device": lambda batch: len(batch.device),
    "dtype": lambda batch: int(batch.dtype),
    "extents": lambda batch: 0,
    "feed": lambda batch: int(batch.feed is None),
    "heads": lambda batch: _heads(batch.heads),
    "layout": lambda batch: len(batch.layout),
    "links": lambda batch: len(batch.links),
    "owner": lambda batch: _memory(batch.owner),
    "reused": lambda batch: int(np.any(batch.reused)),
    "rows": lambda batch: int(batch.rows is None),
    "shapes": lambda batch: int(batch.shapes.sum()),
    "source_info": lambda batch: int(batch.source_info[0][-6:-4]),
    "values": lambda batch: 0 if batch.values is None else int(batch.values.sum()),
}
"""A number that a plan can read from each attribute of a batch."""
OTHERS = {
    "addresses": lambda batch: _byte(batch.addresses[0]),
    "first_address": lambda batch: _byte(batch.first_address),
    "sample": lambda batch: int(batch.sample(1).sum()),
    "part": lambda batch: int(batch.part(1, 2).sample(0)[0]),
    "private": lambda batch: int(batch.private().sample(0)[0]),
    "writable": lambda batch: int(batch.writable().sample(0)[0]),
    "memory_owner": lambda batch: _memory(batch.memory_owner),
    "read_only": lambda batch: int(batch.read_only),
    "reused_memory": lambda batch: int(np.any(batch.reused_memory)),
    "reused_samples": lambda batch: int(batch.reused_samples().sum()),
    "is_placed": lambda batch: int(batch.is_placed),
    "joined names": lambda batch: sum(" ".join(batch.source_info).encode()),
    "names as an array": lambda batch: sum(np.asarray(batch.source_info)[0].encode()),
    "getattr with a default": lambda batch: _memory(getattr(batch, "owner", None)),
    "a guarded attribute": lambda batch: _guarded(lambda: batch.sample(0)[0]),
    "sizes": lambda batch: int(batch.sizes().sum()),
    "counts": lambda batch: int(batch.counts().sum()),
    "checked_sizes": lambda batch: int(batch.checked_sizes().sum()),
    "len": lambda batch: len(batch),
    "ndim and itemsize": lambda batch: batch.ndim + batch.itemsize,
    "has_small_values": lambda batch: int(batch.has_small_values(100)),
    "presence of names": lambda batch: int(batch.source_info is None),
    "an alias": lambda batch: int(Batch.alias(batch, batch.shapes, batch.dtype, "").sample(0)[0]),
    "a copied address": lambda batch: _byte(np.ascontiguousarray(batch.addresses)[0]),
    "a computed address": lambda batch: _byte((batch.addresses + 0)[0]),
}
ITERATION = {
    "index": lambda iteration: iteration.index,
    "fed": lambda iteration: len(iteration.fed),
    "stream": lambda iteration: int(iteration.stream is None),
    "prepared": lambda iteration: int(iteration.prepared is None),
    "first": lambda iteration: iteration.first,
    "whole": lambda iteration: iteration.whole,
    "following": lambda iteration: iteration.following,
    "position": lambda iteration: int(iteration.position is None),
    "batch_size": lambda iteration: iteration.batch_size,
    "windows": lambda iteration: int(iteration.windows is None),
}
COVERED = {
    "contiguous", "device", "dtype", "extents", "feed", "layout", "links", "rows", "shapes", "sizes", "counts", "checked_sizes", "len",
    "ndim and itemsize", "presence of names", "prepared", "first", "whole", "batch_size", "has_small_values", "values",
}  # fmt: skip
"""Attributes that the key covers: plans that read them are copied. (Files are no dense batch: the key says that `values` is None.)"""
CHANGES = {
    "_addresses", "addresses", "first_address", "sample", "part", "private", "writable", "source_info", "joined names",
    "names as an array", "a guarded attribute", "index", "an alias", "a copied address", "a computed address",
}  # fmt: skip
"""Attributes that differ from iteration to iteration."""


def _guarded(look):
    try:
        return int(look())
    except Exception:
        return -1


def test_every_attribute_is_here():
    assert set(SLOTS) == set(OwnBatch.__slots__)
    assert set(ITERATION) == set(Iteration.__slots__)


@pytest.fixture(params=[Looker, OwnLooker], ids=["another package", "own"])
def looker(request):
    yield from _registered(request.param)


def _registered(kind):
    register(kind)
    yield kind
    del REGISTRY[kind.schema.name]
    for module in (fn, ops):
        vars(module).pop(kind.schema.name, None)


@pytest.fixture
def files(tmp_path):
    for k in range(FILES):
        (tmp_path / f"{k:02}.txt").write_bytes(bytes([65 + k]) * 10)
    return str(tmp_path)


@pytest.fixture
def copies(monkeypatch):
    """The number of templates that were copied, as a list of one number."""
    count = [0]
    planned = HostTemplate.planned

    def counted(self, *args):
        count[0] += 1
        return planned(self, *args)

    monkeypatch.setattr(HostTemplate, "planned", counted)
    return count


def numbers(root, iterations=ITERATIONS, name="test_looker"):
    def graph():
        data, _ = fn.readers.file(files=[f"{root}/{k:02}.txt" for k in range(FILES)])
        return getattr(fn, name)(data)

    pipeline = pipeline_of(graph, batch_size=COUNT)
    try:
        return [values(pipeline.run()) for _ in range(iterations)]
    finally:
        pipeline.close()


def planned(root, monkeypatch, **options):
    """The same without copies."""
    with monkeypatch.context() as patch:
        patch.setattr(segments, "operator_templates", lambda built: None)
        patch.setattr(segments, "segment_templates", lambda *_: None)
        return numbers(root, **options)


@pytest.mark.parametrize(
    "whole, looker", [(True, Looker), (False, OwnLooker), *slow((True, OwnLooker), (False, Looker))], indirect=["looker"],
    ids=["segment, another package", "operator, own", "segment, own", "operator, another package"],
)  # fmt: skip
@pytest.mark.parametrize("name", [*SLOTS, *OTHERS, *ITERATION])
def test_a_plan_that_looks_at_anything_gives_right_data(name, whole, looker, files, copies, monkeypatch):
    if name in ITERATION:
        looker.look = staticmethod(lambda batch, iteration: [ITERATION[name](iteration)] * len(batch))
    else:
        look = SLOTS.get(name) or OTHERS[name]
        looker.look = staticmethod(lambda batch, iteration: [look(batch)] * len(batch))
    if not whole:
        monkeypatch.setattr(segments, "segment_templates", lambda *_: None)
    found = numbers(files)
    assert (copies[0] >= ITERATIONS - 3) if name in COVERED else copies == [0]
    assert found == planned(files, monkeypatch)
    if name in CHANGES:
        assert found[0] != found[1]


def test_only_attributes_are_listed():
    assert {*SLOTS, *OTHERS, *ITERATION} >= COVERED | CHANGES


def _hidden_word(self, found):
    """The address of the numbers is a plain number."""
    output = Batch(np.ones((len(found), 1), np.int64), types.INT64)
    sources, sizes = address_of(found) + 8 * np.arange(len(found)), np.full(len(found), 8, np.int64)
    table, keep = NUMBERS.make(sources=sources, outputs=output.addresses, sizes=sizes)
    return output, table, [*keep, found]


def _hidden_output(self, found):
    """The address of the output's address table is a plain number."""
    output, sizes = Batch(np.ones((len(found), 1), np.int64), types.INT64), np.full(len(found), 8, np.int64)
    table, keep = NUMBERS.make(sources=Within(np.arange(len(found)), found), outputs=address_of(output.addresses), sizes=sizes)
    return output, table, keep


def _changed_table(self, found):
    """A word of the table is replaced after it was laid out."""
    output, sizes = Batch(np.ones((len(found), 1), np.int64), types.INT64), np.full(len(found), 8, np.int64)
    table, keep = NUMBERS.make(sources=0, outputs=output.addresses, sizes=sizes)
    sources = address_of(found) + 8 * np.arange(len(found))
    table[NUMBERS.word.sources] = address_of(sources)
    return output, table, [*keep, sources, found]


def _own_table(self, found):
    """The table is made by hand."""
    output, sizes = Batch(np.ones((len(found), 1), np.int64), types.INT64), np.full(len(found), 8, np.int64)
    sources = address_of(found) + 8 * np.arange(len(found))
    table = np.array([address_of(sources), address_of(output.addresses), address_of(sizes)], np.int64)
    return output, table, [sources, found, sizes]


def _view_of_output(self, found):
    """The table has a view of the output's address table."""
    output, sizes = Batch(np.ones((len(found), 1), np.int64), types.INT64), np.full(len(found), 8, np.int64)
    table, keep = NUMBERS.make(sources=Within(np.arange(len(found)), found), outputs=output.addresses[:], sizes=sizes)
    return output, table, keep


def _overlapping(self, found):
    """The arrays of the table share memory."""
    output, both = Batch(np.ones((len(found), 1), np.int64), types.INT64), np.full(2 * len(found), 8, np.int64)
    both[len(found) :] = found
    table, keep = NUMBERS.make(
        sources=Within(np.arange(len(found)), both[len(found) :]), outputs=output.addresses, sizes=both[: len(found) + 1]
    )
    return output, table, keep


@pytest.mark.parametrize("hidden", [_hidden_word, _hidden_output, _changed_table, _own_table, _view_of_output, _overlapping])
def test_a_plan_with_addresses_that_no_table_declares_gives_right_data(hidden, looker, files, copies, monkeypatch):
    def given(self, found):
        output, table, keep = hidden(self, found)
        return Planned([output], [Step(copy_step.address, table, lambda code, text, sample: text, keep=keep)])

    monkeypatch.setattr(looker, "given", given)
    looker.look = staticmethod(lambda batch, iteration: batch.shapes[:, 0] + np.arange(len(batch)))
    assert numbers(files) == [[[[10 + k] for k in range(COUNT)]]] * ITERATIONS
    assert copies == [0]


def test_an_operator_that_does_not_ask_for_copies_gets_none(looker, files, copies, monkeypatch):
    monkeypatch.setattr(looker, "repeatable", False)
    looker.look = staticmethod(lambda batch, iteration: batch.shapes[:, 0])
    numbers(files)
    assert copies == [0]


def test_another_plan_must_be_declared_again():
    class Other(Looker):
        def plan(self, inputs, arguments, iteration):
            return super().plan(inputs, arguments, iteration)

    class Same(Looker):
        pass

    class Declared(Other):
        repeatable = True

    assert [is_repeatable(kind) for kind in (Looker, Other, Same, Declared, Operator)] == [True, False, True, True, False]


USES = {"as it is": lambda hi: hi, "plus": lambda hi: hi + 1, "half": lambda hi: hi // 2, "negative": lambda hi: -hi, "number": int}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_plan_may_only_place_its_position(use, files, copies, monkeypatch):
    for kind in _registered(Placer):
        kind.use = staticmethod(use)
        found = numbers(files, name="test_placer")
        assert (copies[0] > 0) is (use(7) == 7 and use is not int)
        assert found == planned(files, monkeypatch, name="test_placer")
        assert found[0] != found[1]


def test_tables_are_declared_by_their_values():
    numbers, both = np.arange(3), np.arange(4)
    table, keep = laid_out((7, numbers, (both, 5), Within(np.array([2, 0]), both)))
    (first, second), placed = np.frombuffer((ctypes.c_int64 * 2).from_address(int(table[2])), np.int64).tolist(), int(table[3])
    assert table[:2].tolist() == [7, address_of(numbers)] and (first, second) == (address_of(both), 5)
    assert np.frombuffer((ctypes.c_int64 * 2).from_address(placed), np.int64).tolist() == [address_of(both) + 16, address_of(both)]
    assert any(item is both for item in keep)


