"""A program between trainer and engine changes messages, in both directions. Every run ends with right data or an error, never a hang."""

from __future__ import annotations

import itertools
import json
import logging
import os
import pickle
import random
import threading
from collections import Counter

import numpy as np
import pytest
from helpers.between import Between, framed
from helpers.fleets import TOKEN, actors, batches_of
from helpers.marks import slow

from asyncdali import fn, pipeline_def
from asyncdali.fleet import loader, messages

LIMIT = 120
"""Seconds after which a call counts as a hang."""


def numbers(info):
    return np.int32([info.idx_in_epoch])


def ragged(info):
    return np.full((1 + info.idx_in_epoch % 3, 2), info.idx_in_epoch % 200, np.uint8)


@pipeline_def(batch_size=4, num_threads=1, seed=5, prefetch_queue_depth=2, enable_conditionals=True)
def train():
    number = fn.external_source(source=numbers, batch=False)
    pieces = fn.external_source(source=ragged, batch=False)
    if fn.random.coin_flip(probability=0.5):
        value = fn.random.uniform(range=[0, 1], shape=[1]) + 1
    else:
        value = number * 1.0
    return fn.random.uniform(range=[0, 1], shape=[3_000]), fn.copy(pieces), value, fn.python_function(number, function=double)


def double(value):
    return 2 * value


@pytest.fixture(scope="module")
def wanted():
    with loader(train) as batches:
        return batches_of(batches.pipeline, 400)


@pytest.fixture(scope="module")
def found_actors():
    with actors(train, 2) as found:
        yield found


@pytest.fixture(autouse=True)
def over_tcp(monkeypatch):
    monkeypatch.setattr("asyncdali.fleet.near.connect", lambda *_: None)
    monkeypatch.setattr("asyncdali.fleet.connections.SLOWEST_RETRY", 0.2)

    def refuse(*_args, **_options):
        raise AssertionError("something was unpickled")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)


class Changer:
    """Changes one frame after each :meth:`arm`."""

    def __init__(self):
        self.armed = None
        self.history = []

    def __call__(self, direction, header, body, payloads):
        armed = self.armed
        if armed is not None and armed[0] == direction:
            data = json.loads(header)
            found = armed[1](data, header, body, payloads)
            if found is not None:
                self.armed = None
                self.history.append((header[:1500], [piece[: 16 + 1500] for piece in found]))
                yield from found
                return
        yield framed(header, body, payloads)


def dumped(data, body=b"", payloads=b""):
    return [framed(json.dumps(data).encode(), body, payloads)]


def in_time(function):
    """The result of `function`, or its error."""
    found = []

    def call():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert found, "the call hangs"
    return found[0]


WRONG = (None, True, -1, 10**30, 1.5, "text", [], {}, [[]], {"a": 1}, ["bytes", "!"])
ANSWERS = {
    "no outputs": lambda data: data.pop("out"),
    "fewer outputs": lambda data: data["out"].pop(),
    "more outputs": lambda data: data["out"].append(data["out"][0]),
    "fewer samples": lambda data: data["out"][0].__setitem__(2, 3),
    "outputs of another type": lambda data: data.update(out={"0": 1}),
    "an entry of another type": lambda data: data["out"].__setitem__(1, "entry"),
    "a size of 10^30": lambda data: data["out"][0].__setitem__(4, [10**30]),
    "10^30 samples": lambda data: data["out"][0].__setitem__(2, 10**30),
    "a negative extent": lambda data: data["out"][0].__setitem__(4, [-3000]),
    "no duration": lambda data: data.pop("took"),
    "a duration of another type": lambda data: data.update(took="long"),
    "an unknown request": lambda data: data.update(a=[10**6, 0]),
    "a key of another type": lambda data: data.update(a="key"),
    "an index of 10^30": lambda data: data.update(a=[10**30, 0]),
    "an error of another type": lambda data: (data.pop("out"), data.update(error=17)),
    "an error without fields": lambda data: (data.pop("out"), data.update(error={})),
    "positions of no operator": lambda data: data.update(produced={"nobody": 3}),
    "positions that were lost": lambda data: data.update(moves=data["moves"] + 1),
    "no number of positions": lambda data: data.pop("moves"),
    "positions of another type": lambda data: data.update(produced=[1, 2]),
    "positions that jump": lambda data: data.update(produced=dict.fromkeys(data.get("produced", {"x": 0}), 10**30)),
    "another kind of message": lambda data: (data.pop("a"), data.update(answer=1)),
    "spans of another type": lambda data: data.update(spans=[1]),
    "a layout of another type": lambda data: data["out"][0].__setitem__(1, 3),
    "an unknown element type": lambda data: data["out"][0].__setitem__(0, 999),
    "an unknown form": lambda data: data["out"][0].__setitem__(8, 3),
    "a place outside": lambda data: data["out"][1].__setitem__(5, [0, 10**9]),
}


