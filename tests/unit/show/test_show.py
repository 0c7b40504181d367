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
from asyncdali.pipeline.replay.replaying import replay
from asyncdali.tensors.pictures import Marks, marks_of, picture_of
from asyncdali.tensors.rendering import rendered, summary

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


def numbered(info):
    return np.int64(100 * info.iteration + info.idx_in_batch)


async def awaited(info):
    return numbered(info)


@pytest.mark.parametrize("source", [numbered, awaited])
def test_sources_of_worker_processes_are_asked_in_this_process(source):
    pipe = sourced(source, batch=False, parallel=True)
    assert values(replay(pipe, 7).outputs) == [700, 701]
    assert pipe._core.processes.parallel is None


@pytest.mark.parametrize("source, options, text", [
    (None, {}, "comes from feed_input"),
    ([np.zeros((2, 1))], {}, "cannot be asked for the data of a given step"),
    ([np.zeros((2, 1))], {"parallel": True}, "cannot be asked for the data of a given step"),
], ids=["fed", "an iterable", "a parallel iterable"])  # fmt: skip
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
    "values that are not finite": (np.full((9, 9), np.nan, np.float32), "", "<img"),
    "a table": (np.arange(12, dtype=np.float32).reshape(3, 4), "", "[ 4.,  5.,  6.,  7.]"),
    "a mask": (np.eye(5, dtype=np.int32), "HW", "<img"),
    "a video": (np.zeros((9, 4, 5, 3), np.uint8), "FHWC", "frames 0, 1, 3, 4, 6, 8 of 9, 9 x 4 x 5 x 3"),
    "a video, channels first": (np.zeros((3, 9, 4, 5), np.float32), "CFHW", "frames 0, 1, 3, 4, 6, 8 of 9, 3 x 9 x 4 x 5"),
    "a volume, channels first": (np.zeros((1, 9, 4, 5), np.uint8), "CDHW", "frames 0, 1, 3, 4, 6, 8 of 9, 1 x 9 x 4 x 5"),
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


PICTURE = np.zeros((40, 60, 3), np.uint8)
MARKS = {
    "boxes": ([np.array([[0.25, 0.25, 0.5, 0.5]], np.float32)], [np.array([[15, 10, 30, 20]], np.float32)]),
    "key points": ([np.array([[0.5, 0.25]], np.float32)], [np.array([[30, 10]], np.float32)]),
    "polygons": (
        [np.array([[0, 0, 3]], np.int32), np.array([[0.25, 0.25], [0.75, 0.25], [0.5, 0.75]], np.float32)],
        [np.array([[0, 0, 3]], np.int32), np.array([[15, 10], [45, 10], [30, 30]], np.float32)],
    ),
}


def drawn(*arrays, form=""):
    return rendered(PICTURE, "HWC", marks_of([PICTURE, *arrays], ["HWC"] + [""] * len(arrays), form))


@pytest.mark.parametrize("name", MARKS)
def test_marks_are_drawn_in_fractions_and_in_pixels(name):
    fractions, pixels = MARKS[name]
    assert drawn(*fractions) == drawn(*pixels) != rendered(PICTURE, "HWC")


def test_frames_are_equal_in_both_orders_of_axes():
    video = np.random.default_rng(3).integers(0, 255, (9, 20, 25, 3), np.uint8)
    planes = np.ascontiguousarray(np.moveaxis(video, -1, 0))

    def source(shown):
        return shown.split('src="')[1]

    assert source(rendered(planes, "CFHW")) == source(rendered(video, "FHWC"))


def test_a_video_with_channels_first_has_a_small_picture():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
    def videos(layout):
        frames = fn.random.uniform(range=(0, 255), shape=[5, 8, 9, 3], dtype=types.UINT8)
        return fn.crop_mirror_normalize(fn.reshape(frames, layout="FHWC"), dtype=types.FLOAT, output_layout=layout)

    for layout in ("FCHW", "CFHW"):
        grid = videos(layout).show(0, grid=True).html.split('<div id="grid">')[1]
        assert grid.count('<a href="#sample') == 2 and grid.split("</div>")[0].count("<img") == 2, layout


def test_boxes_have_the_form_that_the_graph_tells():
    box = np.array([[5, 10, 20, 30]], np.float32)
    assert drawn(box, form="xyWH") == drawn(np.array([[5, 10, 25, 40]], np.float32), form="xyXY") != drawn(box, form="xyXY")
    assert drawn(np.array([[30, 10, 20, 5]], np.float32)) == drawn(np.array([[30, 10, 50, 15]], np.float32), form="xyXY")
    assert drawn(box, np.array([3], np.int32)) != drawn(box)
    padded = np.array([[5, 10, 20, 30], [0, 0, 0, 0], [-1, -1, -1, -1]], np.float32)
    assert drawn(padded, np.array([3, -1, -1], np.int32)) == drawn(box, np.array([3], np.int32))
    wild = np.array([[np.nan, -1e30, 1e30, np.inf]], np.float32)
    assert drawn(wild).startswith("<img")


