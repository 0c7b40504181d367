"""Differences of pipelines, checkpoints and stored graphs: every planted difference is named, and the first step that differs is right."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import asyncdali
from asyncdali import Pipeline, fn, pipeline_def
from asyncdali.__main__ import main
from asyncdali.errors import CheckpointError

NAMES = [f"{k:03}.bin" for k in range(50)]


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "data" / "a"
    folder.mkdir(parents=True)
    for k, name in enumerate(NAMES):
        (folder / name).write_bytes(bytes([k]) * (k + 1))
    return folder.parent


def make(root, *, batch=4, seed=3, shuffle=True, fill=7, shards=1, shard=0, probability=0.5, size=2, swap=False, own=None, extra=False,
         checkpointing=True, checkpoint=None, high=1.0, sink=False, pad=False, own_name=None, **more):  # fmt: skip
    @pipeline_def(batch_size=batch, num_threads=1, seed=seed, enable_checkpointing=checkpointing, checkpoint=checkpoint, **more)
    def graph():
        data, label = fn.readers.file(
            file_root=str(root), file_filters=["*.bin"], random_shuffle=shuffle, initial_fill=fill, num_shards=shards, shard_id=shard,
            pad_last_batch=pad, name="R",
        )  # fmt: skip
        value = fn.random.uniform(range=[0.0, high], name=own_name)
        flip = fn.random.coin_flip(probability=probability, **({} if own is None else {"seed": own}))
        shaped = fn.reshape(fn.cast(label, dtype=asyncdali.types.FLOAT), shape=[1])
        if swap:
            shaped = fn.pad(fn.expand_dims(shaped, axes=[0]), shape=[size])
        else:
            shaped = fn.expand_dims(fn.pad(shaped, shape=[size]), axes=[0])
        more = [fn.random.normal()] if extra else []
        return (flip, value, data, shaped, *more) if sink else (data, value, flip, shaped, *more)

    return graph()


def renamed(files):
    other = files.parent / "renamed"
    shutil.copytree(files, other)
    (other / "a" / "020.bin").rename(other / "a" / "020b.bin")
    return other


def with_one_more(files):
    other = files.parent / "more"
    shutil.copytree(files, other)
    (other / "a" / "030b.bin").write_bytes(b"new")
    return other


PLANTED = {
    "an argument": ({"size": 3}, ["argument shape is [2] in A, [3] in B"]),
    "a probability": ({"probability": 0.25}, ["argument probability is 0.5 in A, 0.25 in B"]),
    "a range": ({"high": 2.0}, ["argument range is [0.0, 1.0] in A, [0.0, 2.0] in B"]),
    "the order of operators": ({"swap": True}, ["order of operators: pad, expand_dims in A, expand_dims, pad in B"]),
    "the pipeline's seed": ({"seed": 4}, ["pipeline: seed is 3 in A, 4 in B"]),
    "an operator's seed": ({"own": 9}, ["argument seed is default in A, 9 in B"]),
    "another operator": ({"extra": True}, ["only B has this operator (random.normal)"]),
    "a name of an operator": ({"own_name": "mine"}, ["__Uniform_0: this operator is called mine in B"]),
    "outputs": ({"sink": True}, ["outputs: "]),
    "the batch size": ({"batch": 5}, ["pipeline: batch_size is 4 in A, 5 in B"]),
    "no shuffling": ({"shuffle": False}, ["R: argument random_shuffle is True in A, False in B"]),
    "the buffer": ({"fill": 8}, ["R: argument initial_fill is 7 in A, 8 in B"]),
    "the number of shards": ({"shards": 2}, ["R: argument num_shards is 1 in A, 2 in B"]),
    "checkpointing": ({"checkpointing": False}, ["pipeline: enable_checkpointing is True in A, False in B"]),
    "padding": ({"pad": True}, ["R: argument pad_last_batch is False in A, True in B"]),
    "bad samples": ({"on_error": "replace"}, ["pipeline: on_error is raise in A, replace in B"]),
}


def scaled(info):
    return np.int64(info.idx_in_epoch * FACTOR)


FACTOR = 2


def program(*, constant=2, swap=False, limit=0.5, dtype=asyncdali.types.FLOAT, source=scaled, function=abs, more=False, own=None,
            mirror=True):  # fmt: skip
    """Expressions, conditions and functions of the user."""

    @pipeline_def(batch_size=4, num_threads=1, seed=3, enable_conditionals=True)
    def graph():
        noise = [fn.random.normal(name="early")] if more else []
        value = fn.random.uniform(range=[0.0, 1.0], **({} if own is None else {"seed": own}))
        coins = [fn.random.coin_flip(name=name, seed=k) for k, name in enumerate(("heads", "tails"))]
        number = fn.external_source(source, batch=False, name="S")
        if value > limit:
            value = value + 1
        shown = fn.flip(fn.reshape(fn.stack(number, number + 1), shape=[1, 2, 1], layout="HWC"), horizontal=coins[mirror])
        changed = fn.python_function(number, function=function, name="P")
        result = fn.cast(number, dtype=dtype) * constant - value if not swap else value - fn.cast(number, dtype=dtype) * constant
        return (*noise, result, shown, changed, *coins)

    return graph()


def squared(x):
    return x * x


PROGRAMS = {
    "a constant of an expression": ({"constant": 3}, ["argument expression is ((a * 2) - b) in A, ((a * 3) - b) in B"]),
    "operands": ({"swap": True}, ["argument expression is ((a * 2) - b) in A, (b - (a * 2)) in B"]),
    "a condition": ({"limit": 0.25}, ["argument expression is (a > 0.5) in A, (a > 0.25) in B"]),
    "a type": ({"dtype": asyncdali.types.FLOAT64}, ["argument dtype is FLOAT in A, FLOAT64 in B"]),
    "a source": ({"source": lambda info: np.int64(info.idx_in_epoch * 2 + 1)}, ["S: source is code "]),
    "a function": ({"function": squared}, ["P: function is builtins.abs in A, code "]),
    "the input of an argument": ({"mirror": False}, ["'horizontal=tails'] in A, ", "'horizontal=heads'] in B"]),
    "an operator before": ({"more": True}, ["early: only B has this operator (random.normal)", "automatic seeds of __Uniform_0 differ"]),
    "a seed of an operator": ({"own": 9}, ["argument seed is default in A, 9 in B"]),
}  # fmt: skip


@pytest.mark.parametrize("planted", PROGRAMS)
def test_a_planted_difference_of_programs_is_named(planted):
    given, wanted = PROGRAMS[planted]
    found = differences(program(), program(**given))
    lines = [line for line in found.texts if not line.startswith("outputs: ")]
    assert all(any(text in line for line in lines) for text in wanted) and len(lines) <= 2
    assert found.step == first_step(program(), program(**given)) or planted == "a type"


def test_functions_are_compared_by_what_they_reach(monkeypatch):
    def copied(info):
        return np.int64(info.idx_in_epoch * FACTOR)

    assert not differences(program(), program(source=copied))  # another function, and other lines
    one = program()
    one.build()
    from asyncdali.pipeline.replay.comparing import side_of
    from asyncdali.provenance.diff import diff

    side = side_of("A", one, Pipeline.deserialize)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    found = diff(side, side_of("B", program(), Pipeline.deserialize))
    assert found.texts == ["S: source: FACTOR is 2 in A, 5 in B"]


def test_outputs_that_are_equal_for_a_while(files):
    found = differences(make(files, probability=0.0), make(files, probability=1e-12))
    assert found.step is None and "outputs of steps 0 to 15 are equal" in found.note


def differences(one, two):
    from asyncdali.pipeline.replay.comparing import side_of
    from asyncdali.provenance.diff import diff

    return diff(side_of("A", one, Pipeline.deserialize), side_of("B", two, Pipeline.deserialize))


def first_step(one, two, most=60):
    """The first step at which the outputs differ, by running both."""
    for step in range(most):
        for left, right in zip(one.run(), two.run(), strict=True):
            mine, others = ([np.asarray(left.at(k)).tolist() for k in range(len(left))] for left in (left, right))
            if mine != others:
                return step
    return None


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_difference_is_named(files, planted):
    given, wanted = PLANTED[planted]
    found = differences(make(files), make(files, **given))
    for text in wanted:
        assert any(text in line for line in found.texts), found.texts
    assert len(found.texts) <= 4, found.texts


CHANGE_STEPS = ("the buffer", "no shuffling", "the pipeline's seed", "a probability", "padding", "the number of shards")


@pytest.mark.parametrize("planted", CHANGE_STEPS)
def test_the_first_step_is_that_of_the_outputs(files, planted):
    given, _ = PLANTED[planted]
    assert differences(make(files), make(files, **given)).step == first_step(make(files), make(files, **given))


def test_another_shard_is_named(files):
    one, two = (make(files, shards=2, shard=shard) for shard in (0, 1))
    found = differences(one, two)
    assert found.texts == ["R: argument shard_id is 0 in A, 1 in B"] and found.step == 0


@pytest.mark.parametrize("change, text", [
    (renamed, "R: sample 20 is a/020.bin in A, a/020b.bin in B"),
    (with_one_more, "R: B has one more: sample 31 is a/030b.bin; 50 samples in A, 51 in B"),
])  # fmt: skip
@pytest.mark.parametrize("shuffle", [True, False])
def test_changed_files_are_named(files, change, text, shuffle):
    other = change(files)
    if change is renamed:
        (other / "a" / "020b.bin").write_bytes(b"another content")
    found = differences(make(files, shuffle=shuffle), make(other, shuffle=shuffle))
    assert text in found.texts and len([line for line in found.texts if "file_root" not in line]) == 1
    assert found.step == first_step(make(files, shuffle=shuffle), make(other, shuffle=shuffle))


def test_equal_pipelines_have_no_difference(files):
    found = differences(make(files), make(files))
    assert not found and found.step is None and str(found) == "no difference"


def test_hints_do_not_change_a_stream(files):
    found = differences(make(files), make(files, prefetch_queue_depth=4))
    assert not found


def test_checkpoints_of_two_steps(files):
    pipe = make(files)
    pipe.run()
    first = pipe.checkpoint()
    pipe.run()
    found = differences(first, pipe.checkpoint())
    assert found.texts[0] == "step: 1 in A, 2 in B" and "R: position" in "".join(found.texts) and "unknown" in found.note


def test_a_checkpoint_and_its_pipeline_are_equal(files):
    pipe = make(files)
    for _ in range(20):
        pipe.run()
    assert not differences(pipe.checkpoint(), make(files)) and not differences(make(files), pipe.checkpoint())


def test_a_checkpoint_of_another_seed_differs_at_its_step(files):
    pipe = make(files, seed=8)
    for _ in range(5):
        pipe.run()
    found = differences(pipe.checkpoint(), make(files))
    assert any(line.startswith("R: position") for line in found.texts) and found.step == 5


def test_restoring_uses_the_same_text(files):
    pipe = make(files)
    other = make(files, fill=8)
    lines = differences(pipe.checkpoint(), other).texts
    found = [line.replace("in A", "in the checkpoint").replace("in B", "in this pipeline") for line in lines]
    with pytest.raises(CheckpointError) as caught:
        make(files, fill=8, checkpoint=pipe.checkpoint()).build()
    assert found[0] in str(caught.value)


def test_stored_graphs(files):
    one, two = make(files).serialize(), make(files, size=3).serialize()
    found = differences(one, two)
    assert found.texts == ["__Pad_4: argument shape is [2] in A, [3] in B"] and found.step == 0
    assert make(files).diff(one).texts == []
    shutil.rmtree(files)
    found = differences(one, two)
    assert found.texts and "cannot be built" in found.note


def test_other_bytes_are_refused(files):
    with pytest.raises(RuntimeError, match="neither a checkpoint nor a serialized pipeline"):
        make(files).diff(b"something")


def test_the_command(files, tmp_path, capfd):
    program = tmp_path / "train.py"
    program.write_text(
        "from asyncdali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=4, num_threads=1, seed=1, enable_checkpointing=True)\n"
        "def train():\n"
        f"    return fn.readers.file(file_root={str(files)!r}, file_filters=['*.bin'], random_shuffle=True)[0]\n"
    )
    pipe = Pipeline.deserialize(make(files).serialize())
    Path(tmp_path / "graph").write_bytes(pipe.serialize())
    assert main(["diff", f"{program}:train", f"{program}:train"]) == 0
    assert main(["diff", f"{program}:train", str(tmp_path / "graph"), "--json"]) == 1
    assert json.loads(capfd.readouterr().out.split("\n", 1)[1])["step"] == 0
    assert main(["diff", f"{program}:train", str(tmp_path / "nothing")]) == 2


# --- contents of files


def copied(files, tmp_path, changed=(20,)):
    """The same names and sizes; these files have other bytes."""
    other = tmp_path / "copy"
    shutil.copytree(files, other)
    for k in changed:
        (other / "a" / NAMES[k]).write_bytes(bytes([k + 100]) * (k + 1))
    return other


def compared(one, two, contents=True):
    from asyncdali.pipeline.replay.comparing import side_of
    from asyncdali.provenance.diff import diff

    return diff(side_of("A", one, Pipeline.deserialize), side_of("B", two, Pipeline.deserialize), contents)


@pytest.mark.parametrize("shuffle", [True, False])
def test_other_contents_of_a_name_and_size_are_named(files, tmp_path, shuffle):
    other = copied(files, tmp_path, (20, 41))
    one, two = (lambda root=root: make(root, shuffle=shuffle) for root in (files, other))
    assert "Contents of files are not compared." in compared(one(), two(), False).note
    found = compared(one(), two())
    name = f"a/{NAMES[20]}"
    where = f"sample 20, {files}/{name} in A and {other}/{name} in B"
    assert f"R: 2 samples of the same names have other contents; the first is {where}" in found.texts
    assert found.step == first_step(one(), two()) is not None and len(found.texts) == 2  # and the argument file_root


def test_equal_contents_are_no_difference(files, tmp_path):
    found = compared(make(files), make(copied(files, tmp_path, ())))
    assert all("file_root" in text for text in found.texts) and found.note == "The streams have the same samples at all steps."
    assert not compared(make(files), make(files))


def test_contents_beside_a_renamed_file(files, tmp_path):
    other = copied(files, tmp_path, (20,))
    (other / "a" / NAMES[30]).rename(other / "a" / "030b.bin")
    (text,) = [text for text in compared(make(files), make(other)).texts if "file_root" not in text]
    assert text.startswith(f"R: sample 30 is a/{NAMES[30]} in A, a/030b.bin in B; 1 samples of the same names have other contents")


def test_a_file_that_cannot_be_read_is_named(files, tmp_path):
    other = make(copied(files, tmp_path))
    other.build()
    (tmp_path / "copy" / "a" / NAMES[3]).unlink()
    with pytest.raises(OSError, match=NAMES[3]):
        compared(make(files), other)


def test_contents_of_a_checkpoint_are_not_compared(files):
    pipe = make(files)
    found = pipe.diff(pipe.checkpoint(), contents=True)
    assert not found and found.note == "Contents of files are not compared, because the other has none."


def listed(files, folder, labels):
    folder.mkdir()
    lines = [f"{files}/a/{name} {label}\n" for name, label in zip(NAMES, labels, strict=True)]
    (folder / "list.txt").write_text("".join(lines))

    @pipeline_def(batch_size=4, num_threads=1, seed=1)
    def graph():
        return fn.readers.file(file_list=str(folder / "list.txt"), name="R")[1]

    return graph()


def test_a_list_of_other_labels_is_named(files, tmp_path):
    one = listed(files, tmp_path / "one", range(50))
    two = listed(files, tmp_path / "two", [*range(49), 7])
    found = compared(one, two)
    text = f"R: argument file_list: {tmp_path}/one/list.txt in A and {tmp_path}/two/list.txt in B have other contents"
    assert text in found.texts


def tar_of(path, contents):
    import io
    import tarfile

    with tarfile.open(path, "w") as archive:
        for k, (data, label) in enumerate(contents):
            for extension, value in (("bin", data), ("cls", label)):
                about = tarfile.TarInfo(f"{k:03}.{extension}")
                about.size = len(value)
                archive.addfile(about, io.BytesIO(value))


@pytest.mark.parametrize("changed", ["bin", "cls"])
def test_a_component_of_an_archive_is_named(tmp_path, changed):
    contents = [(bytes([k]) * 9, bytes([k])) for k in range(20)]
    pipes = []
    for name in ("one", "two"):
        if name == "two":
            contents[13] = (b"otherdata", bytes([13])) if changed == "bin" else (bytes([13]) * 9, b"x")
        (tmp_path / name).mkdir()
        tar_of(tmp_path / name / "data.tar", contents)

        @pipeline_def(batch_size=4, num_threads=1, seed=1)
        def graph(path):
            return tuple(fn.readers.webdataset(paths=[path], ext=["bin", "cls"], name="R"))

        pipes.append(lambda path=str(tmp_path / name / "data.tar"): graph(path))
    found = compared(pipes[0](), pipes[1]())
    assert any("R: 1 samples of the same names have other contents; the first is sample 13" in text for text in found.texts)
    assert found.step == first_step(pipes[0](), pipes[1]()) == 3


def test_the_command_compares_contents(files, tmp_path, capfd):
    other = copied(files, tmp_path)
    program = tmp_path / "train.py"
    program.write_text(
        "from asyncdali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=4, num_threads=1, seed=1)\n"
        "def train(root):\n"
        "    return fn.readers.file(file_root=root, file_filters=['*.bin'], name='R')[0]\n"
        f"def one():\n    return train({str(files)!r})\n"
        f"def two():\n    return train({str(other)!r})\n"
    )
    assert main(["diff", f"{program}:one", f"{program}:two", "--contents", "--json"]) == 1
    said = json.loads(capfd.readouterr().out)
    assert said["step"] == 5 and any("have other contents" in text for text in said["differences"])
    (other / "a" / NAMES[7]).unlink()
    assert main(["diff", f"{program}:one", f"{program}:two", "--contents"]) == 1  # a file less is a difference of names


# --- behind select, mix and batch_by


def chosen(root, *, rest=2, weight=1, budget=9, window=8, refill=True, probability=0.5, kind="select", checkpoint=None):
    @pipeline_def(batch_size=4, num_threads=1, seed=3, enable_checkpointing=True, checkpoint=checkpoint)
    def graph():
        data, label = fn.readers.file(file_root=str(root), file_filters=["*.bin"], name="R")
        number = data[0]
        if kind == "select":
            nodes = fn.experimental.select(data, label, where=number % rest == 0, refill=refill, name="chosen")
        elif kind == "mix":
            other = fn.readers.file(file_root=str(root), file_filters=["*.bin"], random_shuffle=True, name="O")
            nodes = fn.experimental.mix([([data, label], weight), (other, 1)], per="sample", stop="never", name="chosen")
        else:
            nodes = fn.experimental.batch_by(data, label, length=number + 1, budget=budget, window=window, name="chosen")
        return *nodes, fn.random.coin_flip(probability=probability, name="C")

    return graph()


CHOSEN = {
    "a condition": ({}, {"rest": 3}, "argument expression is "),
    "refill": ({}, {"refill": False}, "argument refill is "),
    "weights": ({"kind": "mix"}, {"weight": 2}, "chosen[0]: argument weights (in thousandths) is [500, 500] in A, [667, 333] in B"),
    "a budget": ({"kind": "batch_by"}, {"budget": 11}, "argument budget is 9.0 in A, 11.0 in B"),
    "a window": ({"kind": "batch_by"}, {"window": 4}, "argument window is 8 in A, 4 in B"),
    "a probability behind": ({}, {"probability": 0.1}, "C: argument probability is 0.5 in A, 0.1 in B"),
    "a renamed file": ({}, renamed, "R: sample 20 is a/020.bin in A, a/020b.bin in B"),
    "a renamed file of a mix": ({"kind": "mix"}, renamed, "R: sample 20 is a/020.bin in A, a/020b.bin in B"),
    "one more file": ({}, with_one_more, "R: B has one more: sample 31 is a/030b.bin; 50 samples in A, 51 in B"),
    "one more file in batches": ({"kind": "batch_by"}, with_one_more, "R: B has one more: sample 31 is a/030b.bin"),
}


@pytest.mark.parametrize("planted", CHOSEN)
def test_a_planted_difference_before_a_regrouping_is_named(files, planted):
    given, change, text = CHOSEN[planted]
    other, given_there = (change(files), given) if callable(change) else (files, {**given, **change})
    if change is renamed:
        (other / "a" / "020b.bin").write_bytes(bytes([20]) * 22)  # the same number, so it is chosen as before
    found = differences(chosen(files, **given), chosen(other, **given_there))
    lines = [line for line in found.texts if "file_root" not in line]
    assert any(text in line for line in lines) and len(lines) <= 2 + (change is renamed and given != {}), found.texts
    assert found.step == first_step_of_epoch(chosen(files, **given), chosen(other, **given_there))


def first_step_of_epoch(one, two, most=30):
    """The first step of the first epoch at which the outputs differ, or at which one epoch ends."""
    for step in range(most):
        found = []
        for pipe in (one, two):
            try:
                found.append([np.asarray(output.at(k)).tolist() for output in pipe.run() for k in range(len(output))])
            except StopIteration:
                found.append("end")
        if found[0] != found[1]:
            return step
        if found[0] == "end":
            return None
    return None


@pytest.mark.parametrize("kind", ["select", "mix", "batch_by"])
def test_equal_regroupings_have_no_difference(files, kind):
    assert not differences(chosen(files, kind=kind), chosen(files, kind=kind))
    pipe = chosen(files, kind=kind)
    for _ in range(3):
        pipe.run()
    saved = pipe.checkpoint()
    found = chosen(files, kind=kind).diff(saved)
    assert not found and not found.note
    found = chosen(renamed(files), kind=kind).diff(saved)
    assert "the names of its files" in found.texts[0] and found.step is None and "checkpoint has no samples of select" in found.note


def test_contents_before_a_selection_are_compared(files, tmp_path):
    other = copied(files, tmp_path, ())
    (other / "a" / NAMES[20]).write_bytes(bytes([20]) * 20 + b"x")
    found = compared(chosen(files), chosen(other))
    assert any("R: 1 samples of the same names have other contents; the first is sample 20" in text for text in found.texts)
    assert found.step == first_step_of_epoch(chosen(files), chosen(other)) == 2


def test_a_checkpoint_of_dali_is_named(files):
    pipe = make(files)
    with pytest.raises(RuntimeError, match="the other is a checkpoint of DALI, which has no graph.*import-checkpoint"):
        pipe.diff(pipe.checkpoint(format="dali"))