@pytest.mark.parametrize(
    "name, others", [*zip(ANSWERS, itertools.cycle((0, 1))), *slow(*zip(ANSWERS, itertools.cycle((1, 0))))]
)
def test_a_wrong_answer_is_the_engines_failure(found_actors, wanted, name, others):
    """The request is answered by the same engine after a new connection, or by another one."""

    def change(data, header, body, payloads):
        if "a" not in data or "out" not in data:
            return None
        ANSWERS[name](data)
        return dumped(data, body, payloads)

    changer = Changer()
    changer.armed = "to trainer", change
    one, two = found_actors
    with Between(one.address, change=changer) as between:
        engines = [between.address, two.address][: 1 + others]
        with loader(train, engines=engines, token=TOKEN, hedge_after=None, reconnect_timeout=30) as batches:
            assert in_time(lambda: batches_of(batches.pipeline, 6)) == wanted[:6]
            assert changer.armed is None and batches.engines()[0]["restarts"] == 1


def test_an_engine_that_is_always_wrong_leaves_the_work_to_others(found_actors, wanted):
    def change(direction, header, body, payloads):
        data = json.loads(header)
        if direction == "to trainer" and "out" in data:
            data["out"].pop()
        yield from dumped(data, body, payloads)

    one, two = found_actors
    with Between(one.address, change=change) as between:
        with loader(train, engines=[between.address, two.address], token=TOKEN, hedge_after=None) as batches:
            assert in_time(lambda: batches_of(batches.pipeline, 20)) == wanted[:20]
        with loader(train, engines=[between.address], token=TOKEN, hedge_after=None) as batches:
            error = in_time(lambda: batches_of(batches.pipeline, 1))
            assert isinstance(error, RuntimeError) and "4 engines ended or answered wrongly" in str(error), error
            assert "`out` is list of 3, a list of 4 is expected" in str(error)


@pytest.mark.parametrize("field", ["ready", "is", "statistics"])
def test_other_messages_of_another_type(found_actors, wanted, field):
    """A wrong greeting or report ends the connection. The next connection works."""
    one, _ = found_actors
    for value in WRONG:
        if field == "is" and isinstance(value, dict):
            continue  # a description that differs: the engine is refused

        def change(data, header, body, payloads, value=value):
            return dumped({**data, field: value}, body, payloads) if field in data and type(value) is not type(data[field]) else None

        changer = Changer()
        changer.armed = "to trainer", change
        with Between(one.address, change=changer) as between, loader(train, engines=[between.address], token=TOKEN) as batches:
            assert in_time(lambda pipe=batches.pipeline: batches_of(pipe, 2)) == wanted[:2]
            if field == "statistics":
                in_time(batches.pipeline.statistics)
                in_time(batches.pipeline.statistics)
            assert in_time(lambda pipe=batches.pipeline: batches_of(pipe, 2)) == wanted[2:4]


def test_a_fed_batch_is_checked_like_an_answer():
    body, payloads = memoryview(b"x" * 16), [np.zeros(64, np.uint8)]
    good = [0, "", 4, 1, [4], None, None, None, 1, 0, 16]
    assert len(messages.batch(good, body, payloads)) == 4
    for k in range(len(good)):
        for value in (*WRONG, 5, 10**6, -5):
            if value == good[k] or (k == 1 and value == "text") or (k in (5, 6, 7) and value is None):
                continue
            with pytest.raises(messages.WrongMessage):
                messages.batch([*good[:k], value, *good[k + 1 :]], body, payloads)
    for entry in ([0, "", 4, 1, [4], None, None, None, 2, 0, 49, 0], [0, "", 4, 1, [4], None, None, None, 3, 0, 0, 0, [0, 32]]):
        with pytest.raises(messages.WrongMessage):
            messages.batch(entry, body, payloads)
    huge = np.int64([[1 << 32, 1 << 32]] * 4).tobytes()  # the 64-bit products are 0
    with pytest.raises(messages.WrongMessage, match="too large"):
        messages.batch([0, "", 4, 2, None, [0, 64], None, None, 1, 0, 0], memoryview(huge), [])


# ------------------------------------------------------------------------------------------------------------------- fuzzing


def paths_of(data, path=()):
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from paths_of(value, (*path, key))


