"""Engines on other machines give the batches of one process, in order, whatever happens to the engines."""

from __future__ import annotations

import errno
import itertools
import os
import random
import socket
import threading
import time

import cv2
import numpy as np
import pytest
from helpers import fleet_program
from helpers.engines import data_files
from helpers.fleets import PROGRAM, TOKEN, actors, batches_of, processes

from asyncdali import fn, pipeline_def, types
from asyncdali.__main__ import main
from asyncdali.fleet import Actor, actor, connections, loader, near, patience
from asyncdali.fleet.actor import Peer
from asyncdali.tooling.program import load

BATCH = 12


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    files = data_files(tmp_path_factory.mktemp("files"), 29)

    @pipeline_def(batch_size=BATCH, num_threads=1, seed=5)
    def train():
        data, labels = fn.readers.file(files=files, name="reader", random_shuffle=True)
        drawn = fn.random.uniform(range=[0, 100])
        noise = fn.random.normal(shape=[90, 70]) * drawn  # too large to be sent inside the frame
        numbered = fn.external_source(source=lambda info: np.int32([info.idx_in_epoch]), batch=False)
        fed = fn.external_source(source=lambda info: np.full(20_000, info.idx_in_epoch, np.int32), batch=False)
        return data, labels, drawn, noise, numbered, fed[5:], fn.python_function(drawn, function=lambda value: value / 2)

    return train


@pytest.fixture(scope="module")
def three(train):
    with actors(train, 3) as found:
        yield [actor.address for actor in found]


def run_fleet(train, count, engines, iterations, checkpoint=None, **options):
    """The concatenated batches of all ranks, and the checkpoint, which all ranks share."""
    options = options if isinstance(engines, int) else {"token": TOKEN, **options}
    ranks = [loader(train, rank=r, world_size=count, engines=engines, checkpoint=checkpoint, **options) for r in range(count)]
    parts = [batches_of(rank.pipeline, iterations) for rank in ranks]
    found = [[list(itertools.chain(*outputs)) for outputs in zip(*iteration)] for iteration in zip(*parts)]
    saved = {rank.checkpoint() for rank in ranks}
    assert len(saved) == 1
    for rank in ranks:
        rank.close()
    return found, saved.pop()


# --- one order


@pytest.fixture
def far(monkeypatch):
    """Treat all engines as engines on other machines, so that batches are sent by TCP."""
    monkeypatch.setattr(near, "connect", lambda place, timeout: None)


@pytest.mark.usefixtures("far")
def test_actors_and_ranks_give_the_batches_of_one_process(train, three):
    wanted, saved = run_fleet(train, 1, 0, 5)
    for count, ranks in ((1, 1), (2, 3), (3, 2), (3, 1)):
        assert run_fleet(train, ranks, three[:count], 5) == (wanted, saved), (count, ranks)
    assert len(saved) <= 8192


def test_actors_of_this_machine_share_their_memory(train, three):
    wanted, saved = run_fleet(train, 1, 0, 5)
    assert run_fleet(train, 2, three, 5) == (wanted, saved)
    with Actor(train, token=TOKEN) as actor:
        with loader(train, engines=[actor.address], token=TOKEN) as batches:
            held = batches.pipeline.run()
            (item,) = batches.engines()
            assert item["near"] and item["bytes"] > BATCH * 90 * 70 * 4
            kept = [batches.pipeline.run() for _ in range(near.MOST_LENT + 3)]  # more batches than an engine lends
            assert batches.engines()[0]["restarts"] == 0
            del kept
        was = [[np.array(sample) for sample in output] for output in held]
        # The loader was freed, but its batches are in use. The engine must not reuse their memory.
        with loader(train, engines=[actor.address], token=TOKEN) as batches:
            assert batches_of(batches.pipeline, 5) == wanted
        assert [[np.array_equal(*pair) for pair in zip(*outputs)] for outputs in zip(was, held)] == [[True] * BATCH] * len(was)


