"""Engines as Ray actors, on several Ray nodes of this machine. Batches are compared in order."""

from __future__ import annotations

import gc
import itertools
import os
import signal

import numpy as np
import pytest
from helpers.engines import data_files

from asyncdali import fn, pipeline_def
from asyncdali.fleet import LastBatchPolicy
from asyncdali.fleet import loader as local_loader

ray = pytest.importorskip("ray", reason="ray is not installed")
pytestmark = pytest.mark.slow

from ray.cluster_utils import Cluster  # noqa: E402

from asyncdali.ray import Fleet, loader  # noqa: E402

NODES = 3
ENGINE = {"CPU": 1}


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(NODES - 1):
        made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def train_of(folder):
    """A pipeline of files, draws and fed numbers. The function is nested, so that Ray sends it by value."""
    files = data_files(folder, 29)

    @pipeline_def(batch_size=12, num_threads=1, seed=5)
    def train():
        data, labels = fn.readers.file(files=files, name="reader", random_shuffle=True, pad_last_batch=True)
        drawn = fn.random.uniform(range=[0, 100])
        noise = fn.random.normal(shape=[90, 70]) * drawn
        numbered = fn.external_source(source=lambda info: np.int32([info.idx_in_epoch]), batch=False)
        return labels, data, drawn, noise, numbered, fn.python_function(drawn, function=lambda value: value / 2)

    return train


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    return train_of(tmp_path_factory.mktemp("files"))


def batch_of(outputs):
    return [[np.asarray(sample).tobytes() for sample in output] for output in outputs]


def side_by_side(parts):
    return [[list(itertools.chain(*outputs)) for outputs in zip(*iteration)] for iteration in zip(*parts)]


class Ranks:
    """All ranks of a training, in this process."""

    def __init__(self, train, count, checkpoint=None, fleet=None, **options):
        make = local_loader if fleet is None else loader
        options = options if fleet is None else {"fleet": fleet, **options}
        self.ranks = [make(train, rank=r, world_size=count, checkpoint=checkpoint, **options).__enter__() for r in range(count)]

    def take(self, count):
        """The next batches of all ranks, concatenated."""
        return side_by_side([[batch_of(rank.pipeline.run()) for _ in range(count)] for rank in self.ranks])

    def epoch(self):
        return side_by_side([[batch_of(batch) for batch in rank] for rank in self.ranks])

    def close(self):
        """Close all ranks. Returns the checkpoint, which all ranks share."""
        saved = {rank.checkpoint() for rank in self.ranks}
        for rank in self.ranks:
            rank.close()
        assert len(saved) == 1
        return saved.pop()


@pytest.fixture(scope="module")
def wanted(train):
    alone = Ranks(train, 1)
    batches = alone.take(24)
    alone.close()
    return batches


def ready(fleet):
    return [engine for engine in fleet.statistics()["engines"] if engine["state"] == "ready"]


def test_engines_and_ranks_give_one_stream_while_the_fleet_scales(cluster, train, wanted):
    """Checkpoints are taken under one number of engines and ranks, and resumed under another."""
    with Fleet(actors=1, resources=ENGINE, lookahead=3) as fleet:
        ranks = Ranks(train, 2, fleet=fleet)
        found = ranks.take(3)
        fleet.scale(3)
        fleet.wait()
        found += ranks.take(6)
        saved = ranks.close()
        assert len(saved) <= 8192
        assert len({engine["node"] for engine in ready(fleet)}) == NODES
        ranks = Ranks(train, 3, saved, fleet=fleet)
        found += ranks.take(3)
        fleet.scale(1)
        found += ranks.take(6)
        fleet.wait()
        assert len(ready(fleet)) == 1
        saved = ranks.close()
        local = Ranks(train, 1, saved)
        found += local.take(2)
        ranks = Ranks(train, 4, local.close(), fleet=fleet)
        found += ranks.take(4)
        ranks.close()
        assert found == wanted
        counted = fleet.statistics()
        assert counted["failures"] == [] and [report["rank"] for report in counted["trainers"]] == [0, 1, 2, 3]
        lines = fleet.metrics().splitlines()
        assert "asyncdali_fleet_wanted 1" in lines
        assert len([line for line in lines if line == "# TYPE asyncdali_engine_asked_total counter"]) == 1


def test_killed_engines_are_replaced(cluster, train, wanted):
    with Fleet(actors=2, resources=ENGINE, lookahead=3) as fleet:
        ranks = Ranks(train, 2, fleet=fleet)
        fleet.wait()
        found = ranks.take(4)
        first = ready(fleet)
        for engine in first[:1], first[1:]:
            os.kill(engine[0]["pid"], signal.SIGKILL)
            found += ranks.take(4)
            fleet.wait()
        found += ranks.take(12)
        assert found == wanted
        assert not {engine["pid"] for engine in first} & {engine["pid"] for engine in ready(fleet)}
        failures = fleet.statistics()["failures"]
        assert len(failures) == 2 and all("died" in failure and "engine " in failure for failure in failures)
        ranks.close()


