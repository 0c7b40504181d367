"""Steps behind select, mix and batch_by: their provenance and their contents equal those of the run, without the steps before."""

from __future__ import annotations

import random
from contextlib import closing

import numpy as np
import pytest

from asyncdali import fn, pipeline_def, types
from asyncdali.__main__ import main
from asyncdali.errors import CheckpointError
from asyncdali.fleet import loader
from asyncdali.pipeline.replay import run_parts, walked_groups, walking
from asyncdali.pipeline.replay.replaying import replay
from asyncdali.provenance.page import _form_of_boxes

FILES = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    for k in range(FILES):
        (folder / f"{k:02}.bin").write_bytes(bytes([k, 255 - k] + [7] * (k % 6)))
    return [str(folder / f"{k:02}.bin") for k in range(FILES)]


def doubled(number):
    return number * 2


def numbered(batches, size):
    def source(iteration):
        if iteration >= batches:
            raise StopIteration
        return np.arange(size, dtype=np.int32)[:, None] + 7 * iteration

    return source


class Program:
    """A random pipeline with regroupings."""

    def __init__(self, seed, files):
        self.files, self.seed = files, seed
        choice = random.Random(seed)
        self.options = {
            "batch_size": choice.randint(1, 5), "num_threads": choice.randint(1, 2), "prefetch_queue_depth": choice.randint(1, 3),
            "on_error": choice.choice(["raise", "raise", "replace", "drop"]),
        }  # fmt: skip
        self.shape = choice.choice(["select", "mix", "batch_by", "mix of selects", "select of mix", "two selects"])

    def part(self, choice):
        """Numbers and draws of one data set."""
        if choice.random() < 0.15:
            number = fn.external_source(numbered(choice.randint(6, 9), self.options["batch_size"]))
        else:
            shards, count = choice.randint(1, 3), choice.randint(12, FILES)
            order = choice.choice([{}, {"random_shuffle": True, "initial_fill": 6}, {"shuffle_after_epoch": True}])
            stick = {} if "shuffle_after_epoch" in order else {"stick_to_shard": choice.random() < 0.5}
            number = fn.readers.file(
                files=self.files[:count], labels=list(range(count)), num_shards=shards, shard_id=choice.randrange(shards),
                pad_last_batch=choice.random() < 0.4, **order, **stick,
            )[1]  # fmt: skip
        return number, fn.random.uniform(range=(0, 1)), fn.random.uniform(shape=[2])

    def selected(self, choice, nodes):
        number, draw, more = nodes
        kind = choice.choice(["label", "draw", "function"])
        if kind == "label":
            where = number % choice.randint(2, 3) == 0
        elif kind == "draw":
            where = draw > 0.4
        else:
            where = fn.python_function(number, function=doubled) % 3 == 0
        return fn.experimental.select(number, draw, more, where=where, refill=choice.random() < 0.7)

    def mixed(self, choice, parts):
        pairs = [(part, choice.randint(1, 9)) for part in parts]
        return fn.experimental.mix(pairs, per=choice.choice(["batch", "sample"]), stop=choice.choice(["first", "last", "never"]))

    def batched(self, choice, nodes):
        length = nodes[0] if choice.random() < 0.5 else fn.python_function(nodes[0], function=doubled)
        return fn.experimental.batch_by(*nodes, length=length + 1, budget=choice.randint(20, 200), window=choice.choice([3, 8, 20]))

    def make(self, checkpoint=None, **options):
        choice = random.Random(self.seed + 1)

        @pipeline_def(device_id=None, seed=self.seed, enable_checkpointing=True, checkpoint=checkpoint, enable_conditionals=True)
        def define():
            if self.shape == "select":
                nodes = self.selected(choice, self.part(choice))
            elif self.shape == "mix":
                nodes = self.mixed(choice, [self.part(choice) for _ in range(choice.randint(1, 3))])
            elif self.shape == "batch_by":
                nodes = self.batched(choice, self.part(choice))
            elif self.shape == "mix of selects":
                nodes = self.mixed(choice, [self.selected(choice, self.part(choice)) for _ in range(2)])
            elif self.shape == "select of mix":
                nodes = self.selected(choice, self.mixed(choice, [self.part(choice) for _ in range(2)]))
            else:
                nodes = self.selected(choice, self.selected(choice, self.part(choice)))
            number, draw, more = nodes
            behind = fn.random.uniform(range=(0, 9), name="behind")
            if choice.random() < 0.3:
                if draw > 0.5:
                    behind = behind + fn.random.uniform(range=(0, 1))
                else:
                    behind = behind * 1.0
            return number, draw, more, behind

        return define(**self.options, **options)


