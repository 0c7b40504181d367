"""readers.sequence and io.file.read."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from asyncdali import Pipeline, fn, types
from asyncdali.readers.video import sequence


def reader(batch=1, prefetch_queue_depth=2, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1, prefetch_queue_depth=prefetch_queue_depth)
    with pipe:
        pipe.set_outputs(fn.readers.sequence(name="R", **arguments))
    pipe.build()
    return pipe


@pytest.fixture
def streams(tmp_path):
    """Streams of 3, 7 and 5 frames. The red value of a frame is 10 * stream + number."""
    for stream, count in enumerate((3, 7, 5)):
        (tmp_path / f"s{stream}").mkdir()
        for k in range(count):
            image = np.zeros((4, 6, 3), np.uint8)
            image[..., 0], image[..., 2] = 10 * stream + k, 200
            Image.fromarray(image).save(tmp_path / f"s{stream}" / f"{k}.png")
    return tmp_path


def frames(pipe):
    return [[np.asarray(sample)[:, 0, 0, 0].tolist() for sample in pipe.run()[0]] for _ in range(pipe.epoch_size("R"))]


def test_golden_sequences(streams):
    pipe = reader(file_root=str(streams), sequence_length=3)
    starts = [0, *range(10, 15), *range(20, 23)]
    assert [row[0] for row in frames(pipe)] == [[first, first + 1, first + 2] for first in starts]
    wider = reader(file_root=str(streams), sequence_length=3, step=3, stride=2)
    assert [row[0] for row in frames(wider)] == [[10, 12, 14], [20, 22, 24]]
    [column] = pipe.run()
    assert np.asarray(column[0]).shape == (3, 4, 6, 3) and column.layout() == "FHWC"
    assert column[0].source_info() == str(streams / "s0/0.png")
    [column] = reader(file_root=str(streams), sequence_length=1, image_type=types.BGR).run()
    assert np.asarray(column[0])[0, 0, 0].tolist() == [200, 0, 0]
    [column] = reader(file_root=str(streams), sequence_length=1, image_type=types.GRAY).run()
    assert np.asarray(column[0]).shape == (1, 4, 6, 1)


@pytest.mark.parametrize("much", [0, 1 << 30])
@pytest.mark.parametrize("image_type", [types.RGB, types.YCbCr, types.GRAY])
def test_frames_that_sequences_share_are_decoded_once(streams, monkeypatch, much, image_type):
    """RGB frames are decoded in compiled code, which counts the files; others are finished by the interpreter."""
    compiled, calls = sequence.decoded_pngs, []

    def counted(files, *rest):
        calls.append(len(files))
        return (yield from compiled(files, *rest))

    finished, converted = sequence.decode_frame, []
    monkeypatch.setattr(sequence, "decoded_pngs", counted)
    monkeypatch.setattr(sequence, "decode_frame", lambda *rest: converted.append(1) or finished(*rest))
    monkeypatch.setattr(sequence, "_FEW", much)
    (samples,) = reader(9, file_root=str(streams), sequence_length=3, prefetch_queue_depth=1, image_type=image_type).run()
    assert calls == [3 + 7 + 5] and len(converted) in (0, 3 + 7 + 5)
    if image_type == types.RGB:
        found = [np.asarray(sample)[:, 0, 0, 0].tolist() for sample in samples]
        assert found == [[first, first + 1, first + 2] for first in (0, *range(10, 15), *range(20, 23))]


def test_sequences_of_several_sizes_and_formats(tmp_path):
    """Streams of different sizes and file formats in one batch; every frame is what Pillow decodes."""
    rng = np.random.default_rng(5)
    wanted = {}
    for stream, (kind, size) in enumerate((("png", (6, 9)), ("bmp", (5, 7)), ("png", (40, 33)))):
        (tmp_path / f"s{stream}").mkdir()
        for k in range(3):
            path = tmp_path / f"s{stream}" / f"{k}.{kind}"
            Image.fromarray(rng.integers(0, 256, (*size, 3)).astype(np.uint8)).save(path)
            wanted[stream, k] = np.asarray(Image.open(path).convert("RGB"))
    pipe = reader(6, file_root=str(tmp_path), sequence_length=2)
    for _ in range(3):
        (samples,) = pipe.run()
        for sample, (stream, first) in enumerate((stream, first) for stream in range(3) for first in range(2)):
            np.testing.assert_array_equal(np.asarray(samples[sample]), [wanted[stream, first], wanted[stream, first + 1]])


def test_a_damaged_frame_names_the_first_sequence_with_it(streams):
    (streams / "s1/4.png").write_bytes(b"broken")
    with pytest.raises(RuntimeError, match=r"(?s)sample 3.*4\.png"):
        reader(9, file_root=str(streams), sequence_length=3).run()


def test_invalid_sequences_are_refused(streams, tmp_path_factory):
    for arguments, message in (
        ({"sequence_length": 0}, "Sequence length must be positive"), ({"step": 0}, "Step must be positive"),
        ({"stride": -1}, "Stride must"),
        ({"sequence_length": 8}, "no stream"), ({"file_root": str(tmp_path_factory.mktemp("x"))}, "Glob for pattern"),
        ({"image_type": types.YCbCr, "file_root": "/no/such"}, "Glob for pattern"),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, ValueError), match=message):
            reader(**{"file_root": str(streams), "sequence_length": 3, **arguments})
    (streams / "s0/notes.txt").write_text("x")
    with pytest.warns(UserWarning, match="notes.txt"):
        pipe = reader(file_root=str(streams), sequence_length=3)
    Image.fromarray(np.zeros((5, 6, 3), np.uint8)).save(streams / "s0/1.png")
    (streams / "s1/2.png").write_bytes(b"broken")
    os.unlink(streams / "s2/4.png")
    for k in range(9):
        if k in (0, 1, 2, 3, 8):
            with pytest.raises(RuntimeError, match="frames of one size|must be of one size|2.png|4.png"):
                pipe.run()
        else:
            pipe.run()


# --- io.file.read


def file_reader(paths, batch=None, **arguments):
    pipe = Pipeline(batch_size=batch or len(paths), num_threads=2)
    with pipe:
        names = fn.external_source(lambda: [np.frombuffer(os.fsencode(path), np.uint8) for path in paths])
        pipe.set_outputs(fn.io.file.read(names, **arguments))
    pipe.build()
    return pipe


@pytest.mark.parametrize(
    "options", [{}, {"dont_use_mmap": True}, {"use_o_direct": True}, {"dont_use_mmap": True, "use_o_direct": True}], ids=str
)
def test_named_files(tmp_path, options):
    names = ["a", "ü ö", "c" * 200]
    for k, name in enumerate(names):
        (tmp_path / name).write_bytes(bytes([k + 1]) * (k * 5000 + 1))
    [column] = file_reader([tmp_path / name for name in names], **options).run()
    assert [np.asarray(item).tobytes() for item in column] == [bytes([k + 1]) * (k * 5000 + 1) for k in range(3)]
    assert [column[k].source_info() for k in range(3)] == [str(tmp_path / name) for name in names]


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "a").write_bytes(b"a")
    for name, message in (("gone", "No such file"), ("empty", "the file is empty"), ("", "directory"), ("a" * 300, "too long")):
        with pytest.raises(RuntimeError, match=rf"(?s)sample 1.*File mapping failed: {tmp_path}/{name}.*{message}"):
            file_reader([tmp_path / "a", f"{tmp_path}/{name}"]).run()
    assert np.asarray(file_reader([tmp_path / "empty"], dont_use_mmap=True).run()[0][0]).shape == (0,)
    pipe = Pipeline(batch_size=1, num_threads=1)
    with pipe:
        pipe.set_outputs(fn.io.file.read(fn.external_source(lambda: [np.int32([97])])))
    with pytest.raises(ValueError, match="INT32"):
        pipe.run()