def test_a_spare_engine_takes_the_place_of_a_killed_one(cluster, train, wanted):
    with Fleet(actors=1, spares=1, resources=ENGINE, lookahead=3) as fleet:
        ranks = Ranks(train, 1, fleet=fleet)
        fleet.wait()
        found = ranks.take(4)
        (used,), (spare,) = ([engine for engine in ready(fleet) if engine["spare"] is kind] for kind in (False, True))
        assert [item["address"] for item in ranks.ranks[0].engines()] == [used["address"]]
        os.kill(used["pid"], signal.SIGKILL)
        found += ranks.take(20)
        assert found == wanted
        fleet.wait()
        assert {engine["pid"]: engine["spare"] for engine in ready(fleet)}[spare["pid"]] is False
        assert len([engine for engine in ready(fleet) if engine["spare"]]) == 1
        ranks.close()


def test_a_fleet_survives_the_loss_of_a_node(cluster, train, wanted):
    """Its engine is started again on another node."""
    nodes = [cluster.add_node(num_cpus=1, resources={"spare": 1}) for _ in range(2)]
    with Fleet(actors=2, resources={"CPU": 1, "spare": 1}, lookahead=3) as fleet:
        ranks = Ranks(train, 1, fleet=fleet)
        fleet.wait()
        found = ranks.take(4)
        cluster.remove_node(nodes.pop())
        found += ranks.take(20)
        nodes.append(cluster.add_node(num_cpus=1, resources={"spare": 1}))
        fleet.wait()
        assert found == wanted
        assert len({engine["node"] for engine in ready(fleet)}) == 2
        ranks.close()
    for node in nodes:
        cluster.remove_node(node)


def test_the_manager_is_on_the_node_of_the_process_that_makes_the_fleet(cluster):
    for _ in range(3):
        with Fleet(actors=1, resources=ENGINE) as fleet:
            assert fleet.statistics()["node"] == ray.get_runtime_context().get_node_id()


def test_last_batches_of_a_fleet(cluster, train):
    alone = Ranks(train, 1, last_batch_policy=LastBatchPolicy.PARTIAL)
    wanted = [alone.epoch() for _ in range(2)]
    alone.close()
    assert [len(batch[0]) for batch in wanted[0]] == [12, 12, 5]
    with Fleet(actors=2, resources=ENGINE) as fleet:
        ranks = Ranks(train, 3, fleet=fleet, last_batch_policy=LastBatchPolicy.PARTIAL)
        assert [ranks.epoch() for _ in range(2)] == wanted
        ranks.close()


def test_a_named_fleet_serves_ranks_in_other_processes(cluster, train, wanted):
    """Each rank is a Ray task. It gets the fleet by its name, or by Ray."""

    def rank_of(fleet, train, rank):
        fleet = fleet or Fleet(actors=2, resources={"CPU": 1}, lookahead=3, name="shared")
        with loader(train, fleet=fleet, rank=rank, world_size=2) as batches:
            run = batches.pipeline.run
            return [[[np.asarray(sample).tobytes() for sample in output] for output in run()] for _ in range(5)]

    with Fleet(actors=2, resources=ENGINE, lookahead=3, name="shared") as fleet:
        task = ray.remote(num_cpus=0)(rank_of)
        parts = ray.get([task.remote(None, train, 0), task.remote(fleet, train, 1)])
        assert side_by_side(parts) == wanted[:5]
        assert len(ready(fleet)) <= 2


# --- failures


def no_data():
    raise FileNotFoundError("/data/train is not on this node")


def no_package():
    import no_such_package  # noqa: F401


@pytest.mark.parametrize(
    "fails, text",
    [(no_data, "/data/train is not on this"), (no_package, r"node.* has no module 'no_such_package'. Install the same packages")],
)
def test_failed_starts_are_retried_and_named(cluster, fails, text):
    here, code = os.getpid(), fails.__code__  # Ray's actors do not have this file

    def broken(**options):
        if os.getpid() != here:
            exec(code)

        @pipeline_def(batch_size=4, num_threads=1, seed=1)
        def train():
            return fn.random.uniform()

        return train(**options)

    with Fleet(actors=1, resources=ENGINE) as fleet:
        with pytest.raises(RuntimeError, match=f"(?s)no engine of the fleet could start.*engine 0: failed.*{text}"):
            loader(broken, fleet=fleet)
        assert "attempt 3" in fleet.statistics()["failures"][2]


def test_a_start_that_fails_once_is_repeated(cluster, tmp_path):
    here, mark = os.getpid(), os.fspath(tmp_path / "mark")

    def once(**options):
        if os.getpid() != here and not os.path.exists(mark):
            open(mark, "w").close()
            raise OSError("a first failure")

        @pipeline_def(batch_size=4, num_threads=1, seed=1)
        def train():
            return fn.random.uniform()

        return train(**options)

    with Fleet(actors=1, resources=ENGINE) as fleet, loader(once, fleet=fleet) as batches:
        assert len(batches.pipeline.run()[0]) == 4
        (failure,) = fleet.statistics()["failures"]
        assert "engine 0 could not start" in failure and "a first failure" in failure