def values(tensors):
    return [np.asarray(one.at(k)).tolist() for one in tensors for k in range(len(one))]


def walked(pipe, most):
    """The iterations of the epoch, at most so many: values, and provenance."""
    found = []
    for _ in range(most):
        try:
            outputs = pipe.run()
        except StopIteration:
            break
        found.append((values(outputs), outputs[0].provenance()))
    return found


def assert_told(planned, run):
    """A planned step and the run agree in everything that the plan knows."""
    assert planned["readers"] == run["readers"] and planned["regrouped"].keys() == run["regrouped"].keys()
    for part in ("draws", "windows"):
        for name, value in planned[part].items():
            assert value == run[part][name], (part, name)
    for name, about in planned["regrouped"].items():
        other = run["regrouped"][name]
        assert [about[key] for key in ("part", "step", "sample")] == [other[key] for key in ("part", "step", "sample")]
        assert_told(about, other)


def check_epochs(program, run):
    """Steps of later epochs, from the beginning and from a checkpoint of another epoch. `run`: iterations by (epoch, step)."""
    choice = random.Random(program.seed + 3)
    wanted = sorted(choice.sample(sorted(run), min(3, len(run))))
    with closing(program.make()) as asked, closing(program.make()) as other:
        for epoch, step in wanted:
            told, (_, of_run) = asked.provenance(step, epoch), run[epoch, step]
            assert (told.step, told.epoch, told.samples) == (of_run.step, of_run.epoch, of_run.samples)
            for k in range(told.samples):
                assert_told(told.sample(k), of_run.sample(k))
        epoch, step = wanted[-1]
        if not other.provenance(step, epoch).unknown:
            assert values(replay(other, step, None, epoch).outputs) == run[epoch, step][0]
    saved = choice.choice(sorted(run))
    with closing(program.make()) as pipe:
        walked_epochs(pipe, len(run), saved)
        data = pipe.checkpoint()
    with closing(program.make(data)) as pipe:
        for epoch, step in wanted:
            told = pipe.provenance(step, epoch)
            for k in range(told.samples):
                assert_told(told.sample(k), run[epoch, step][1].sample(k))
    return len(wanted)


def walked_epochs(pipe, most, stop=None):
    """The iterations of several epochs by (epoch, step), at most so many, up to `stop`."""
    found, place = {}, [0, 0]
    while len(found) < most and tuple(place) != stop and place[0] < 6:
        try:
            outputs = pipe.run()
        except StopIteration:
            pipe.reset()
            place[:] = place[0] + 1, 0
            continue
        except ValueError as error:
            assert "has no sample in a whole epoch" in str(error)
            break
        found[tuple(place)] = values(outputs), outputs[0].provenance()
        place[1] += 1
    return found


@pytest.mark.parametrize("seed", [*range(2), 27, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 120) if seed != 27)])
def test_random_programs_over_epochs(files, seed):
    program = Program(seed, files)
    with closing(program.make()) as pipe:
        run = walked_epochs(pipe, 24)
    assert check_epochs(program, run) if run else seed


def check(program, most=14):
    choice = random.Random(program.seed + 2)
    with closing(program.make()) as pipe:
        run = walked(pipe, most)
    if not run:
        return 0
    steps = sorted(choice.choices(range(len(run)), k=3))
    with closing(program.make()) as asked, closing(program.make()) as other:
        asked.run()
        for step in steps:
            told, (_, of_run) = asked.provenance(step), run[step]
            assert told.samples == of_run.samples and (told.step, told.epoch) == (of_run.step, of_run.epoch)
            for k in range(told.samples):
                assert_told(told.sample(k), of_run.sample(k))
            if not told.unknown:
                assert told.digest() == of_run.digest()
        for step in steps[1:]:
            again = replay(other, step)
            assert again.error == "" and values(again.outputs) == run[step][0], step
    with closing(program.make()) as pipe:  # from a checkpoint in the middle
        first = choice.randint(0, steps[-1])
        for _ in range(first):
            pipe.run()
        saved = pipe.checkpoint()
    with closing(program.make(saved)) as pipe:
        again = replay(pipe, steps[-1])
        assert values(again.outputs) == run[steps[-1]][0]
        for step in (steps[-1], steps[0]):
            told = pipe.provenance(step)
            for k in range(told.samples):
                assert_told(told.sample(k), run[step][1].sample(k))
    return len(steps)


QUICK, SLOW = 4, 200
"""Programs with these numbers; 27 has a part with a source that ends epochs, and draws."""


@pytest.mark.parametrize("seed", [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, SLOW))])
def test_random_programs(files, seed):
    check(Program(seed, files))


