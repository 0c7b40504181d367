"""The page about a step in a Chromium: keys, buttons, comparison, phones; no error, no request, a text for each picture."""

from __future__ import annotations

import wave

import numpy as np
import pytest
from helpers import browser as browsers
from test_show import PICTURES, training

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.skipif(browsers.executable() is None, reason="there is no Chromium")


@pytest.fixture(scope="module")
def browser():
    with browsers.Browser() as found:
        yield found


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page in a window; nothing may go wrong until the end of the test."""

    def visit(page, width=1280, height=900, phone=False):
        path = tmp_path / "page.html"
        page.write(str(path))
        browser.size(width, height, phone)
        browser.visit(path.as_uri())
        return browser

    yield visit
    assert browser.errors() == [] and all(address.startswith("file:") for address in browser.requests())


def visible(browser):
    """The ids of the samples that are shown."""
    return browser.run("[...document.querySelectorAll('section.sample')].filter(s => s.offsetParent).map(s => s.id)")


def message(browser):
    return browser.run("document.getElementById('message').textContent")


def test_keys_and_buttons_choose_samples(opened):
    tab = opened(training().show(2))
    assert visible(tab) == ["sample0"]
    for key, wanted in (("ArrowRight", 1), ("j", 2), ("ArrowRight", 3), ("ArrowRight", 0), ("ArrowLeft", 3), ("k", 2)):
        tab.press(key)
        assert visible(tab) == [f"sample{wanted}"]
        assert tab.run("document.getElementById('where').textContent") == f"sample {wanted} of 4"
        assert tab.run("document.querySelector('#grid a.chosen').dataset.sample") == str(wanted)
    tab.run("document.querySelector('[data-act=\"sample-\"]').click()")
    assert visible(tab) == ["sample1"]
    tab.run("document.querySelectorAll('#grid a')[3].click()")
    assert visible(tab) == ["sample3"]


def test_a_page_of_one_step_says_how_to_see_others(opened):
    tab = opened(training().show(2))
    tab.press("n")
    assert "--step 3" in message(tab) and "--serve" in message(tab)
    tab.press("p")
    assert "--step 1" in message(tab)
    tab.press("c")
    assert "--compare 3" in message(tab)
    tab.press("ArrowRight")
    assert message(tab) == ""


def test_two_steps_side_by_side(opened):
    tab = opened(training().show(2, compare=7))
    assert visible(tab) == ["sample0", "compared0"]
    left, right = tab.run("['sample0', 'compared0'].map(id => document.getElementById(id).getBoundingClientRect().toJSON())")
    assert left["right"] <= right["left"] and left["top"] == right["top"]
    tops = "[...s.querySelectorAll('tr')].map(row => row.getBoundingClientRect().top)"
    one, two = tab.run(f"[...document.querySelectorAll('section.chosen')].map(s => {tops})")
    assert len(one) == 10 and one == two
    tab.press("ArrowRight")
    assert visible(tab) == ["sample1", "compared1"]
    tab.press("c")
    assert visible(tab) == ["sample1"]
    tab.press("n")
    assert visible(tab) == ["compared1"]
    tab.press("c")
    assert visible(tab) == ["sample1", "compared1"]


def test_the_graph_leads_to_the_rows(opened):
    tab = opened(training().show(2), height=500)
    graph, row = tab.run("['.graph svg', '#sample0 h2'].map(name => document.querySelector(name).getBoundingClientRect().toJSON())")
    assert graph["right"] < row["left"] and abs(graph["top"] - row["top"]) < 60  # beside the sample
    tab.run("document.querySelector('g[data-operator=CMN]').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    assert tab.run("document.querySelector('#sample0 tr.chosen').dataset.operator") == "CMN"
    tab.wait_for("document.querySelector('tr.chosen').getBoundingClientRect().bottom <= innerHeight + 1")


@pytest.mark.parametrize("options", [{}, {"compare": 3}], ids=["one step", "two steps"])
def test_a_phone(opened, options):
    tab = opened(training(size=224).show(2, **options), 390, 844, phone=True)
    assert tab.run("document.documentElement.scrollWidth") <= 390
    assert tab.run("[...document.querySelectorAll('button')].filter(b => b.offsetParent).every(b => b.offsetHeight >= 30)")
    assert tab.run("parseFloat(getComputedStyle(document.body).fontSize)") >= 15
    tab.run("document.querySelector('[data-act=\"sample+\"]').click()")
    assert visible(tab)[0] == "sample1"


def test_large_batches(opened):
    tab = opened(training(batch_size=64, size=224).show(1))
    tab.press("ArrowLeft")
    assert visible(tab) == ["sample63"]
    assert tab.run("document.querySelector('#sample63 .outputs img').naturalWidth") > 0  # the small picture of the grid
    tab.run("document.querySelector('#sample63 button').click()")
    assert "--sample 63" in message(tab)


def test_pictures_sounds_and_videos_are_whole(opened, tmp_path):
    with wave.open(str(tmp_path / "0.wav"), "wb") as file:
        file.setparams((2, 2, 44100, 0, "NONE", ""))
        file.writeframes((np.sin(np.arange(88200) / 9) * 9000).astype("<i2").tobytes())

    @pipeline_def(batch_size=1, num_threads=1, seed=1)
    def everything():
        encoded = fn.readers.file(files=[str(tmp_path / "0.wav")])[0]
        sound, _ = fn.decoders.audio(encoded, name="sound")
        picture = fn.decoders.image(fn.readers.file(file_root=PICTURES)[0])
        video = fn.stack(picture, picture, picture, axis=0)
        spectrum = fn.to_decibels(fn.spectrogram(fn.decoders.audio(encoded, downmix=True)[0]))
        return sound, picture, fn.reshape(video, layout="FHWC"), spectrum, fn.cast(picture > 99, dtype=types.UINT8)

    page = everything().show(0)
    assert not page.step.error
    tab = opened(page)
    images = tab.run("[...document.images].map(i => [i.alt, i.complete && i.naturalWidth])")
    assert len(images) >= 12 and all(text and width for text, width in images)
    assert tab.run("[...document.querySelectorAll('svg')].every(s => s.getAttribute('role') === 'img' && s.getAttribute('aria-label'))")
    length = tab.run(
        "new Promise(done => { const a = document.querySelector('audio'); a.onloadedmetadata = () => done(a.duration); a.onerror = done;"
        " a.preload = 'auto'; a.load(); })"
    )
    assert length == pytest.approx(1.0, abs=0.01)
    assert tab.run("document.querySelector('audio').title") == "sound[0] 1.00 s at 44100 Hz, 2 channels"


def test_a_page_in_a_notebook(opened, browser, tmp_path):
    page = training().show(1)

    class Cell:
        def write(self, path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"<!doctype html><meta charset=utf-8><title>notebook</title><link rel=icon href=data:,>{page._repr_html_()}")

    tab = opened(Cell())
    tab.wait_for("document.querySelector('iframe').contentDocument.getElementById('where').textContent === 'sample 0 of 4'")