def test_a_checkpoint_resumes_under_another_fleet(train, three):
    wanted, saved_last = run_fleet(train, 1, 0, 7)
    for before, after in (((2, three[:1]), (1, 0)), ((1, 0), (3, three)), ((3, three[1:]), (2, 2))):
        first, saved = run_fleet(train, *before, 3)
        second, last = run_fleet(train, *after, 4, saved)
        assert first + second == wanted and last == saved_last


@pytest.mark.slow
def test_two_hundred_combinations(train, three):
    with Actor(train, token=TOKEN, engines=2) as actor:
        combinations(train, [0, 2, three[:1], three[:2], three, [actor.address], [actor.address, *three]])


def combinations(train, choices):
    for number in range(200):
        choose = random.Random(number)
        place = choose.randint(0, 6)
        if number == 0:
            wanted, _ = run_fleet(train, 1, 0, 9)
        first, saved = run_fleet(train, choose.choice([1, 2, 3, 4, 6]), choose.choice(choices), place)
        second, _ = run_fleet(train, choose.choice([1, 2, 3, 4, 6]), choose.choice(choices), 9 - place, saved)
        assert first + second == wanted, number


def test_draws_in_branches_and_whole_batches():
    @pipeline_def(batch_size=6, num_threads=1, seed=3, enable_conditionals=True)
    def branching():
        number = fn.random.uniform(range=[0, 1])
        if number > 0.5:
            drawn = fn.random.normal(number)
        else:
            drawn = fn.random.normal(number, mean=5.0)
        return fn.permute_batch(number, indices=fn.batch_permutation()), drawn

    wanted, _ = run_fleet(branching, 1, 0, 6)
    with actors(branching, 2) as found:
        addresses = [actor.address for actor in found]
        assert run_fleet(branching, 2, addresses, 6)[0] == wanted
    with Actor(branching, token=TOKEN, engines=2) as actor:
        assert run_fleet(branching, 2, [actor.address], 6)[0] == wanted


def test_actors_have_engines(train, three):
    wanted, saved = run_fleet(train, 1, 0, 5)
    with Actor(train, token=TOKEN, engines=2) as actor:
        assert run_fleet(train, 1, [actor.address], 5) == (wanted, saved)
        assert run_fleet(train, 3, [actor.address, *three[:2]], 5) == (wanted, saved)


def test_an_actor_with_engines_names_the_sample_that_ends_them():
    def ends(number):
        if number == 10:
            os._exit(1)
        return number

    @pipeline_def(batch_size=6, num_threads=1, seed=3)
    def train():
        return fn.python_function(fn.external_source(source=lambda k: np.arange(6) + 6 * k), function=ends)

    with Actor(train, token=TOKEN, engines=1) as actor, loader(train, engines=[actor.address], token=TOKEN) as batches:
        assert len(batches.pipeline.run()[0]) == 6
        with pytest.raises(RuntimeError, match="Sample 4 does so by itself") as caught:
            batches.pipeline.run()
        assert caught.value.sample == 4 and caught.value.iteration == 1
        assert len(batches.pipeline.run()[0]) == 6
        assert batches.engines()[0]["restarts"] == 0


def test_errors_name_the_sample_in_the_global_batch():
    def fails(number):
        if number == 4:
            raise ValueError("four")
        return number

    @pipeline_def(batch_size=6, num_threads=1, seed=3)
    def train():
        return fn.python_function(fn.external_source(source=lambda k: np.arange(6) + 6 * k), function=fails)

    with actors(train, 1) as (actor,), loader(train, rank=2, world_size=3, engines=[actor.address], token=TOKEN) as batches:
        with pytest.raises(RuntimeError, match="sample 4") as caught:
            batches.pipeline.run()
        assert caught.value.sample == 4
        assert batches_of(batches.pipeline, 1)[0][0] == [np.int64(10).tobytes(), np.int64(11).tobytes()]


# --- actors that die, stop, come and go