def mixed(files, choice):
    """A mix of readers, whose parts end their epochs soon."""
    parts = []
    for _ in range(choice.randint(1, 3)):
        count, shards = choice.randint(12, FILES), choice.randint(1, 2)
        number = fn.readers.file(
            files=files[:count], num_shards=shards, shard_id=choice.randrange(shards), pad_last_batch=choice.random() < 0.4,
            stick_to_shard=choice.random() < 0.5,
        )[1]  # fmt: skip
        parts.append(([number, fn.random.uniform()], choice.randint(1, 9)))
    return fn.experimental.mix(parts, per=choice.choice(["batch", "sample"]), stop=choice.choice(["last", "never", "never"]))


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 60))])
def test_a_walk_that_jumps_comes_to_the_same_places(files, seed, monkeypatch):
    choice = random.Random(seed)
    size, graph_seed = choice.randint(1, 6), choice.randrange(1000)

    @pipeline_def(batch_size=size, num_threads=1, device_id=None, seed=seed)
    def define():
        return tuple(mixed(files, random.Random(graph_seed)))

    def places(worth):
        monkeypatch.setattr(walked_groups, "_WORTH", worth)
        with closing(define()) as pipe:
            pipe.build()
            count = len(next(puller.parts for puller in pipe._core.session.producer.sources.pullers))
            pipe.set_weights([1] * count, at=33)
            pipe.set_weights([2] * (count - 1) + [5], at=50)
            found = []
            for step in (0, 3, 40, 41, 90, 300):
                try:
                    told = pipe.provenance(step)
                except ValueError as error:
                    found.append(str(error).partition(", so it has")[0])
                    continue
                found.append([told.sample(k) for k in range(told.samples)])
            return found

    assert places(1) == places(1 << 40)


def pictures(kind):
    """A pipeline that selects pictures, and its condition."""
    import os

    import asyncdali

    encoded, label = fn.readers.file(file_root=os.path.join(os.path.dirname(asyncdali.__file__), "data", "pictures"), name="R")
    small = fn.resize(fn.decoders.image(encoded, name="raw"), size=(24, 24), name="small")
    where = fn.reductions.mean(small) > 100 if kind == "pixels" else label % 2 == 1
    small, label = fn.experimental.select(small, label, where=where, name="chosen")
    return fn.flip(small, horizontal=fn.random.coin_flip(name="coin"), name="flipped"), label


@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7, enable_checkpointing=True)
def selecting(kind="pixels"):
    return pictures(kind)


@pytest.mark.parametrize("kind", ["pixels", "label"])
def test_a_page_shows_both_sides(kind):
    with closing(selecting(kind)) as pipe, closing(selecting(kind)) as other:
        page = pipe.show(2)
        outputs = [other.run() for _ in range(3)][2]
        told = outputs[0].provenance().sample(1)["regrouped"]["chosen[0]"]
        (raw,) = page.step.before(1)
        assert (raw.regrouping, raw.part, raw.step.provenance.step, raw.place) == ("chosen[0]", 0, told["step"], told["sample"])
        operators = {item.name: item for item in raw.step.operators}
        ((_, small, place),) = operators["small"].of_sample(raw.step.places.index(raw.place))
        (flipped,) = [item for item in page.step.operators if item.name == "flipped"]
        (coin,) = [item for item in page.step.operators if item.name == "coin"]
        picture = np.asarray(small.at(place))
        picture = picture[:, ::-1] if int(np.asarray(coin.outputs[0].at(1)).reshape(-1)[0]) else picture
        np.testing.assert_array_equal(np.asarray(flipped.outputs[0].at(1)), picture)
    assert f"Before, in part 0 of chosen[0], raw step {told['step']}, sample {told['sample']}" in page.html
    assert page.html.index('<tr data-operator="raw"') < page.html.index('<tr data-operator="flipped"')
    assert told["readers"]["R"]["file"] in page.html and "part 0 of chosen[0]</h3>" in page.html
    assert np.array_equal(np.asarray(page.step.outputs[0].at(3)), np.asarray(outputs[0].at(3)))


PROGRAM = """
from test_steps_behind import selecting
"""


