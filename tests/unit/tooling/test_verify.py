"""The check of users' pipelines: it names each planted fault, and accepts sound programs."""

from __future__ import annotations

import datetime
import functools
import itertools
import os
import random
import time
from datetime import date
from typing import ClassVar

import numpy as np
import pytest
from helpers.dali_twins import Program, write_files

import asyncdali
from asyncdali import fn, pipeline_def, types
from asyncdali.__main__ import main
from asyncdali.testing import check
from asyncdali.tooling.verify_runs import verify

PICTURES = os.path.join(os.path.dirname(asyncdali.__file__), "data", "pictures")


def piped(source, *, more=lambda data: data, **options):
    """A function that makes a pipeline with the source that `source()` makes."""

    def make():
        pipe = asyncdali.Pipeline(batch_size=2, num_threads=2, seed=4)
        with pipe:
            data = fn.external_source(source(), name="S", **options)
            pipe.set_outputs(more(data), fn.random.uniform(name="U"))
        return pipe

    return make


class Counting:
    def __init__(self):
        self.count = 0

    def __call__(self, info):
        self.count += 1
        return np.int64(self.count)


class Source:
    """An iterator with a state, by default a sound one."""

    def __init__(self):
        self.seen = []

    def __iter__(self):
        return self

    def __next__(self):
        self.seen.append(len(self.seen))
        return [np.array([sum(self.seen)])] * 2

    def state_dict(self):
        return {"seen": list(self.seen)}

    def load_state_dict(self, state):
        self.seen = list(state["seen"])


class OffByOne(Source):
    def state_dict(self):
        return {"seen": self.seen[:-1]}


class Sharing(Source):
    """All instances share one list."""

    shared: ClassVar[list] = []

    def __init__(self):
        self.seen = Sharing.shared


class Forgetting(Source):
    """It does not load what it has saved."""

    def load_state_dict(self, state):
        pass


def generated():
    def source():
        for k in itertools.count():
            yield [np.array([k])] * 2

    return source


CACHE = {}


def leaking(info):
    """Returns what an earlier run has left in the cache of a module."""
    found = CACHE.get(info.idx_in_epoch, np.int64(info.idx_in_epoch))
    CACHE[info.idx_in_epoch] = found + 1
    return found


FILLED = {}
ORDER = itertools.count()


def filled(info):
    """Returns what a cache was filled with by the first call."""
    return FILLED.setdefault(info.idx_in_epoch % 5, np.int64(info.iteration))


@functools.lru_cache
def numbered(key):
    return next(ORDER)


def remembered(info):
    """A table that only saves time."""
    return KNOWN.setdefault(info.idx_in_epoch, np.int64(info.idx_in_epoch**2))


KNOWN = {}


def timed(info):
    """The clock is used, but not for the data."""
    begin = time.time(), datetime.datetime.now(), date.today()
    assert isinstance(begin[1], datetime.datetime) and isinstance(begin[1], datetime.date) and datetime.datetime(2020, 1, 1).year == 2020
    return np.int64(info.idx_in_epoch) if time.time() >= begin[0] else None


def by_process(info):
    return np.int64(os.getpid())


FAULTS = {
    "a counter in the source": (piped(Counting, batch=False), "restore", "'S'"),
    "random without a seed": (piped(lambda: lambda info: np.float64(random.random()), batch=False), "again", "global random generators"),
    "numpy's global generator": (piped(lambda: lambda info: np.random.rand(), batch=False), "again", "global random generators"),
    "the clock": (piped(lambda: lambda info: np.int64(time.perf_counter_ns()), batch=False), "again", "uses the clock"),
    "a generator without a state": (piped(generated), "restore", "state is not in the checkpoint"),
    "a state that shares a list": (piped(Sharing), "again", "outlives the pipeline"),
    "a state that is not loaded": (piped(Forgetting), "restore", "did not keep the given state"),
    "an off-by-one in state_dict": (piped(OffByOne), "restore", "counts only what it has returned"),
    "the second": (piped(lambda: lambda info: np.int64(time.time()), batch=False), "clock", "uses the clock"),
    "the hour": (piped(lambda: lambda info: np.int64(time.localtime().tm_hour), batch=False), "clock", "uses the clock"),
    "the day": (piped(lambda: lambda info: np.int64(date.today().toordinal()), batch=False), "clock", "uses the clock"),
    "the year": (piped(lambda: lambda info: np.int64(datetime.datetime.now().year), batch=False), "clock", "uses the clock"),
    "a cache that a new process has not": (piped(lambda: filled, batch=False), "restore", "Globals of modules"),
    "a cached function": (piped(lambda: lambda info: np.int64(numbered(info.idx_in_epoch)), batch=False), "restore", "(a cache)"),
    "a cache that leaks": (piped(lambda: leaking, batch=False), "again", "outlives the pipeline"),
    "seeds of workers": (piped(lambda: by_process, batch=False, parallel=True), "again", "'S'"),
    "a function of the user": (
        piped(lambda: lambda info: np.float64(1), batch=False,
              more=lambda data: fn.python_function(data, function=lambda x: x + time.perf_counter(), name="P")),
        "again", "'P'",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name):
    CACHE.clear()
    FILLED.clear()
    numbered.cache_clear()
    Sharing.shared.clear()
    make, kind, text = FAULTS[name]
    with pytest.raises(AssertionError) as caught:
        check(make, steps=8, restores=2)
    message = str(caught.value)
    assert text in message
    if kind != "clock":  # the second, and even the year, may also change between two runs
        assert ("in another run" in message or "global random" in message) == (kind == "again")
    assert "test_verify.py" in message or "did not keep" in message


@pipeline_def(batch_size=3, num_threads=2, seed=7)
def training(shuffle, noise):
    encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=shuffle, initial_fill=9)
    images = fn.random_resized_crop(fn.decoders.image_random_crop(encoded), size=8)
    if noise:
        images = fn.noise.gaussian(images, stddev=fn.random.uniform(range=(0, 9)))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT), label