def test_batches_do_not_change_if_actors_die_or_stop(tmp_path):
    """One of three processes kills itself at position 17. Another one stops itself (SIGSTOP) at position 67."""
    with loader(fleet_program.train) as batches:
        wanted = batches_of(batches.pipeline, 10)
    with (
        processes(tmp_path, 3, FLEET_FAULTS=os.fspath(tmp_path)) as addresses,
        loader(fleet_program.train, engines=addresses, token=TOKEN, hedge_compare=True) as batches,
    ):
        assert batches_of(batches.pipeline, 10) == wanted
        assert (tmp_path / "17").exists() and (tmp_path / "67").exists()
        assert sum(item["hedged"] for item in batches.engines()) >= 1  # a stopped process does not answer


def test_actors_may_be_added_and_removed(train):
    wanted, _ = run_fleet(train, 1, 0, 8)
    with Actor(train, token=TOKEN) as second:
        first = Actor(train, token=TOKEN)
        with loader(train, engines=[first.address], token=TOKEN) as batches:
            found = batches_of(batches.pipeline, 2)
            batches.add_engine(second.address)
            batches.remove_engine(first.address)
            found += batches_of(batches.pipeline, 4)
            first.close()
            found += batches_of(batches.pipeline, 2)
            assert found == wanted
            assert [item["address"] for item in batches.engines()] == [second.address]


def test_an_actor_that_starts_again_is_connected_again(monkeypatch, train):
    """The limit applies to the time without any engine, not to the time since the first connection."""
    ahead = 0.0
    monkeypatch.setattr(connections, "monotonic", lambda: time.monotonic() + ahead)
    wanted, _ = run_fleet(train, 1, 0, 8)
    actor = Actor(train, token=TOKEN)
    with loader(train, engines=[actor.address], token=TOKEN) as batches:
        found = batches_of(batches.pipeline, 3)
        ahead = 1e6
        actor.close()
        with Actor(train, token=TOKEN, listen=actor.address):
            found += batches_of(batches.pipeline, 5)
            assert found == wanted and batches.engines()[0]["restarts"] == 1


def test_a_second_answer_is_compared(monkeypatch):
    """Two engines get the number 5 and return different numbers. The first engine waits for the second one, so both answers arrive."""
    monkeypatch.setattr(patience, "UNKNOWN", 0.05)
    calls, both = itertools.count(), threading.Event()

    def differs(number):
        if number == 5:
            if next(calls) == 1:
                both.set()
                return number + 1
            both.wait(300)
        return number

    @pipeline_def(batch_size=4, num_threads=1, seed=3)
    def train():
        return fn.python_function(fn.external_source(source=lambda k: np.arange(4) + 4 * k), function=differs)

    with actors(train, 2) as found, loader(train, engines=[actor.address for actor in found], token=TOKEN, hedge_compare=True) as batches:
        with pytest.raises(RuntimeError, match=r"made other data for iteration 1 .*hedge_compare"):
            for _ in range(1000):
                batches.pipeline.run()
        assert sum(item["late"] for item in batches.engines()) >= 1


def test_an_iteration_that_ends_engines_fails_and_names_them(monkeypatch, train):
    """Engines end while they compute the second iteration, until the loader gives up."""
    ended = []
    original = Peer._answer

    def answer(self, header, batches):
        if "a" in header and header["a"][0] == 1 and len(ended) < connections.LOSSES:
            ended.append(header)
            self.close()
        else:
            original(self, header, batches)

    monkeypatch.setattr(Peer, "_answer", answer)
    with actors(train, 1) as (actor,), loader(train, engines=[actor.address], token=TOKEN) as batches:
        first = batches_of(batches.pipeline, 1)
        with pytest.raises(RuntimeError, match=f"4 engines ended while they made this iteration: {actor.address}") as caught:
            batches.pipeline.run()
        assert caught.value.iteration == 1
        rest = batches_of(batches.pipeline, 1)
    wanted, _ = run_fleet(train, 1, 0, 3)
    assert first + rest == [wanted[0], wanted[2]]


