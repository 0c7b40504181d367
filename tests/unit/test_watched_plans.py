"""Plans that look at more than their key covers are not copied (``runtime/watched.py``), whoever wrote the operator."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values

from asyncdali import fn, ops, types
from asyncdali.compiled.addresses import address_of
from asyncdali.extending import DATA, Batch, Operator, Planned, Schema, register
from asyncdali.operators import REGISTRY
from asyncdali.operators.moves.copy import copied
from asyncdali.runtime import replays, segments
from asyncdali.runtime.replays import is_repeatable

COUNT, FILES = 3, 12


class Looker(Operator):
    """Gives a number per sample, which `look` finds in the inputs or in the iteration. Plans are pure."""

    repeatable = True
    look: ClassVar[Any] = None
    schema = Schema(name="test_looker", doc="Gives a number per sample.", accepts=(DATA,))

    def infer(self, dtypes):
        from asyncdali.operators.moves.copy_kernels import copy_step

        copy_step.compile()
        return [types.INT64]

    def plan(self, inputs, arguments, iteration):
        found = np.array(type(self).look(inputs[0], iteration), np.int64)
        output = Batch(np.ones((len(found), 1), np.int64), types.INT64)
        step = copied(address_of(found) + 8 * np.arange(len(found)), output)
        step.keep = [*step.keep, found]
        return Planned([output], [step])


def _of_owner(batch):
    return int(np.asarray(batch.memory_owner[0] if isinstance(batch.memory_owner, list) else batch.memory_owner)[0])


LOOKS = {
    "names": lambda batch, iteration: [int(name[-6:-4]) for name in batch.source_info],
    "one name": lambda batch, iteration: [int(batch.source_info[1][-6:-4])] * len(batch),
    "joined names": lambda batch, iteration: [sum(" ".join(batch.source_info).encode())] * len(batch),
    "index": lambda batch, iteration: [iteration.index] * len(batch),
    "contents": lambda batch, iteration: [int(batch.sample(k).sum()) for k in range(len(batch))],
    "part": lambda batch, iteration: [int(batch.part(1, 2).sample(0)[0])] * len(batch),
    "owner": lambda batch, iteration: [_of_owner(batch)] * len(batch),
}
COVERED = {
    "shapes": lambda batch, iteration: batch.shapes[:, 0],
    "sizes": lambda batch, iteration: batch.sizes(),
    "type": lambda batch, iteration: [int(batch.dtype)] * len(batch),
    "layout": lambda batch, iteration: [len(batch.layout)] * len(batch),
    "size of the batch": lambda batch, iteration: [iteration.batch_size + batch.ndim + batch.itemsize] * len(batch),
    "presence of names": lambda batch, iteration: [int(batch.source_info is None)] * len(batch),
}


@pytest.fixture
def looker():
    register(Looker)
    yield Looker
    del REGISTRY["test_looker"]
    for module in (fn, ops):
        vars(module).pop("test_looker", None)


@pytest.fixture
def files(tmp_path):
    for k in range(FILES):
        (tmp_path / f"{k:02}.txt").write_bytes(bytes([65 + k]) * 10)
    return str(tmp_path)


@pytest.fixture
def copies(monkeypatch):
    """The number of plans that were copied, as a list of one number."""
    count = [0]
    planned = replays._Replay.planned

    def counted(self, *args):
        count[0] += 1
        return planned(self, *args)

    monkeypatch.setattr(replays._Replay, "planned", counted)
    monkeypatch.setattr(segments, "repeats_of", lambda operators, kept: None)  # count operators, not segments
    return count


def numbers(root, iterations=9):
    def graph():
        data, _ = fn.readers.file(files=[f"{root}/{k:02}.txt" for k in range(FILES)])
        return fn.test_looker(data)

    pipeline = pipeline_of(graph, batch_size=COUNT)
    try:
        return [values(pipeline.run()) for _ in range(iterations)]
    finally:
        pipeline.close()


@pytest.mark.parametrize("name", LOOKS)
def test_a_plan_that_looks_outside_of_its_key_is_made_in_every_iteration(name, looker, files, copies, monkeypatch):
    looker.look = staticmethod(LOOKS[name])
    found = numbers(files)
    assert copies == [0]
    monkeypatch.setattr(segments, "replays_of", lambda planned, operator: None)
    assert found == numbers(files)
    assert found[0] != found[1]


@pytest.mark.parametrize("name", COVERED)
def test_a_plan_that_looks_at_its_key_is_copied(name, looker, files, copies):
    looker.look = staticmethod(COVERED[name])
    found = numbers(files)
    assert copies[0] >= 6  # more iterations may be in flight
    assert found == [found[0]] * 9


def test_a_whole_segment_is_not_copied_either(looker, files):
    looker.look = staticmethod(LOOKS["names"])
    found = np.array(numbers(files, 9)).reshape(9, COUNT)
    assert found.tolist() == [[(3 * i + k) % FILES for k in range(COUNT)] for i in range(9)]


def test_an_operator_that_does_not_ask_for_copies_gets_none(looker, files, copies, monkeypatch):
    monkeypatch.setattr(looker, "repeatable", False)
    looker.look = staticmethod(COVERED["shapes"])
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