def test_the_command_shows_a_step_behind_a_selection(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    with closing(selecting()) as pipe:
        for _ in range(2):
            pipe.run()
        (tmp_path / "two.ckpt").write_bytes(pipe.checkpoint())
    assert main(["show", "train.py:selecting", "--step", "3", "--sample", "2"]) == 0
    one = (tmp_path / "step-3.html").read_text()
    assert main(["show", "train.py:selecting", "--checkpoint", "two.ckpt", "--step", "3", "--sample", "2", "--output", "b.html"]) == 0
    two = (tmp_path / "b.html").read_text()
    assert one.replace("--step 3", "--step 3 --checkpoint two.ckpt") == two and "Before, in part 0 of chosen[0]" in one
    assert main(["show", "train.py:selecting", "--grid", "--step", "1", "--compare", "2", "--output", "c.html"]) == 0
    assert "step 1 beside step 2" in capsys.readouterr().out
    assert main(["show", "train.py:selecting", "--step", "500"]) == 1
    assert "steps, so it has no step 500" in capsys.readouterr().err


def test_a_walk_that_would_run_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(walking, "MOST_RAW", 5)
    with closing(selecting()) as pipe:
        with pytest.raises(CheckpointError, match="step 9 is 9 steps behind the step where.*Give a checkpoint of a step from 4 on"):
            pipe.provenance(9)
        for _ in range(4):
            pipe.run()
        saved = pipe.checkpoint()
    with closing(selecting(checkpoint=saved)) as pipe, closing(selecting("label")) as planned:
        assert pipe.provenance(6).step == 6 and planned.provenance(6).step == 6
    monkeypatch.setattr(run_parts, "MOST_RAW", 1)
    with closing(selecting()) as pipe, pytest.raises(CheckpointError, match="1 raw iterations of part 0 were run"):
        pipe.provenance(1)


def test_steps_before_a_checkpoint_of_another_seed_are_refused():
    with closing(selecting("label")) as pipe:
        told = [pipe.run()[0].provenance() for _ in range(4)]
        saved = pipe.checkpoint()
    with closing(selecting("label", checkpoint=saved)) as pipe:
        assert [pipe.provenance(step).digest() for step in range(4)] == [one.digest() for one in told]
    with closing(selecting("label", checkpoint=saved, seed=8)) as pipe:
        assert pipe.provenance(4).step == 4
        with pytest.raises(CheckpointError, match="steps before step 4 of epoch 0 of the restored checkpoint cannot be computed"):
            pipe.provenance(2)
        with pytest.raises(ValueError, match="counted from 0"):
            pipe.provenance(-1)


def test_labels_are_known_without_files(tmp_path):
    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7)
    def define():
        names = [str(tmp_path / f"missing-{k}") for k in range(30)]
        label = fn.readers.file(files=names, name="R")[1]
        return fn.experimental.select(label, where=label % 3 == 0)

    with closing(define()) as pipe:
        (told,) = pipe.provenance(1).sample(2)["regrouped"].values()
        assert told["readers"]["R"]["number"] == 18


def test_changes_of_weights_are_known(files):
    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7)
    def define():
        parts = [fn.readers.file(files=files[:20])[1], fn.readers.file(files=files[20:])[1]]
        return fn.experimental.mix([(part, 1) for part in parts], stop="never")

    with closing(define()) as pipe:
        before = pipe.provenance(30)
        pipe.set_weights([0, 1], at=25)
        told = pipe.provenance(30)
        assert told.digest() != before.digest()
        for _ in range(30):
            pipe.run()
        assert pipe.run()[0].provenance().digest() == told.digest()


def test_user_functions_of_a_part_run_only_if_the_condition_needs_them():
    seen = []

    def note(number):
        seen.append(int(number[0]))
        return number

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=7)
    def define(used):
        number = fn.external_source(numbered(20, 2))
        noted = fn.python_function(number, function=note)
        return fn.experimental.select(number, noted, where=(noted if used else number) % 2 == 0)

    for used in (False, True):
        seen.clear()
        with closing(define(used)) as pipe:
            assert pipe.provenance(3).samples == 2
        assert bool(seen) is used


def test_a_graph_on_a_gpu_behind_a_selection():
    @pipeline_def(batch_size=3, num_threads=1, device_id=0, seed=7)
    def define():
        small, label = pictures("label")
        return fn.cast(small.gpu(), dtype=types.FLOAT), label

    with closing(define()) as pipe, closing(define()) as other:
        outputs = [other.run() for _ in range(2)][1]
        assert values([one.as_cpu() for one in replay(pipe, 1).outputs]) == values([one.as_cpu() for one in outputs])


def test_data_that_cannot_be_asked_for_again_is_refused():
    def endless():
        while True:
            yield np.arange(4)[:, None]

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7)
    def define():
        number = fn.external_source(endless, name="S")
        return fn.experimental.select(number, where=number % 2 == 0)

    with closing(define()) as pipe:
        for ask in (pipe.provenance, pipe.show):
            with pytest.raises(RuntimeError, match="the source of 'S' is an? .*cannot be asked for the data of a given step"):
                ask(3)
        assert pipe.run()[0].provenance().samples == 4