def replaced(data, path, value, remove=False):
    """`data` with another value at `path`, or without it."""
    if not path:
        return value
    data = dict(data) if isinstance(data, dict) else list(data)
    if remove and len(path) == 1:
        del data[path[0]]
    else:
        data[path[0]] = replaced(data[path[0]], path[1:], value, remove)
    return data


def mutation(choose):
    """(name, function) of a random change of a frame."""
    kind = choose.choice(["field"] * 6 + ["missing"] * 2 + ["twice", "lost", "cut", "prefix", "bytes", "added", "body"])

    def change(data, header, body, payloads):
        if kind in ("field", "missing"):
            path = choose.choice([path for path in paths_of(data) if path])
            old = data
            for part in path:
                old = old[part]
            value = choose.choice([value for value in WRONG if type(value) is not type(old) or value in (-1, 10**30)])
            return dumped(replaced(data, path, value, kind == "missing"), body, payloads)
        whole = framed(header, body, payloads)
        if kind == "twice":
            return [whole, whole]
        if kind == "lost":
            return []
        if kind == "cut":  # by more than follows: other bytes at the same places of a payload are the contents of another batch
            following = framed(b"{}", b"", b"")
            return [whole[: choose.randrange(max(1, len(whole) - 2 * len(following)))], b"", following]
        if kind == "prefix":
            field = choose.choice(["text", "size", "total"])
            return [framed(header, body, payloads, **{field: choose.choice([0, 1, 2**31, 2**32 - 1, len(header) + 1])})]
        if kind == "bytes":
            raw = bytearray(header)
            for _ in range(choose.randrange(1, 4)):
                raw[choose.randrange(len(raw))] = choose.choice(b'{}[]",:x\x00\xff')
            return [framed(bytes(raw), body, payloads)]
        if kind == "added":
            return [choose.randbytes(choose.randrange(1, 100)), whole]
        return [framed(header, body[: len(body) // 2], payloads)]

    return kind, change


def fuzz(found_actors, wanted, count, seed):
    """Change `count` messages. Returns how the calls ended, by kind of change."""
    choose = random.Random(seed)
    one, two = found_actors
    outcome, done = Counter(), 0
    while done < count:
        changer = Changer()
        with Between(one.address, change=changer) as between:
            engines = [between.address, two.address][: choose.choice([1, 1, 2])]
            options = {"hedge_after": None, "reconnect_timeout": 20, "engine_timeout": 2}
            with loader(train, engines=engines, token=TOKEN, **options) as batches:
                got = in_time(lambda pipe=batches.pipeline: batches_of(pipe, 1))
                assert got == wanted[:1], got
                for number in range(1, 390):
                    kind, change = mutation(choose)
                    direction = choose.choice(["to engine", "to trainer"])
                    changer.armed = direction, change
                    got = in_time(lambda pipe=batches.pipeline: batches_of(pipe, 1))
                    done += 1
                    if isinstance(got, Exception):
                        assert isinstance(got, RuntimeError), got
                        outcome[kind, direction, "error"] += 1
                        if "no engine can be reached" in str(got):
                            break
                    else:
                        assert got == wanted[number : number + 1], (number, changer.history[-3:])
                        outcome[kind, direction, "right"] += 1
                    if done >= count:
                        break
    with loader(train, engines=[one.address], token=TOKEN) as batches:  # the actor works as before
        assert in_time(lambda: batches_of(batches.pipeline, 3)) == wanted[:3]
    return outcome


def test_changed_messages_end_with_right_data_or_an_error(found_actors, wanted, caplog):
    outcome = fuzz(found_actors, wanted, 20, 1)  # the slow test has 2,000
    assert sum(outcome.values()) == 20
    assert "unexpected error" not in caplog.text


@pytest.mark.slow
def test_thousands_of_changed_messages(found_actors, wanted, caplog):
    count, seed = int(os.environ.get("ASYNCDALI_FUZZ", "2000")), int(os.environ.get("ASYNCDALI_SEED", "7"))
    logging.getLogger("asyncdali").setLevel(logging.ERROR)
    outcome = fuzz(found_actors, wanted, count, seed)
    print(sum(outcome.values()), "changed messages:", *(f"{' '.join(key)}: {value};" for key, value in sorted(outcome.items())))
    assert "unexpected error" not in caplog.text


def test_the_program_between_leaves_no_thread():
    """Threads that stayed in `accept` took 90 descriptors from later tests of the session."""
    before = set(threading.enumerate())
    with Between("127.0.0.1:1"):
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before