def test_masks_lie_on_pictures_of_their_size():
    mask = np.zeros((40, 60), np.int32)
    mask[10:20, 10:40] = 3
    marks = marks_of([PICTURE, mask, mask[:20]], ["HWC", "HW", "HW"])
    assert len(marks.masks) == 1 and not Marks() and marks
    assert rendered(PICTURE, "HWC", marks) != rendered(PICTURE, "HWC")
    planes = np.zeros((3, 40, 60), np.float32)
    assert len(marks_of([planes, mask[..., None]], ["CHW", "HWC"]).masks) == 1
    assert picture_of(mask, "HW")[15, 20].tolist() == picture_of(mask.astype(np.uint8), "HW")[15, 20].tolist() != [0, 0, 0]


def test_the_nearest_operator_tells_the_form_of_boxes():
    from asyncdali.provenance.page import _form_of_boxes

    @pipeline_def(batch_size=1, num_threads=1, seed=1)
    def boxed(options):
        boxes = fn.random.uniform(range=(0, 0.5), shape=(2, 4))
        return fn.bb_flip(boxes, **options) * 1.0, boxes

    for options, form in (({}, "xyWH"), ({"ltrb": True}, "xyXY")):
        step = boxed(options).show(0).step
        assert [_form_of_boxes(step, edge) for edge in step.edges] == [form, ""]