def test_missing_resources_are_named(cluster, train):
    message = r"no engine was ready after 3 s \(start_timeout\).*engine 0: starting.*Ray has left: .*CPU"
    with Fleet(actors=1, resources={"CPU": 1, "telescope": 1}, start_timeout=3) as fleet, pytest.raises(RuntimeError, match=message):
        loader(train, fleet=fleet)


def test_another_pipeline_is_refused(cluster, train):
    @pipeline_def(batch_size=12, num_threads=1, seed=6)
    def other():
        return fn.random.uniform()

    with Fleet(actors=1, resources=ENGINE) as fleet, loader(train, fleet=fleet), pytest.raises(RuntimeError, match="differ"):
        loader(other, fleet=fleet).__enter__()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"actors": 0}, "least must be at least 1"), ({"actors": (3, 2)}, "least must be at least 1"),
        ({"actors": (1, 2, 3)}, "a number of engines, or"), ({"lookahead": 0}, "lookahead=0 must be"),
        ({"resources": {"CPU": -1}}, "amounts of at least 0"), ({"actor_options": {"num_cpus": 1}}, "the fleet sets them itself"),
        ({"start_timeout": 0}, "start_timeout=0 must be"), ({"spares": -1}, "spares=-1 must be"),
    ],
)  # fmt: skip
def test_wrong_arguments(cluster, arguments, message):
    with pytest.raises(ValueError, match=message):
        Fleet(**arguments)


def test_wrong_calls(cluster, train):
    with pytest.raises(TypeError, match="must be an asyncdali.ray.Fleet"):
        loader(train, fleet=3)
    with Fleet(actors=(1, 2), resources=ENGINE) as fleet:
        with pytest.raises(ValueError, match="the fleet can have 1 to 2 engines"):
            fleet.scale(3)
        with pytest.raises(ValueError, match="engines, prefetch_queue_depth cannot be given with a fleet"):
            loader(train, fleet=fleet, engines=2, prefetch_queue_depth=3)
    fleet.close()  # this call may be repeated


def test_the_fleet_grows_when_trainers_wait(cluster):
    @pipeline_def(batch_size=4, num_threads=1, seed=1)
    def slow():
        def compute(value):
            import time

            ends = time.monotonic() + 0.05
            while time.monotonic() < ends:
                pass
            return value

        return fn.python_function(fn.external_source(source=lambda k: np.arange(4) + k), function=compute)

    with Fleet(actors=(1, 2), resources=ENGINE, lookahead=4) as fleet, loader(slow, fleet=fleet) as batches:
        for count, _ in enumerate(batches):
            if len(ready(fleet)) == 2 or count == 600:
                break
        counted = fleet.statistics()
        assert counted["wanted"] == 2 and counted["trainers"][0]["waiting"] > 0.05


def test_a_pipeline_keeps_its_fleet(cluster, train, wanted):
    """The handles of the fleet and of the loader are dropped. An engine that is killed later is replaced, too."""
    fleet = Fleet(actors=1, resources=ENGINE, lookahead=3)
    made = loader(train, fleet=fleet).__enter__()
    pipeline, pid = made.pipeline, made.engines()[0]["pid"]
    del made, fleet
    gc.collect()
    found = [batch_of(pipeline.run()) for _ in range(4)]
    os.kill(pid, signal.SIGKILL)
    found += [batch_of(pipeline.run()) for _ in range(20)]
    assert found == wanted
    pipeline.close()


@pytest.mark.parametrize("lost", [False, True], ids=["all engines live", "an engine was killed"])
def test_a_trainer_leaves_when_its_pipeline_is_dropped(cluster, train, lost):
    """The trainer leaves before `reconnect_timeout` is over, also after an engine was killed."""
    with Fleet(actors=1, resources=ENGINE, lookahead=3) as fleet:
        made = loader(train, fleet=fleet, reconnect_timeout=3600.0).__enter__()
        trainer, pipeline, pid = made._trainer, made.pipeline, made.engines()[0]["pid"]
        del made
        pipeline.run()
        if lost:
            os.kill(pid, signal.SIGKILL)
            for _ in range(8):  # more than the queue holds, so the loss has been noticed
                pipeline.run()
        pipeline.close()
        del pipeline
        gc.collect()
        news, version = (0, []), 0
        while news is not None:  # None if the trainer has left
            news = ray.get(fleet.manager.changes.remote(trainer, version), timeout=300)
            version = news and news[0]


def test_a_closed_fleet_is_named(cluster, train):
    with Fleet(actors=1, resources=ENGINE, lookahead=3) as fleet, loader(train, fleet=fleet, reconnect_timeout=2.0) as batches:
        batches.pipeline.run()
        fleet.close()
        with pytest.raises(RuntimeError, match=r"no engine can be reached for 2 s .*The fleet has ended .*Make a new Fleet"):
            while True:
                batches.pipeline.run()