@pipeline_def(batch_size=3, num_threads=2, enable_conditionals=True)
def branching(limit):
    value = fn.random.uniform(range=(0, 1))
    if value > limit:
        value = fn.random.normal(value)
    return value * 2


def ending(info):
    if info.iteration >= 3:
        raise StopIteration
    return np.int64(info.idx_in_epoch + 100 * info.epoch_idx)


SOUND = {
    **{f"training {shuffle} {noise}": lambda s=shuffle, n=noise: training(s, n) for shuffle in (True, False) for noise in (True, False)},
    **{f"conditionals {limit}": lambda x=limit: branching(x) for limit in (0.1, 0.5, 0.9)},
    "a source by position": piped(lambda: lambda info: np.random.default_rng(info.idx_in_epoch).random(3), batch=False),
    "a table of results": piped(lambda: remembered, batch=False),
    "a source that looks at the clock": piped(lambda: timed, batch=False),
    "a source of batches": piped(lambda: lambda number: [np.array([number, k]) for k in range(2)]),
    "a source with a state": piped(Source),
    "a source that ends": piped(lambda: ending, batch=False),
    "a parallel source": piped(lambda: ending, batch=False, parallel=True),
    "a function of the user": piped(lambda: ending, batch=False, more=lambda data: fn.python_function(data, function=lambda x: x + 1)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_pass(name):
    check(SOUND[name], steps=4 if "parallel" in name else 7, restores=1)  # in both, the epoch of three batches ends


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(50))
def test_random_sound_programs_pass(seed, tmp_path):
    write_files(tmp_path)
    check(lambda: Program(seed, tmp_path).make(asyncdali), steps=8, restores=2)


def test_modules_get_back_their_clocks():
    before = time, datetime, date
    with pytest.raises(AssertionError, match="uses the clock"):
        check(FAULTS["the day"][0], steps=3, restores=0)
    assert (time, datetime, date) == before and date.today() == datetime.date.today()


def test_global_generators_get_back_their_state():
    random.seed(5)
    np.random.seed(5)
    expected = random.Random(5).random(), np.random.RandomState(5).rand()
    check(lambda: branching(0.5), steps=3, restores=0)
    assert (random.random(), np.random.rand()) == expected


def placed(data):
    """A function that takes the number of its calls for the place in the batch of two samples."""
    calls = itertools.count()
    return fn.python_function(data, function=lambda sample: np.int64(next(calls) % 2))


def test_a_function_that_counts_the_samples_of_a_batch_differs_on_ranks():
    [fault] = verify(piped(lambda: lambda info: np.int64(0), batch=False, more=placed), steps=5, restores=1)
    assert fault.check == "ranks" and "gives other data on 3 ranks" in str(fault) and "test_verify.py" in fault.line


def test_ranks_are_compared_behind_ends_of_epochs():
    assert verify(SOUND["a source that ends"], steps=9, restores=2) == []


def test_wrong_arguments():
    with pytest.raises(TypeError, match="takes a function that makes the pipeline"):
        check(branching(0.5))
    with pytest.raises(TypeError, match="returned a int"):
        check(lambda: 3)
    with pytest.raises(ValueError, match="steps is 2"):
        check(lambda: branching(0.5), steps=2)

    def built():
        pipe = branching(0.5)
        pipe.build()
        return pipe

    with pytest.raises(RuntimeError, match="built already"):
        check(built)


PROGRAM = """
import os
import numpy as np
from asyncdali import fn, pipeline_def

PLACE = os.path.abspath(__file__) + ".pid"


def source(info):
    table = source.__dict__.setdefault("table", {{}})
    return np.int64({wrong})


@pipeline_def(batch_size=2, num_threads=1, seed=1)
def train():
    return fn.external_source(source, batch=False), fn.random.uniform()
"""


COMMANDS = {
    "table.setdefault(info.idx_in_epoch % 3, info.iteration)": "gives other data in another process",
    "os.getpid()": "gives other data in engines",
    "info.idx_in_epoch": "4 steps are the same",
}


@pytest.mark.parametrize("data", COMMANDS)
def test_the_command_runs_other_processes(tmp_path, capfd, data):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.format(wrong=data))
    assert main(["verify", f"{program}:train", "--steps", "4"]) == int(data != "info.idx_in_epoch")
    said = capfd.readouterr()
    assert COMMANDS[data] in said.out and "num_threads" not in said.err  # verify itself chose other numbers of threads
    assert main(["verify", f"{program}:train", "--steps", "2"]) == 2


def test_the_command_says_what_was_not_run(tmp_path, capsys, monkeypatch):
    from asyncdali.tooling import verify_runs

    def refusing(make, steps, *given, part=None, **options):
        if part is not None:
            raise RuntimeError("its ranks cannot share a batch")
        return run(make, steps, *given, **options)

    run = verify_runs.run
    monkeypatch.setattr(verify_runs, "run", refusing)
    program = tmp_path / "drawing.py"
    program.write_text(
        "from asyncdali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=2, num_threads=1, seed=1, enable_checkpointing=True)\n"
        "def train():\n"
        "    return fn.random.uniform()\n"
    )
    assert main(["verify", f"{program}:train", "--steps", "4"]) == 0
    said = capsys.readouterr().out
    assert "4 steps are the same in a second run" in said and said.splitlines()[0].endswith("with other numbers of threads")
    assert "not run: ranks, because its ranks cannot share a batch" in said