@pytest.mark.parametrize("kind", ["pixels", "label"])
def test_a_dropped_pipeline_ends_its_walk(kind):
    pipe = selecting(kind)
    pipe.provenance(2)
    sessions = [core.session for core in pipe._core.processes.streams.cores()]
    walk = pipe._core.processes.streams.walk
    sessions += [part.session for part in walk.runs]
    assert len(walk.runs) == (kind == "pixels")
    del pipe, walk
    assert all(session.closed for session in sessions)


def test_another_epoch_of_other_pipelines_is_refused(files, monkeypatch):
    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7)
    def reading():
        return fn.readers.file(files=files)[1]

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=7)
    def endless():
        part = fn.readers.file(files=files)[1]
        return fn.experimental.mix([(part, 1)], stop="never")

    with closing(reading()) as pipe:
        assert pipe.provenance(3, 0).step == pipe.provenance(3).step == pipe.show(3, epoch=0).step.provenance.step
        for ask in (pipe.provenance, lambda step, epoch: pipe.show(step, epoch=epoch)):
            with pytest.raises(ValueError, match="epoch 1: only epochs of select, mix and batch_by can be chosen"):
                ask(3, 1)
    with closing(endless()) as pipe, pytest.raises(ValueError, match="epoch 0 has no end"):
        pipe.provenance(3, 1)
    monkeypatch.setattr(walking, "MOST_STEPS", 5)
    with closing(selecting("label")) as pipe, pytest.raises(CheckpointError, match="epoch 0 has more than 5 steps"):
        pipe.provenance(3, 1)


def test_the_command_shows_another_epoch(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    assert main(["show", "train.py:selecting", "--epoch", "1", "--step", "2", "--sample", "1"]) == 0
    page = (tmp_path / "step-2.html").read_text()
    assert "asyncdali show train.py:selecting --step 2 --epoch 1 --sample 1" in page and "Step 2, epoch 1" in page
    with closing(selecting()) as pipe:
        run = walked_epochs(pipe, 100, (1, 3))
        assert run[1, 2][1].digest() == pipe.provenance(2, 1).digest()
    assert main(["show", "train.py:selecting", "--epoch", "0", "--step", "99"]) == 1
    assert "so it has no step 99" in capsys.readouterr().err


def test_rates_of_sounds_and_forms_of_boxes_pass_a_regrouping(tmp_path):
    """Also two regroupings, one behind the other."""
    import wave

    for k, rate in enumerate((8000, 44100)):
        with wave.open(str(tmp_path / f"{k}.wav"), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes((np.sin(np.arange(rate // 2) / 9) * 9000).astype("<i2").tobytes())

    @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
    def define():
        encoded, label = fn.readers.file(files=[str(tmp_path / f"{k}.wav") for k in range(2)])
        sound, _ = fn.decoders.audio(encoded, dtype=types.INT16, downmix=True)
        boxes = fn.bb_flip(fn.random.uniform(range=(0.1, 0.4), shape=(2, 4)), ltrb=False, horizontal=1)
        for name in ("first", "second"):
            sound, label, boxes = fn.experimental.select(sound, label, boxes, where=label >= 0, name=name)
        return fn.preemphasis_filter(sound, name="filtered"), boxes

    with closing(define()) as pipe:
        page = pipe.show(0)
    samples = page.html.partition('<div class="steps')[2]  # the small pictures do not ask for the rate
    assert "0.50 s at 8000 Hz" in samples and "0.50 s at 44100 Hz" in samples and "unknown" not in samples
    assert _form_of_boxes(page.step, page.step.edges[1]) == "xyWH"
    assert page.html.count("<h4>Before, in part 0 of first[0]") == page.html.count("<h4>Before, in part 0 of second[0]") == 2


def test_ranks_of_a_fleet_know_their_samples(files):
    @pipeline_def(batch_size=5, num_threads=1, device_id=None, seed=7)
    def train():
        label = fn.readers.file(files=files)[1]
        return fn.experimental.select(label, where=label % 2 == 0, name="even"), fn.random.uniform(name="draw")

    for rank in range(2):
        with loader(train, rank=rank, world_size=2, uneven=True) as batches:
            for step, outputs in zip(range(3), batches):
                of_run, told = outputs[0].provenance(), batches.pipeline.provenance(step)
                assert told.samples == of_run.samples == len(outputs[0])
                for k in range(told.samples):
                    assert_told(told.sample(k), of_run.sample(k))
                    assert told.sample(k)["sample"] == of_run.sample(k)["sample"]
