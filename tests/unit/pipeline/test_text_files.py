"""Lists, indices and annotations that Windows programs wrote: a byte-order mark in front, CRLF at the ends of lines."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.containers import write_tar
from helpers.readers import EVERY_KIND, delivered, pipeline
from helpers.text_files import TEXTS, write_texts

from asyncdali import Pipeline, fn
from asyncdali.__main__ import main
from asyncdali.readers.video.video_sequences import read_video_list

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_text_files_of_windows(tmp_path, name):
    kind = EVERY_KIND[name]
    arguments, texts = write_texts(name, tmp_path)
    plain = delivered(kind, pipeline(kind, arguments), 3)
    assert plain[0] == [0, 1, 2, 3]
    for path in texts:
        path.write_bytes(MARK + path.read_bytes().replace(b"\n", b"\r\n"))
    assert delivered(kind, pipeline(kind, arguments), 3) == plain
    if name in ("file", "numpy", "fits"):  # two lists, one behind the other
        lines = texts[0].read_bytes().removeprefix(MARK).split(b"\r\n")
        texts[0].write_bytes(b"".join(MARK * (k in (0, 5)) + line + b"\r\n" for k, line in enumerate(lines)))
        assert delivered(kind, pipeline(kind, arguments), 3) == plain


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"coco", "nemo_asr"}))
def test_other_encodings_are_named(tmp_path, name):
    kind = EVERY_KIND[name]
    arguments, texts = write_texts(name, tmp_path)
    texts[0].write_bytes(texts[0].read_bytes().decode().encode("utf-16"))
    with pytest.raises(RuntimeError, match=r"is encoded as UTF-16 or UTF-32; save it as UTF-8") as caught:
        pipeline(kind, arguments)
    assert texts[0].name in str(caught.value)


BLANKS = "a\u00a0b\u3000c\u2028d\x1ce\x85"
"""Characters that Python takes for blanks, in a name."""


def test_blanks_of_other_scripts_are_parts_of_names(tmp_path):
    path = write_tar(tmp_path / "a.tar", [(f"{BLANKS}.x", b"1"), ("b.x", b"2")])
    assert main(["wds2idx", path]) == 0
    pipe = Pipeline(batch_size=2, num_threads=1)
    with pipe:
        (tmp_path / f"{BLANKS}.bin").write_bytes(b"content")
        (tmp_path / "list").write_text(f"{BLANKS}.bin 3\n")
        members = fn.readers.webdataset(paths=path, index_paths=[f"{tmp_path}/a.idx"], ext="x")
        pipe.set_outputs(members if not isinstance(members, list) else members[0], *fn.readers.file(file_list=str(tmp_path / "list")))
    members, contents, labels = pipe.run()
    assert [np.asarray(member).tobytes() for member in members] == [b"1", b"2"] and members[0].source_info().endswith(f"{BLANKS}.x")
    assert np.asarray(contents[0]).tobytes() == b"content" and np.asarray(labels[0]).tolist() == [3]
    (tmp_path / "videos").write_text(f"{BLANKS}.mp4 3 1 2\n")
    [video] = read_video_list(str(tmp_path / "videos"))
    assert (video.path, video.label, video.start, video.stop) == (f"{BLANKS}.mp4", 3, 1, 2)


@pytest.mark.parametrize("line", ["a.mp4 1_0", "a.mp4 \u0663", "a.mp4 0 1_0 2", "a.mp4 0 1 \uff12", "a.mp4 " + "9" * 5000, "a.mp4 0 1e999"])
def test_numbers_of_a_list_of_videos(tmp_path, line):
    (tmp_path / "list").write_text(f"good.mp4 0\n{line}\n")
    with pytest.raises(RuntimeError, match=rf"Incorrect format of the list file {tmp_path}/list:2: expected `path label"):
        read_video_list(str(tmp_path / "list"))


@pytest.mark.parametrize("text, what", [("a\0b", "a NUL character"), ("\ud800", "half a surrogate pair")])
def test_arguments_that_cannot_be_paths(text, what):
    calls = [
        lambda: fn.readers.file(files=[text]), lambda: fn.readers.file(file_root=text), lambda: fn.readers.file(file_list=text),
        lambda: fn.readers.numpy(file_root=text), lambda: fn.readers.webdataset(paths=["a.tar", text], ext="x"),
        lambda: fn.readers.caffe(path=text), lambda: fn.readers.coco(file_root="/", annotations_file=text),
        lambda: fn.readers.mxnet(path="a", index_path=text), lambda: fn.readers.sequence(file_root=text, sequence_length=1),
    ]  # fmt: skip
    for call in calls:
        pipe = Pipeline(batch_size=1, num_threads=1)
        with pipe:
            made = call()
            pipe.set_outputs(*(made if isinstance(made, list) else [made]))
        with pytest.raises(ValueError, match=rf"argument `\w+` is not a path: .* has {what}"):
            pipe.build()
