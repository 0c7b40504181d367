"""Steps that are made again, and the pages about them: values equal the run's, and pages are whole."""

from __future__ import annotations

import html.parser
import json
import os
import re
import warnings

import numpy as np
import pytest

import asyncdali
from asyncdali import fn, pipeline_def, types
from asyncdali.__main__ import main
from asyncdali.errors import CheckpointError
from asyncdali.pipeline.replaying import replay
from asyncdali.tensors.rendering import boxes_of, rendered, summary

PICTURES = os.path.join(os.path.dirname(asyncdali.__file__), "data", "pictures")


@pipeline_def(batch_size=4, num_threads=2, seed=5, enable_checkpointing=True)
def training(size=16):
    encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=5, name="R")
    images = fn.resize(fn.decoders.image_random_crop(encoded, name="D"), size=(32, 32), name="resize")
    value = fn.random.uniform(range=(0, 1), name="U") * 2 + 1
    images = fn.random_resized_crop(images, size=size, name="RRC")
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(name="C"), dtype=types.FLOAT, name="CMN")
    return images, label, value, fn.random.uniform(range=(0, 0.5), shape=(2, 4), name="boxes")


def values(tensors):
    return [np.asarray(one.at(k)) for one in tensors for k in range(len(one))]


def assert_equal(one, two):
    for left, right in zip(values(one), values(two), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("step", [0, 3, 25])
def test_a_step_equals_that_of_the_run(step):
    pipe = training()
    again = replay(pipe, step)
    for _ in range(step):
        pipe.run()
    assert_equal(pipe.run(), again.outputs)
    assert again.provenance.step == step and str(again.provenance) == str(pipe.provenance(step)) and not again.error
    names = [item.name for item in again.operators if not item.name.startswith("__")]
    assert names == ["R", "D", "resize", "RRC", "C", "CMN", "U", "boxes"]


def test_showing_does_not_move_the_pipeline():
    pipe, other = training(), training()
    for step in range(4):
        pipe.show(10 * step, grid=True)
        assert_equal(pipe.run(), other.run())


def test_a_checkpoint_says_the_step_and_the_streams():
    pipe, other = training(seed=99), training()
    for _ in range(6):
        pipe.run()
    saved = pipe.checkpoint()
    again = replay(other, None, saved)
    assert again.provenance.step == 6
    later = replay(other, 8, saved)
    assert_equal(pipe.run(), again.outputs)
    pipe.run()
    assert_equal(pipe.run(), later.outputs)
    dalis = training(seed=99)
    assert_equal(replay(other, None, dalis.checkpoint(format="dali")).outputs, dalis.run())


def test_a_checkpoint_of_another_graph_is_refused():
    @pipeline_def(batch_size=2, num_threads=1, seed=1, enable_checkpointing=True)
    def small(fill):
        return fn.readers.file(file_root=PICTURES, random_shuffle=True, initial_fill=fill, name="R")[1]

    pipe, other, training_pipe = small(3), small(4), training()
    with pytest.raises(CheckpointError, match="argument initial_fill is 3 in the checkpoint, 4 in this pipeline"):
        replay(other, None, pipe.checkpoint())
    with pytest.raises(CheckpointError, match="There's no checkpoint for operator"):
        replay(training_pipe, None, small(5).checkpoint())


def test_conditionals_run_the_steps_since_the_checkpoint():
    @pipeline_def(batch_size=5, num_threads=1, seed=3, enable_conditionals=True, enable_checkpointing=True)
    def branching():
        value = fn.random.uniform(range=(0, 1), name="whole")
        if value > 0.4:
            value = fn.random.uniform(value, range=(10, 11), name="inside")
        return value

    pipe = branching()
    for _ in range(7):
        pipe.run()
    saved = pipe.checkpoint()
    again, later = replay(pipe, 7, saved), replay(pipe, 9, saved)
    assert_equal(pipe.run(), again.outputs)
    pipe.run()
    assert_equal(pipe.run(), later.outputs)
    assert_equal(branching().run(), replay(pipe, 0).outputs)
    with pytest.raises(CheckpointError, match="inside: the positions at step 5000 depend on the decisions"):
        replay(pipe, 5000)


def sourced(source, **options):
    pipe = asyncdali.Pipeline(batch_size=2, num_threads=1, seed=1)
    with pipe:
        pipe.set_outputs(fn.external_source(source, name="S", **options) if source else fn.external_source(name="S"))
    return pipe


def test_sources_by_position_are_asked_for_the_step():
    pipe = sourced(lambda info: np.int64(100 * info.iteration + info.idx_in_batch), batch=False)
    assert values(replay(pipe, 7).outputs) == [700, 701]


@pytest.mark.parametrize("source, options, text", [
    (None, {}, "comes from feed_input"),
    ([np.zeros((2, 1))], {}, "cannot be asked for the data of a given step"),
    (lambda info: np.int64(1), {"batch": False, "parallel": True}, "parallel=False"),
], ids=["fed", "an iterable", "parallel"])  # fmt: skip
def test_data_that_cannot_be_made_again_is_refused(source, options, text):
    with pytest.raises(RuntimeError, match=text):
        replay(sourced(source, **options), 3)


def test_the_end_of_an_epoch_is_named():
    def source(info):
        if info.iteration >= 3:
            raise StopIteration
        return np.int64(1)

    with pytest.raises(RuntimeError, match="sources end the epoch before step 3"):
        replay(sourced(source, batch=False), 3)


def test_a_pipeline_without_a_seed_is_refused():
    with pytest.raises(RuntimeError, match="has no seed"):
        training(seed=None).show(3)
    built = training(seed=None)
    first = built.run()
    assert_equal(first, replay(built, 0).outputs)


def test_a_step_that_fails_is_shown(tmp_path):
    (tmp_path / "a").mkdir()
    for k in range(3):
        (tmp_path / "a" / f"{k}.jpg").write_bytes(b"no picture")

    @pipeline_def(batch_size=3, num_threads=1, seed=1)
    def broken():
        return fn.decoders.image(fn.readers.file(file_root=str(tmp_path), name="R")[0])

    page = broken().show(0)
    assert "This step fails: " in page.html and "a/1.jpg" in page.html


# --- pages


class Parser(html.parser.HTMLParser):
    """Counts elements, and finds elements that are not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.counts = [], {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open[-3:])


def parsed(text):
    parser = Parser()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser.counts


def test_a_page_is_whole_and_self_contained():
    page = training().show(2)
    counts = parsed(page.html)
    assert counts["section"] == 4 and counts["img"] >= 4 * 6 and "histogram" in page.html
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page.html) and "http://www.w3.org/2000/svg" in page.html
    data = json.loads(page.html.split('id="step">')[1].split("</script>")[0])
    assert data["step"] == 2 and set(data["positions"]) == {"R", "D", "RRC", "U", "C", "boxes"}
    for taken in training().provenance(2).readers["R"]:
        assert taken.file in page.html
    assert "iframe" in page._repr_html_()


def test_one_sample_and_a_grid():
    pipe = training()
    assert parsed(pipe.show(1, 2).html)["section"] == 1 and 'id="sample2"' in pipe.show(1, 2).html
    assert "section" not in parsed(pipe.show(1, grid=True).html)
    with pytest.raises(IndexError, match="the batch of step 1 has 4 samples; there is no sample 4"):
        pipe.show(1, 4)


def test_names_of_files_are_escaped(tmp_path):
    folder = tmp_path / "<b>"
    folder.mkdir()
    (folder / "<script>.bin").write_bytes(b"x")

    @pipeline_def(batch_size=1, num_threads=1, seed=1)
    def reading():
        return fn.readers.file(files=[str(folder / "<script>.bin")], name="R")[0]

    page = reading().show(0)
    parsed(page.html)
    assert "&lt;script&gt;.bin" in page.html and "<script>.bin" not in page.html


RENDERED = {
    "a picture": (np.arange(48, dtype=np.uint8).reshape(4, 4, 3), "HWC", "<img"),
    "planes first": (np.zeros((3, 8, 9), np.float32), "CHW", "<img"),
    "planes without a layout": (np.zeros((3, 8, 9), np.float32), "", "<img"),
    "a spectrogram": (np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32), "", "<img"),
    "values that are not finite": (np.full((4, 4), np.nan, np.float32), "", "<img"),
    "a mask": (np.eye(5, dtype=np.int32), "HW", "<img"),
    "a video": (np.zeros((9, 4, 5, 3), np.uint8), "FHWC", "frame 8"),
    "a sound": (np.sin(np.arange(4000, dtype=np.float32) / 9), "", "<audio"),
    "a number": (np.float32(3.5), "", "3.5"),
    "a vector": (np.arange(5), "", "[0, 1, 2, 3, 4]"),
    "many numbers": (np.arange(500), "", " ..."),
    "nothing": (np.zeros((0, 4), np.float32), "", "no elements"),
    "bytes that are no picture": (np.arange(100, dtype=np.uint8), "", "<code>"),
    "booleans": (np.array([True, False]), "", "True"),
}  # fmt: skip


@pytest.mark.parametrize("name", RENDERED)
def test_values_are_rendered(name):
    array, layout, text = RENDERED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = rendered(np.asarray(array), layout)
        assert text in shown
        parsed(shown + summary(np.asarray(array), types.FLOAT, layout))


def test_boxes_are_drawn():
    picture = np.zeros((40, 40, 3), np.uint8)
    relative, pixels = np.array([[0.25, 0.25, 0.5, 0.5]], np.float32), np.array([[10, 10, 20, 20]], np.float32)
    assert rendered(picture, "HWC", relative) == rendered(picture, "HWC", pixels) != rendered(picture, "HWC")
    assert boxes_of([np.zeros(4, np.float32), relative]) is relative and boxes_of([picture]) is None


def test_the_command(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "train.py"
    program.write_text(
        "from asyncdali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=3, num_threads=1, seed=1, enable_checkpointing=True)\n"
        f"def train(fill: int = 5):\n    return fn.readers.file(file_root={PICTURES!r}, random_shuffle=True, initial_fill=fill)[1]\n"
    )
    assert main(["show", f"{program}:train", "--step", "9", "--set", "fill=3"]) == 0
    assert "step-9.html: step 9, 3 samples" in capfd.readouterr().out
    text = (tmp_path / "step-9.html").read_text()
    parsed(text)
    assert f"asyncdali show {program}:train --step 9 --set fill=3" in text
    assert main(["show", f"{program}:train", "--step", "-1"]) == 1
    assert "the step is -1" in capfd.readouterr().err