def test_sounds_are_played_at_the_rate_that_the_decoder_tells(tmp_path):
    import wave

    for k, rate in enumerate((8000, 44100)):
        with wave.open(str(tmp_path / f"{k}.wav"), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes((np.sin(np.arange(rate // 2) / 9) * 9000).astype("<i2").tobytes())

    @pipeline_def(batch_size=2, num_threads=1, seed=1)
    def sounds():
        encoded, _ = fn.readers.file(files=[str(tmp_path / f"{k}.wav") for k in range(2)])
        sound, rate = fn.decoders.audio(encoded, dtype=types.INT16, downmix=True)
        slow = fn.audio_resample(sound, in_rate=rate, out_rate=4000, dtype=types.FLOAT)
        return sound, rate, fn.preemphasis_filter(sound), slow, fn.spectrogram(fn.cast(sound, dtype=types.FLOAT))

    page = sounds().show(0)
    assert "0.50 s at 8000 Hz" in page.html and "0.50 s at 44100 Hz" in page.html and "unknown" not in page.html
    assert page.html.count("0.50 s at 4000 Hz") >= 4
    assert page.html.count("<audio") >= 4 and page.html.count('class="spectrogram"') >= 4


def test_a_sample_is_followed_into_its_branch():
    @pipeline_def(batch_size=6, num_threads=1, seed=3, enable_conditionals=True)
    def branching():
        value = fn.random.uniform(range=(0, 1), name="whole")
        if value > 0.5:
            value = fn.cast(value + 10, dtype=types.FLOAT, name="high")
        else:
            value = fn.cast(value + 20, dtype=types.FLOAT, name="low")
        return value

    step = branching().show(4).step
    by_name = {item.name: item for item in step.operators}
    for index in range(6):
        drawn = float(np.asarray(by_name["whole"].outputs[0].at(index)))
        name, other, more = ("high", "low", 10) if drawn > 0.5 else ("low", "high", 20)
        ((_, tensors, place),) = by_name[name].of_sample(index)
        assert float(np.asarray(tensors.at(place))) == pytest.approx(drawn + more) and not by_name[other].of_sample(index)
    assert "This sample is in another branch." in branching().show(4).html


@pytest.mark.parametrize("action", ["replace", "drop"])
def test_bad_samples_are_named_and_the_step_equals_that_of_the_run(tmp_path, action):
    (tmp_path / "a").mkdir()
    good = sorted(os.path.join(folder, name) for folder, _, names in os.walk(PICTURES) for name in names)[:7]
    for k, path in enumerate(good):
        with open(path, "rb") as file:
            (tmp_path / "a" / f"{k}.jpg").write_bytes(file.read() if k != 2 else b"no picture")

    @pipeline_def(batch_size=4, num_threads=1, seed=1, on_error=action, quarantine=str(tmp_path / "bad.jsonl"))
    def reading():
        encoded, label = fn.readers.file(file_root=str(tmp_path), name="R")
        return fn.resize(fn.decoders.image(encoded), size=(8, 8)), label

    page = reading().show(0)
    assert not (tmp_path / "bad.jsonl").exists()
    assert_equal(reading().run(), page.step.outputs)
    told = page.step.provenance
    assert told.bad == {"R": {2: action}}
    if action == "replace":
        assert "is in its place" in page.html and told.sample(2)["replaced"]["R"]["file"] in page.html
        assert "stands in its place" in str(told)
    else:
        assert "is bad and was dropped" in page.html and list(page.step.places) == [0, 1, 3] and page.html.count("<section") == 3
    assert "decoders.image: " in page.html


def test_padding_is_named(tmp_path):
    for k in range(3):
        (tmp_path / f"{k}.bin").write_bytes(b"x")

    @pipeline_def(batch_size=2, num_threads=1, seed=1)
    def reading():
        return fn.readers.file(files=[str(tmp_path / f"{k}.bin") for k in range(3)], pad_last_batch=True, num_shards=2, name="R")[0]

    pages = [reading().show(step).html.split("<section")[1:] for step in range(2)]
    padded = [taken.padding for step in range(2) for taken in reading().provenance(step).readers["R"]]
    assert ["fills the batch up" in section for page in pages for section in page] == padded and any(padded) and not all(padded)


def test_a_batch_of_any_size_makes_a_bounded_page():
    page = training(batch_size=300).show(1)
    assert len(page.html.encode()) < 600_000 and "The first 256 samples are shown" in page.html
    assert page.html.count('data-sample="') - page.html.count("<section") == 256 > page.html.count("<section") > 40
    usual = training(batch_size=64, size=224).show(1)
    assert len(usual.html.encode()) < 500_000 and usual.html.count("<section") == 64
    assert len(training(batch_size=64, size=224).show(1, compare=2).html.encode()) < 600_000
    whole = [section.count("<tr ") for section in usual.html.split("<section")[1:]]
    assert whole[0] == 10 and whole[-1] == 0


def test_two_steps_are_compared():
    page = training().show(1, compare=5)
    parsed(page.html)
    assert page.html.count("<article") == 2 and 'id="compared3"' in page.html and page.compared.provenance.step == 5
    assert "pipe.show(1, compare=5)" in page.html and "<h1>Step 1 beside step 5: 4 samples</h1>" in page.html


def test_every_picture_has_a_text():
    page = training().show(1, compare=2).html
    images = re.findall(r"<img[^>]*>", page)
    assert images and all(re.search(r' alt="[^"]+"', image) for image in images)
    assert all(re.search(r'role="img" aria-label="[^"]+"', drawing) for drawing in re.findall(r"<svg[^>]*>", page))


@pytest.mark.parametrize("step", [0, 7])
def test_pipelines_for_a_gpu_are_shown_on_the_host_device(step):
    @pipeline_def(batch_size=3, num_threads=1, seed=2, device_id=0)
    def on_gpu():
        encoded, label = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="R")
        images = fn.resize(fn.decoders.image(encoded, device="mixed"), size=(24, 24))
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT), label

    pipe = on_gpu()
    for _ in range(step):
        pipe.run()
    again = on_gpu().show(step).step
    for left, right in zip(pipe.run(), again.outputs, strict=True):
        one, two = (item.as_cpu() if hasattr(item, "as_cpu") else item for item in (left, right))
        assert_equal([one], [two])
    rates = {item.name: item.reads for item in again.operators}
    assert all(edge in {made for item in again.operators for made in item.planned.outputs} for reads in rates.values() for edge in reads)


def test_the_command(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "train.py"
    program.write_text(
        "from asyncdali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=3, num_threads=1, seed=1, enable_checkpointing=True)\n"
        f"def train(fill: int = 5):\n    return fn.readers.file(file_root={PICTURES!r}, random_shuffle=True, initial_fill=fill)[1]\n"
    )
    assert main(["show", f"{program}:train", "--step", "9", "--set", "fill=3"]) == 0
    assert "step-9.html: step 9, 3 samples, " in capfd.readouterr().out
    text = (tmp_path / "step-9.html").read_text()
    parsed(text)
    assert f"asyncdali show {program}:train --step 9 --set fill=3" in text
    assert main(["show", f"{program}:train", "--step", "2", "--compare", "4", "--output", "two.html"]) == 0
    assert "two.html: step 2 beside step 4, 3 samples, " in capfd.readouterr().out
    assert f"asyncdali show {program}:train --step 2 --compare 4" in (tmp_path / "two.html").read_text()
    with pytest.raises(SystemExit):
        main(["show", f"{program}:train", "--serve", "--output", "page.html"])
    capfd.readouterr()
    assert main(["show", f"{program}:train", "--step", "-1"]) == 1
    assert "the step is -1" in capfd.readouterr().err