def test_epochs_end_as_in_one_process(tmp_path):
    files = data_files(tmp_path, 10)

    @pipeline_def(batch_size=4, num_threads=1, seed=1)
    def train():
        return fn.readers.file(files=files, name="reader", random_shuffle=True)[1]

    def epochs(engines, **options):
        with loader(train, rank=1, world_size=2, engines=engines, **options) as batches:
            found = [[[int(label[0]) for label in map(np.asarray, labels)] for (labels,) in batches] for _ in range(3)]
            return found, batches.checkpoint()

    with actors(train, 2) as found:
        assert epochs([actor.address for actor in found], token=TOKEN) == epochs(0)


def test_the_error_names_the_actors_when_none_is_left(train):
    actor = Actor(train, token=TOKEN)
    with loader(train, engines=[actor.address], token=TOKEN, reconnect_timeout=0) as batches:
        batches.pipeline.run()
        actor.close()
        with pytest.raises(RuntimeError, match=f"no engine can be reached .*{actor.address}: "):
            for _ in range(10):
                batches.pipeline.run()


def test_an_actor_that_differs_is_refused(train):
    for options, text in (({"seed": 6}, "graph, seed: 5 here, 6 there"), ({"batch_size": 13}, "batch size: 12 here, 13 there")):
        with Actor(train, token=TOKEN, **options) as actor:
            batches = loader(train, engines=[actor.address], token=TOKEN)
            with pytest.raises(RuntimeError, match=text):
                batches.pipeline.build()
            batches.close()


COUNTING = """
import gc

import numpy as np

from asyncdali import fn, pipeline_def


def count(number):
    return np.int64([gc.get_freeze_count(), len(gc.get_objects())])


@pipeline_def(batch_size=1, num_threads=1, seed=1)
def train():
    return fn.python_function(fn.random.uniform(range=[0, 1]), function=count)
"""


def test_the_command_excludes_its_modules_from_garbage_collection(tmp_path):
    """Without this, engines ran a full collection of 150,000 objects (70 ms) within their first 200 iterations."""
    program = tmp_path / "counting.py"
    program.write_text(COUNTING)
    train = load(f"{program}:train")
    with processes(tmp_path, 1, f"{program}:train") as addresses, loader(train, engines=addresses, token=TOKEN) as batches:
        (counts,) = batches.pipeline.run()
        frozen, others = np.asarray(counts[0]).tolist()
        assert frozen > 2 * others, "most objects are those of imported modules, however many the environment has"


# --- arguments


