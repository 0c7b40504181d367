"""readers.video and experimental.readers.video: selected frames, files, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("av", reason="reading videos needs PyAV")

from helpers.videos import frame_numbers, write_video

from asyncdali import Pipeline, fn, types


def reader(name="experimental", batch=1, device="cpu", **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1, device_id=None if device == "cpu" else 0)
    with pipe:
        module = fn.experimental.readers if name == "experimental" else fn.readers
        made = module.video(name="R", device=device, **arguments)
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return pipe


def epoch(pipe):
    """The frame numbers of all sequences."""
    return [frame_numbers(pipe.run()[0][0]) for _ in range(pipe.epoch_size("R"))]


@pytest.fixture(scope="module")
def seven(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("video") / "seven.webm", 7)


@pytest.fixture(scope="module")
def twenty(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("video") / "twenty.webm", 20)


@pytest.mark.parametrize("mode, tail", [("none", None), ("constant", [4, 5, 6, 10]), ("edge", [4, 5, 6, 6]), ("repeat", [4, 5, 6, 6]),
                                        ("reflect", [4, 5, 6, 5]), ("reflect_101", [4, 5, 6, 5]), ("symmetric", [4, 5, 6, 6]),
                                        ("reflect_1001", [4, 5, 6, 6])])  # fmt: skip
def test_golden_padding(seven, mode, tail):
    pipe = reader(filenames=[seven], sequence_length=4, pad_mode=mode, fill_value=[60])
    assert epoch(pipe) == [[0, 1, 2, 3], *([] if tail is None else [tail])]


def test_outputs(seven):
    extra = {"enable_frame_num": "sequence", "enable_timestamps": True}
    pipe = reader(filenames=[seven], labels=[5], sequence_length=4, pad_mode="constant", **extra)
    pipe.run()
    video, label, numbers, times = pipe.run()
    assert np.asarray(video[0]).shape == (4, 16, 32, 3) and video.layout() == "FHWC" and video.dtype == types.UINT8
    assert video[0].source_info() == label[0].source_info() == seven
    assert np.asarray(label[0]).tolist() == [5] and label.dtype == types.INT32
    assert np.asarray(numbers[0]).tolist() == [4, 5, 6, -1] and numbers.dtype == types.INT32
    assert np.asarray(times[0]).tolist() == pytest.approx([0.16, 0.2, 0.24, -1]) and times.dtype == types.FLOAT64
    video, numbers = reader(filenames=[seven], sequence_length=4, pad_mode="edge", step=3, enable_frame_num=True).run()
    assert np.asarray(numbers[0]).tolist() == [0]


def test_frames_with_gaps_between_them(twenty):
    """Requests in any order return the frames with the requested numbers."""
    pipe = reader(filenames=[twenty], sequence_length=3, stride=4, step=3, random_shuffle=True, pad_mode="reflect_101", batch=3,
                  enable_frame_num="sequence")  # fmt: skip
    for _ in range(6):
        video, numbers = pipe.run()
        for frames, expected in zip(video, numbers, strict=True):
            assert frame_numbers(frames) == np.asarray(expected).tolist()


@pytest.mark.parametrize("codec, suffix, pixels, options", [
    ("libx264", "mp4", "yuv420p", {"bf": "2", "crf": "1"}), ("libx265", "mkv", "yuv420p", {"x265-params": "log-level=none"}),
    ("mpeg4", "avi", "yuv420p", {"qmax": "2"}), ("mpeg4", "mp4", "yuv420p", {"bf": "2", "qmax": "2"}),
    ("libvpx", "webm", "yuv420p", {"auto-alt-ref": "1", "lag-in-frames": "16", "crf": "4", "b": "2M"}),
    ("mjpeg", "avi", "yuvj420p", {"q": "2"}), ("ffv1", "mkv", "yuv444p", {}),
])  # fmt: skip
def test_formats(tmp_path, codec, suffix, pixels, options):
    """Containers whose frames are stored in display order, and containers with another order."""
    path = write_video(tmp_path / f"v.{suffix}", 20, codec=codec, pixels=pixels, size=(32, 64), gop=7, **options)
    pipe = reader(filenames=[path], sequence_length=2, stride=9, step=1, random_shuffle=True, enable_frame_num="sequence")
    assert pipe.epoch_size("R") == 3
    straight = reader(filenames=[path], sequence_length=20)
    assert epoch(straight) == [list(range(20))]
    for _ in range(5):
        video, numbers = pipe.run()
        assert frame_numbers(video[0]) == np.asarray(numbers[0]).tolist()


def test_uniform_samples(seven):
    for length, expected in ((1, [0]), (2, [0, 6]), (5, [0, 2, 3, 5, 6]), (9, [0, 1, 2, 2, 3, 4, 5, 5, 6])):
        assert epoch(reader(filenames=[seven], sequence_length=length, uniform_sample=True)) == [expected]
    with pytest.warns(UserWarning, match="`stride` argument is ignored"):
        reader(filenames=[seven], sequence_length=2, uniform_sample=True, stride=3)


def test_classes(tmp_path):
    for name, count, first in (("b", 3, 0), ("a", 4, 100)):
        (tmp_path / name).mkdir()
        write_video(tmp_path / name / "v.webm", count, first)
    pipe = reader(file_root=str(tmp_path), sequence_length=3, batch=2)
    video, label = pipe.run()
    assert [int(np.asarray(sample)[0, 0, 0, 0]) for sample in video] == [100, 0]
    assert [np.asarray(sample).tolist() for sample in label] == [[0], [1]]


@pytest.mark.parametrize("name, line, arguments, frames", [
    ("experimental", "3 2 5", {"file_list_format": "frames"}, [2, 3, 4]),
    ("experimental", "3 16", {"file_list_format": "frames"}, [16, 17, 18, 19]),
    ("experimental", "3 -4 -1", {"file_list_format": "frames"}, [16, 17, 18]),
    ("experimental", "3 17 90", {"file_list_format": "frames"}, [17, 18, 19]),
    ("experimental", "3 0.7 0.79", {}, [17, 18, 19]),
    ("experimental", "3 0.7", {}, [17, 18, 19]),
    ("experimental", "3 0.7 1e300", {}, [17, 18, 19]),
    ("experimental", "3 17 1e300", {"file_list_format": "frames"}, [17, 18, 19]),
    ("legacy", "3 0.68 1e308", {}, [17, 18, 19]),
    ("experimental", "3 0.09 0.21", {}, [2, 3, 4, 5]),
    ("experimental", "3 0.09 0.21", {"file_list_rounding": "start_up_end_down"}, [3, 4]),
    ("legacy", "3 2 5", {"file_list_frame_num": True}, [2, 3, 4]),
    ("legacy", "3 1.5 5.5", {"file_list_frame_num": True}, [2, 3, 4]),
    ("legacy", "3 -4 -1", {"file_list_frame_num": True}, [16, 17, 18]),
    ("legacy", "3 0.09 0.21", {}, [3, 4]),
    ("legacy", "3 0.09 0.21", {"file_list_include_preceding_frame": True}, [2, 3, 4, 5]),
])  # fmt: skip
def test_parts(twenty, tmp_path, name, line, arguments, frames):
    (tmp_path / "list.txt").write_text(f"{twenty} {line}\n\n")
    pipe = reader(name, file_list=str(tmp_path / "list.txt"), sequence_length=1, **arguments)
    assert epoch(pipe) == [[frame] for frame in frames]
    assert np.asarray(pipe.run()[1][0]).tolist() == [3]


def test_the_older_reader(seven, tmp_path):
    pipe = reader("legacy", filenames=[seven], labels=[], sequence_length=4, stride=2)
    assert epoch(pipe) == [[0, 2, 4, 6]]
    assert np.asarray(pipe.run()[1][0]).tolist() == [0]
    pipe = reader("legacy", filenames=[seven], sequence_length=3, step=2, pad_sequences=True, enable_frame_num="sequence")
    numbers = [np.asarray(pipe.run()[1][0]).tolist() for _ in range(4)]
    assert numbers == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, -1, -1]]
    plain = np.asarray(reader("legacy", filenames=[seven], sequence_length=7).run()[0][0])
    for normalized, scale in ((False, 1), (True, np.float32(1 / 255))):
        [floats] = reader("legacy", filenames=[seven], sequence_length=7, dtype=types.FLOAT, normalized=normalized).run()
        assert floats.dtype == types.FLOAT and np.array_equal(np.asarray(floats[0]), plain * np.float32(scale))
    uneven = write_video(tmp_path / "vfr.webm", 4, times=[0, 40, 100, 140])
    with pytest.raises(RuntimeError, match="Variable frame rate.*vfr.webm"):
        reader("legacy", filenames=[uneven], sequence_length=2)
    assert epoch(reader("legacy", filenames=[uneven], sequence_length=2, skip_vfr_check=True)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name", ["experimental", "legacy"])
def test_device_gpu_gives_what_the_cpu_gives(name, seven, monkeypatch):
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    [there] = reader(name, filenames=[seven], sequence_length=4, device="gpu").run()
    [here] = reader(name, filenames=[seven], sequence_length=4).run()
    assert np.array_equal(np.asarray(there.as_cpu()[0]), np.asarray(here[0]))


@pytest.mark.parametrize("name", ["experimental", "classic"])
def test_on_a_gpu(name, seven, twenty, cuda):
    """The CPU decodes, all outputs are uploaded, and GPU operators use the frames."""
    made = []
    for device in ("cpu", "gpu"):
        pipe = Pipeline(batch_size=2, num_threads=2, seed=1, device_id=0)
        with pipe:
            module = fn.experimental.readers if name == "experimental" else fn.readers
            frames, labels = module.video(device=device, filenames=[seven, twenty], labels=[3, 8], sequence_length=3, random_shuffle=True)
            pipe.set_outputs(fn.flip(frames), labels)
        pipe.build()
        assert device == "cpu" or type(pipe.run()[0]).__name__ == "TensorListGPU"
        if device == "cpu":
            pipe.run()
        for _ in range(5):
            made.append([[np.array(x) for x in (output.as_cpu() if device == "gpu" else output)] for output in pipe.run()])
        pipe.close()
    for expected, found in zip(made[:5], made[5:], strict=True):
        for x, y in zip(expected, found, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(x, y, strict=True))


def test_colours(tmp_path):
    """As in image decoders, YCbCr is computed from RGB."""
    from asyncdali.codecs.image_decoding import convert

    images = np.random.default_rng(0).integers(0, 255, (3, 16, 32, 3), np.uint8)
    path = write_video(tmp_path / "v.webm", 3, images=images)
    [rgb] = reader(filenames=[path], sequence_length=3).run()
    [other] = reader(filenames=[path], sequence_length=3, image_type=types.YCbCr).run()
    frame = np.asarray(rgb[0])[1]
    assert np.array_equal(np.asarray(other[0])[1], convert(frame, types.YCbCr, types.UINT8))


@pytest.mark.parametrize("name, arguments, message", [
    ("experimental", {}, "Only one of"), ("experimental", {"filenames": ["{seven}"], "file_root": "."}, "Only one of"),
    ("experimental", {"filenames": []}, "No files were read"),
    ("experimental", {"filenames": ["{seven}"], "labels": [1, 2]}, "1 files and 2 labels"),
    ("experimental", {"filenames": ["{seven}"], "labels": []}, "1 files and 0 labels"),
    ("experimental", {"filenames": ["{seven}"], "sequence_length": 0}, "`sequence_length` must be positive"),
    ("experimental", {"filenames": ["{seven}"], "stride": 0}, "`stride` must be positive"),
    ("experimental", {"filenames": ["{seven}"], "sequence_length": 8}, "8 frames"),
    ("experimental", {"filenames": ["{seven}"], "pad_mode": "odd"}, "Invalid pad_mode: odd"),
    ("experimental", {"filenames": ["{seven}"], "fill_value": [1, 2]}, "got 2 values"),
    ("experimental", {"filenames": ["{seven}"], "fill_value": [256]}, "range"),
    ("experimental", {"filenames": ["{seven}"], "image_type": types.GRAY}, "Invalid image type: GRAY"),
    ("experimental", {"filenames": ["{seven}"], "file_list_format": "odd"}, "Invalid file_list_format"),
    ("experimental", {"filenames": ["{seven}"], "file_list_rounding": "odd"}, "Invalid file_list_rounding"),
    ("experimental", {"filenames": ["{seven}"], "enable_frame_num": "odd"}, "Invalid enable_frame_num"),
    ("experimental", {"filenames": ["{seven}"], "enable_frame_num": 1}, "Invalid enable_frame_num"),
    ("experimental", {"file_list": "/no/such/list"}, "Could not open file list /no/such/list"),
    ("legacy", {"filenames": ["{seven}"], "channels": 1}, "`channels` is 1"),
    ("legacy", {"filenames": ["{seven}"], "normalized": True}, "types.FLOAT"),
    ("legacy", {"filenames": ["{seven}"], "dtype": types.INT16}, "`dtype` is INT16"),
])  # fmt: skip
def test_refusals(seven, name, arguments, message):
    given = {key: [seven] if value == ["{seven}"] else value for key, value in arguments.items()}
    with pytest.raises((RuntimeError, ValueError), match=message):
        reader(name, **{"sequence_length": 3, **given})


@pytest.mark.parametrize("line, message", [
    ("", "2 words|got 1 words"), ("x", "invalid literal"), ("-3", ">= 0"), ("3 a b", "could not convert"), ("3 1 2 3", "got 5 words"),
    ("3.5", "invalid literal"), ("99999999999", "32 bits"), ("3 -21 5", "before the first of 20"), ("3 nan 5", "finite"),
])  # fmt: skip
def test_lists_that_cannot_be_read(twenty, tmp_path, line, message):
    (tmp_path / "list.txt").write_text(f"\n{twenty} {line}\n")
    with pytest.raises(RuntimeError, match=f"list.txt:2.*({message})"):
        reader(file_list=str(tmp_path / "list.txt"), file_list_format="frames", sequence_length=1)


def test_files_that_are_no_videos(seven, tmp_path):
    (tmp_path / "text.webm").write_text("no video")
    with pytest.warns(UserWarning, match=r"skips a file.*text.webm"):
        pipe = reader(filenames=[str(tmp_path / "text.webm"), seven], sequence_length=4)
    assert epoch(pipe) == [[0, 1, 2, 3]]
    (tmp_path / "list.txt").write_text(f"{seven} 1 3 3\n{seven} 2 0 4\n")
    with pytest.warns(UserWarning, match="list.txt:1: no frames"):
        pipe = reader(file_list=str(tmp_path / "list.txt"), file_list_format="frames", sequence_length=2)
    assert epoch(pipe) == [[0, 1], [2, 3]]


def test_a_file_that_is_damaged_or_gone_when_it_is_read(tmp_path):
    path = tmp_path / "v.webm"
    write_video(path, 12)
    pipe = reader(filenames=[str(path)], sequence_length=3, prefetch_queue_depth=1)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(RuntimeError, match=r"(?s)sample 0.*v.webm"):
        for _ in range(4):
            pipe.run()
    pipe.close()
    path.write_bytes(data)
    pipe = reader(filenames=[str(path)], sequence_length=3)
    path.unlink()
    with pytest.raises(RuntimeError, match=r"(?s)sample 0.*v.webm: No such file"):
        pipe.run()


def test_without_pyav(seven, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(RuntimeError, match=r"needs PyAV, which is not installed: pip install asyncdali\[video\]"):
        reader(filenames=[seven], sequence_length=3)
