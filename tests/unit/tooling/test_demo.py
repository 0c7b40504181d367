"""The demo: what it says, what it leaves, its contact sheet, and lines of a terminal that replace each other."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from asyncdali import demo
from asyncdali.compiled import progress
from asyncdali.messages.status_line import StatusLine
from asyncdali.tooling import bench


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen(text):
    """The lines that a terminal shows after this text."""
    rows = []
    for line in text.split("\n"):
        cells = []
        column = 0
        for sign in line:
            if sign == "\r":
                column = 0
                continue
            cells[column : column + 1] = [sign]
            column += 1
        rows.append("".join(cells).rstrip())
    return rows


# --- the line


def test_a_shorter_text_leaves_nothing_of_a_longer_one():
    stream = Terminal()
    line = StatusLine(stream)
    line.draw("10/100  12,345 pictures/s")
    line.draw("11/100  9 pictures/s")
    assert screen(stream.getvalue()) == ["11/100  9 pictures/s"]
    line.draw("a text that is longer than the others")
    line.end("100/100")
    line.end("a new line")
    assert screen(stream.getvalue()) == ["100/100", "a new line", ""]


def test_a_text_fits_into_the_row_of_a_terminal():
    """The cursor goes back to the beginning of its row only: of a text of two rows, the first would stay."""
    stream = Terminal()
    line = StatusLine(stream)
    line.draw("x" * 200)
    assert len(screen(stream.getvalue())[0]) == 79  # a terminal that does not say its width
    reader, writer = pty.openpty()
    with open(writer, "w") as terminal, open(reader, "rb") as seen:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 31, 0, 0))
        StatusLine(terminal).draw("y" * 200)
        assert os.read(seen.fileno(), 1000) == b"y" * 30


def test_a_file_gets_the_last_text_alone():
    stream = io.StringIO()
    line = StatusLine(stream)
    line.draw("1 of 2")
    line.end("2 of 2")
    assert stream.getvalue() == "2 of 2\n"


def test_a_closed_stream_is_ignored():
    stream = Terminal()
    stream.close()
    for lost in (stream, None):
        line = StatusLine(lost)
        line.draw("1 of 2")
        line.end("2 of 2")
    assert not StatusLine(None).is_terminal()


def test_rates_that_fall_are_shown_whole():
    stream = Terminal()
    bar = bench.ProgressBar(4, stream)
    bar(1, 1234567.0)
    bar._drawn = 0.0
    bar(2, 3.0)
    assert screen(stream.getvalue())[0].endswith("2/4  3 samples/s")


def test_compilations_have_a_bar_in_a_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    shown = progress.Progress("/k")
    shown.expect(4)
    shown._late()
    shown.step()
    shown.step()
    assert screen(stream.getvalue()) == ["asyncdali: compiling kernels, once on this machine: 2 of 4 so far [#####.....]"]
    shown.end()
    assert screen(stream.getvalue())[0].endswith("s, kept in /k")


# --- the contact sheet


def _pictures(folder, number):
    """Paths of this number of pictures."""
    folder.mkdir()
    paths = [folder / f"{k}.png" for k in range(number)]
    for k, path in enumerate(paths):
        Image.fromarray(np.full((30, 40, 3), 40 + 5 * k, np.uint8)).save(path)
    return [str(path) for path in paths]


def test_plain_crops_are_left_out_of_the_sheet(tmp_path):
    random = np.random.default_rng(3)
    results = random.integers(0, 255, (28, 224, 224, 3), np.uint8)
    plain = [0, 3, 11, 27]
    for k in plain:
        results[k] = 99
    chosen = demo._shown(results, 12)
    assert chosen == [1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14]
    demo._contact_sheet(results, _pictures(tmp_path / "class", 28), str(tmp_path / "sheet.png"))
    with Image.open(tmp_path / "sheet.png") as image:
        sheet = np.asarray(image.convert("RGB"))
    rows, columns = 3, 4
    for row in range(rows):
        for column in range(columns):
            x, y = 10 + column * 277 + 155, 42 + row * 142
            assert sheet[y : y + 112, x : x + 112].std() > 20, (row, column)
            caption = sheet[y + 114 : y + 128, x - 155 : x]
            assert caption.min() < 100 and caption.max() == 255, "no caption"


def test_a_sheet_of_plain_pictures_shows_those_with_the_most_in_them():
    results = np.zeros((6, 8, 8, 3), np.uint8)
    results[4, :4] = 20
    results[2, :4] = 10
    results[5, :, :4] = 200
    assert demo._shown(results, 3) == [2, 4, 5]
    assert demo._shown(results, 20) == [0, 1, 2, 3, 4, 5]


def test_a_long_caption_loses_its_beginning():
    from PIL import ImageFont

    font = ImageFont.load_default(12)
    short = demo._cut("a_folder_with_a_very_long_name/picture.jpg, 4000 x 3000", 150, font)
    assert short.startswith("...") and short.endswith("4000 x 3000") and font.getlength(short) <= 150
    assert demo._cut("a.jpg", 150, font) == "a.jpg"


# --- the whole


def test_an_old_folder_is_left_as_it_is(tmp_path):
    demo._make_folder(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("batches", [5])
def test_the_demo_says_what_it_does_and_what_it_leaves(tmp_path, batches):
    command = [sys.executable, "-m", "asyncdali", "demo", "--batches", str(batches), "--output", "left/here"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "\r" not in said
    for part in ("killed in the middle of an epoch", "random crop", "1. reference", "2. the same job", "3. a new process",
                 f"{batches}/{batches} batches", "bit for bit",
                 str(tmp_path / "left" / "here"), "contact_sheet.png", "demo.cpt"):  # fmt: skip
        assert part in said, part
    assert {path.name for path in (tmp_path / "left" / "here").iterdir()} == {".gitignore", "contact_sheet.png", "demo.cpt"}
    assert (tmp_path / "left" / "here" / ".gitignore").read_text() == "*\n"