def test_wrong_arguments(train):
    for words, text in (
        ({"engines": ["nowhere"], "token": TOKEN}, "'nowhere' is no address"),
        ({"engines": ["h:1", "h:1"], "token": TOKEN}, "twice"),
        ({"engines": ["h:1"]}, "need `token`"),
        ({"engines": ["h:1"], "token": b"short"}, "at least 16"),
        ({"engines": ["h:1"], "token": TOKEN, "hedge_after": 0.5}, "hedge_after=0.5"),
        ({"engines": ["h:1"], "token": TOKEN, "buffer_bytes": 0}, "buffer_bytes=0"),
        ({"engines": 1, "token": TOKEN}, "on other machines"),
    ):
        with pytest.raises(ValueError, match=text):
            loader(train, **words)
    with pytest.raises(TypeError, match=r"give \['h:1'\]"):
        loader(train, engines="h:1", token=TOKEN)
    with pytest.raises(RuntimeError, match="no engines on other machines"):
        loader(train).add_engine("h:1")
    with pytest.raises(ValueError, match="no seed"):
        Actor(lambda **options: pipeline_def(lambda: fn.random.uniform())(batch_size=2, num_threads=1, **options), token=TOKEN)
    with pytest.raises(OSError, match=r"cannot listen on 203.0.113.1:1: .*Give an address of this machine"):
        Actor(train, listen="203.0.113.1:1", token=TOKEN)
    with pytest.raises(OSError, match=r"cannot listen on no-such-host.invalid:1: .*Give an address of this machine"):
        Actor(train, listen="no-such-host.invalid:1", token=TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as other:
        used = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen on {used}: .*give another port, or port 0") as caught:
            Actor(train, listen=used, token=TOKEN)
        assert caught.value.errno == errno.EADDRINUSE


def test_metrics_have_every_rank_and_engine(train):
    with Actor(train, token=TOKEN) as actor:
        with loader(train, rank=1, world_size=2, engines=[actor.address], token=TOKEN) as batches:
            batches_of(batches.pipeline, 3)
            (item,) = batches.engines()
            assert item["answered"] >= 3 and item["bytes"] > 3 * 6 * 20_000 and item["busy_seconds"] > 0 and item["late"] == 0
            assert f'asyncdali_engine_answered_total{{rank="1",engine="{actor.address}"}} {item["answered"]}' in batches.metrics()
        rank = actor.statistics()["ranks"]["1"]
        assert rank["answered"] >= 3 and rank["bytes"] > 3 * 6 * 20_000
        assert f'asyncdali_actor_bytes_total{{engine="{actor.address}",rank="1"}} ' in actor.metrics()


def test_statistics_of_a_busy_engine_end_with_an_error(train, monkeypatch):
    gate = threading.Event()
    with Actor(train, token=TOKEN) as engine:
        engine._loop.call(gate.wait, 60)
        monkeypatch.setattr(actor, "LOOK", 0.05)
        try:
            with pytest.raises(TimeoutError, match=f"the engine {engine.address} has not counted its work within 0.05 s"):
                engine.statistics()
        finally:
            gate.set()
        monkeypatch.setattr(actor, "LOOK", 60.0)
        assert engine.statistics()["connections"] == 0


def test_batches_are_sent_before_the_conversion_to_floats(tmp_path):
    """Engines send bytes, and the training process converts them to floats."""
    pictures = np.random.default_rng(1).integers(0, 255, (6, 60, 80, 3), np.uint8)
    images = [os.fspath(tmp_path / f"{k}.png") for k in range(6)]
    for path, picture in zip(images, pictures):
        cv2.imwrite(path, picture)

    @pipeline_def(batch_size=4, num_threads=1, seed=3)
    def train():
        pictures = fn.decoders.image(fn.readers.file(files=images)[0])
        small = fn.resize(pictures, size=[120, 160], name="small")
        mirrored = fn.crop_mirror_normalize(small, mirror=fn.random.coin_flip(), mean=[1.0, 2.0, 3.0])
        return mirrored, fn.cast(fn.crop_mirror_normalize(small) * 2, dtype=types.UINT8)

    wanted, _ = run_fleet(train, 1, 0, 3)
    with Actor(train, token=TOKEN) as actor:
        assert run_fleet(train, 2, [actor.address], 3)[0] == wanted
        with loader(train, engines=[actor.address], token=TOKEN) as batches:
            batches_of(batches.pipeline, 3)
            (item,) = batches.engines()
            small, widened = 4 * 120 * 160 * 3, 4  # the second output is bytes, so engines compute it
            assert item["answered"] * 2 * small < item["bytes"] < item["answered"] * 2 * small * 1.1 < item["answered"] * widened * small
        with pytest.raises(RuntimeError, match="graph, cut: "):
            loader(train, engines=[actor.address], token=TOKEN, engine_cut="small").pipeline.build()


def test_errors_of_the_command_name_the_wrong_argument(tmp_path, capsys):
    token = tmp_path / "token"
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    for words, text in (
        (["--listen", "127.0.0.1:0", "--token-file", "/nowhere", f"{PROGRAM}:train"], "/nowhere"),
        (["--listen", "127.0.0.1", "--token-file", str(token), f"{PROGRAM}:train"], "is no address of an engine"),
        (["--listen", "127.0.0.1:0", "--token-file", str(token), f"{PROGRAM}:nothing"], "defines no 'nothing'"),
        (["--listen", "127.0.0.1:0", "--token-file", str(token), "--set", "batch", f"{PROGRAM}:train"], "not of the form NAME=VALUE"),
        (["--listen", "127.0.0.1:0", "--token-file", str(token), "--set", "batch_size=0", f"{PROGRAM}:train"], "batch_size"),
    ):
        assert main(["engine", *words]) == 1
        assert text in capsys.readouterr().err
