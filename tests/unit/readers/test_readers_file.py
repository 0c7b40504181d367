"""readers.file in pipelines: selection, labels and order of files."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from helpers.pipelines import values
from helpers.warm import run_warm

from asyncdali import Pipeline, fn
from asyncdali.operators.base import CompiledJob

GOLDEN = [
    ("10/q.wav", 0), ("9/q.flac", 1), ("B/z.Jpeg", 2), ("a/w.WEBP", 3), ("a/x.png", 3), ("b/.hidden.jpg", 4),
    ("b/1.JPG", 4), ("b/2.jpg", 4), ("b/link.png", 4), ("c d/sp ace.jpg", 5), ("zlink/w.WEBP", 8), ("zlink/x.png", 8),
]  # fmt: skip


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A tree with hidden, empty, linked and misleading entries. Every file contains its own path."""
    root = tmp_path_factory.mktemp("tree")
    extra = [("dirjpg/sub.jpg/inner.txt", 0), ("a/notes.txt", 0), ("top.jpg", 0), ("b/deep/deeper.jpg", 0), (".hid/h.jpg", 0)]
    for name, _ in GOLDEN + extra:
        if not name.startswith("zlink") and name != "b/link.png":
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(name)
    (root / "empty").mkdir()
    (root / "zlink").symlink_to(root / "a")
    (root / "b/link.png").symlink_to(root / "a/x.png")
    return root


def reader(batch_size=4, *, build=True, name="R", pipeline=None, **arguments):
    options = {"num_threads": 2, "seed": 42, **(pipeline or {})}
    pipe = Pipeline(batch_size=batch_size, **options)
    with pipe:
        contents, labels = fn.readers.file(name=name, **arguments)
        pipe.set_outputs(contents, labels, contents.source_info())
    if build:
        pipe.build()
    return pipe


def listing(pipe, batches):
    """(source info, label) of every sample."""
    result = []
    for _ in range(batches):
        _, labels, infos = pipe.run()
        result += [(bytes(np.asarray(info)).decode(), int(np.asarray(label)[0])) for info, label in zip(infos, labels, strict=True)]
    return result


@pytest.fixture(scope="module")
def ten(tmp_path_factory):
    """Ten files named by their number."""
    root = tmp_path_factory.mktemp("ten")
    for k in range(10):
        (root / f"{k}").write_bytes(bytes([k] * (k + 1)))
    return [str(root / f"{k}") for k in range(10)]


def indices(batches, batch_size=4, count=10, **arguments):
    """The reader's samples as labels, from the shared ten files, or from one file repeated."""
    pipe = reader(batch_size, **arguments)
    return [[row[0] for row in values(pipe.run())[1]] for _ in range(batches)]


# --- directories


def test_golden_tree(tree):
    pipe = reader(len(GOLDEN), file_root=str(tree))
    contents, labels, infos = pipe.run()
    assert listing(reader(len(GOLDEN), file_root=str(tree)), 1) == GOLDEN
    assert pipe.reader_meta("R")["epoch_size"] == len(GOLDEN)
    for k, (name, label) in enumerate(GOLDEN):
        data = np.asarray(contents[k])
        real = {"b/link.png": "a/x.png"}.get(name, name.replace("zlink/", "a/"))
        assert data.dtype == np.uint8 and data.ndim == 1 and data.tobytes().decode() == real
        assert np.asarray(labels[k]).dtype == np.int32 and np.asarray(labels[k]).tolist() == [label]
        assert contents[k].source_info() == name
    assert contents.layout() == "" and labels.layout() == ""
    assert len(infos) == len(GOLDEN)


def test_filters(tree):
    root = str(tree)
    assert listing(reader(4, file_root=root, file_filters=["*.JPG"]), 2)[:6] == [
        ("b/.hidden.jpg", 4), ("b/1.JPG", 4), ("b/2.jpg", 4), ("c d/sp ace.jpg", 5), ("b/.hidden.jpg", 4), ("b/1.JPG", 4)]  # fmt: skip
    assert listing(reader(1, file_root=root, file_filters="*.JPG", case_sensitive_filter=True), 2) == [("b/1.JPG", 4)] * 2
    assert listing(reader(2, file_root=root, file_filters=["?.jp[ge]*"], dir_filters=["B", "[!0-9.]"]), 3)[:5] == [
        ("B/z.Jpeg", 0), ("b/1.JPG", 2), ("b/2.jpg", 2), ("B/z.Jpeg", 0), ("b/1.JPG", 2)]  # fmt: skip
    assert listing(reader(1, file_root=root, file_filters=["*.txt"], dir_filters=["A"]), 1) == [("a/notes.txt", 0)]
    with pytest.raises(RuntimeError, match=r"No files found"):
        reader(1, file_root=root, dir_filters=["A"], case_sensitive_filter=True)


def test_hidden_folders_are_no_classes(tmp_path):
    """Notebook servers, version control and file managers make them; as classes they would move the labels of all others."""
    for folder in (".ipynb_checkpoints", "a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.jpg").write_text(folder)
    root = str(tmp_path)
    assert listing(reader(2, file_root=root), 1) == [("a/x.jpg", 0), ("b/x.jpg", 1)]
    assert listing(reader(2, file_root=root, dir_filters=["*"]), 1) == [("a/x.jpg", 0), ("b/x.jpg", 1)]
    asked = listing(reader(3, file_root=root, dir_filters=[".*", "*"]), 1)
    assert asked == [(".ipynb_checkpoints/x.jpg", 0), ("a/x.jpg", 1), ("b/x.jpg", 2)]


# --- lists


def test_files_and_labels(ten):
    three = [ten[2], ten[1], ten[2]]
    pipe = reader(3, files=three)
    contents, labels, _ = pipe.run()
    assert values([contents, labels]) == [[[2] * 3, [1] * 2, [2] * 3], [[0], [1], [2]]]
    assert [contents[k].source_info() for k in range(3)] == three
    assert values(reader(3, files=three, labels=[-5, 7, 2**31 - 1]).run())[1] == [[-5], [7], [2**31 - 1]]
    relative = reader(2, files=["3", "4"], file_root=os.path.dirname(ten[0]))
    assert listing(relative, 1) == [("3", 0), ("4", 1)]
    with pytest.raises(ValueError, match=r"label 1 is 2147483648; labels are 32-bit integers"):
        reader(1, files=three[:2], labels=[0, 2**31])
    with pytest.raises(ValueError, match=r"NUL"):
        reader(1, files=["a\0b"])


def test_file_list(tmp_path, ten):
    names = ["a b 7", "x\ty", " lead", "# c", "ünï", "12"]
    for k, name in enumerate(names):
        (tmp_path / name).write_bytes(bytes([k + 1]))
    text = "a b 7 10\r\n\r\nx\ty\t\t11  \n   \n lead 12\n# c 13\n" + "ünï 14\n12 15\n" + f"{ten[3]}   16"
    (tmp_path / "list.txt").write_bytes(text.encode())
    pipe = reader(7, file_list=str(tmp_path / "list.txt"))
    contents, labels, _ = pipe.run()
    assert values([labels])[0] == [[k] for k in range(10, 17)]
    assert values([contents])[0] == [*[[k] for k in range(1, 7)], [3] * 4]
    assert contents[4].source_info() == "ünï" and contents[6].source_info() == ten[3]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/list").write_text("12 3")
    assert listing(reader(1, file_list=str(tmp_path / "sub/list"), file_root=str(tmp_path)), 1) == [("12", 3)]


def test_lists_that_windows_wrote(tmp_path, ten):
    """A byte-order mark is no part of the first name."""
    (tmp_path / "list").write_bytes(b"\xef\xbb\xbf" + f"{ten[1]} 007\r\n\r\n{ten[2]} {'0' * 5000}8\r\n".encode())
    assert listing(reader(2, file_list=str(tmp_path / "list")), 1) == [(ten[1], 7), (ten[2], 8)]
    for encoding in ("utf-16", "utf-32"):
        (tmp_path / "list").write_bytes(f"{ten[1]} 7\n".encode(encoding))
        with pytest.raises(RuntimeError, match=r"Cannot open: .*list is encoded as UTF-16 or UTF-32; save it as UTF-8"):
            reader(1, file_list=str(tmp_path / "list"))


@pytest.mark.parametrize(
    "line", ["name", "name -3", "  5", "name 3.5", "name 2147483648", "name 3 x", "x" * 20_000 + " 1", "name " + "9" * 9000],
)  # fmt: skip
def test_bad_lines_are_numbered(tmp_path, line):
    (tmp_path / "list").write_text(f"good 1\n\n{line}\n")
    with pytest.raises(RuntimeError, match=r'list file ".*list":3 expected file name followed by a label') as caught:
        reader(1, file_list=str(tmp_path / "list"))
    assert len(str(caught.value)) < 4000


@pytest.mark.parametrize(
    "arguments, message",
    [({}, r"`file_root` argument is required"), ({"files": ["a"], "file_list": "b"}, r"but not both"),
     ({"file_root": "x", "labels": [1]}, r"`labels` is valid only"),
     ({"files": ["a", "b"], "labels": [1]}, r"Provided 1 labels for 2 files"),
     ({"files": []}, r"`files` specified an empty list"), ({"file_root": "/", "file_filters": []}, r"`file_filters` list cannot be empty"),
     ({"file_root": "/", "dir_filters": []}, r"`dir_filters` list cannot be empty"),
     ({"file_list": ""}, r"`file_list` argument cannot be empty"),
     ({"file_root": "/no/such"}, r"Failed to open /no/such"), ({"file_list": "/no/such"}, r"Cannot open: /no/such"),
     ({"file_root": "/dev/null"}, r"Failed to open")],
)  # fmt: skip
def test_arguments_that_build_refuses(arguments, message):
    with pytest.raises(RuntimeError, match=message) as caught:
        reader(1, **arguments)
    assert "readers.file" in str(caught.value) and __file__ in str(caught.value)


def test_an_empty_data_set_is_refused(tmp_path):
    (tmp_path / "list").write_text("\n\n")
    for arguments in ({"file_root": str(tmp_path)}, {"file_list": str(tmp_path / "list")}):
        with pytest.raises(RuntimeError, match=r"No files found"):
            reader(1, **arguments)


@pytest.mark.parametrize(
    "arguments", [{"num_shards": 11}, {"shard_id": 1}, {"num_shards": 2, "shard_id": 2}, {"shard_id": -1}, {"num_shards": 0},
                  {"initial_fill": 0, "random_shuffle": True}, {"prefetch_queue_depth": 0},
                  {"shuffle_after_epoch": True, "stick_to_shard": True}, {"shuffle_after_epoch": True, "random_shuffle": True}],
)  # fmt: skip
def test_arguments_out_of_range(ten, arguments):
    """The error names the argument."""
    with pytest.raises((ValueError, RuntimeError), match=next(iter(arguments))):
        reader(1, files=ten, **arguments)


def test_a_seed_without_effect_gives_a_warning(ten):
    with pytest.warns(UserWarning, match=r"shuffle_after_epoch_seed") as seen:
        reader(1, files=ten, shuffle_after_epoch_seed=3)
    assert seen[0].filename == __file__


# --- lazy_init


def test_lazy_init_looks_at_first_use(tmp_path, ten):
    pipe = reader(1, file_root=str(tmp_path / "later"), lazy_init=True)
    (tmp_path / "later/a").mkdir(parents=True)
    (tmp_path / "later/a/x.jpg").write_bytes(b"x")
    assert listing(pipe, 1) == [("a/x.jpg", 0)]
    nowhere = reader(1, file_root="/no/such", lazy_init=True)
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"Failed to open /no/such"):
            nowhere.run()
    with pytest.raises(RuntimeError, match=r"Failed to open /no/such"):
        nowhere.reader_meta()
    too_many = reader(1, files=ten, num_shards=11, lazy_init=True)
    with pytest.raises((RuntimeError, ValueError), match=r"num_shards"):
        too_many.run()
    assert indices(2, files=ten, lazy_init=True, random_shuffle=True) == indices(2, files=ten, random_shuffle=True)


def test_metadata_while_a_lazy_reader_discovers(ten):
    pipe = reader(2, files=ten, lazy_init=True)
    pipe.schedule_run()
    assert pipe.reader_meta("R")["epoch_size"] == 10
    assert [row[0] for row in values(pipe.outputs())[1]] == [0, 1]


# --- data that cannot be read


def test_a_bad_file_fails_its_iteration_alone(tmp_path, ten):
    (tmp_path / "empty").touch()
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "pipe")
    files = [*ten[:3], str(tmp_path / "gone"), *ten[4:6], str(tmp_path / "empty"), str(tmp_path / "dir"), str(tmp_path / "pipe"), ten[9]]
    pipe = reader(1, files=files, prefetch_queue_depth=2)
    for epoch in range(2):
        for k in range(10):
            if k in (3, 6, 7, 8):
                with pytest.raises(RuntimeError, match=rf"File mapping failed: {files[k]}") as caught:
                    pipe.run()
                text = str(caught.value)
                assert f"iteration {10 * epoch + k}" in text and "sample 0" in text and __file__ in text
            else:
                assert values(pipe.run())[1] == [[k]]
    before = len(os.listdir("/proc/self/fd"))
    batch = reader(10, files=files)
    for _ in range(20):
        with pytest.raises(RuntimeError, match=r"sample 3"):
            batch.run()
    batch.close()
    assert len(os.listdir("/proc/self/fd")) <= before  # failed iterations close their files
    assert values(reader(1, files=[str(tmp_path / "empty")], dont_use_mmap=True).run())[0] == [[]]


LIMITED = """
import os, resource, sys
import numpy as np
from asyncdali import fn, pipeline_def

files = sys.argv[1:]

@pipeline_def(batch_size=1000, num_threads=2, device_id=None)
def graph():
    return fn.readers.file(files=files)

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 290, hard))
pipe = graph()
pipe.build()
contents = pipe.run()[0]
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
for k in (0, 9, 255, 256, 999):
    assert np.asarray(contents[k]).tolist() == [k % 10] * (k % 10 + 1), k
"""


def test_batches_larger_than_the_descriptor_limit(ten):
    """In a fresh process: each thread of this one that waits in `accept` has a descriptor that is counted and not listed."""
    done = run_warm(LIMITED, *ten)
    assert done.returncode == 0, done.stderr


def test_a_pipe_without_a_writer_does_not_block_closing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = reader(1, files=[str(tmp_path / "pipe")], dont_use_mmap=True)
    done = threading.Thread(target=_expect_error, args=(pipe,))
    done.start()
    done.join(300)
    assert not done.is_alive()


def _expect_error(pipe):
    with pytest.raises(RuntimeError, match=r"pipe"):
        pipe.run()


# --- order


@pytest.mark.parametrize(
    "arguments, wanted",
    [({"num_shards": 3, "shard_id": 1}, [[3, 4, 5, 6], [7, 8, 9, 0], [1, 2, 3, 4]]),
     ({"num_shards": 3, "shard_id": 1, "stick_to_shard": True}, [[3, 4, 5, 3], [4, 5, 3, 4], [5, 3, 4, 5]]),
     ({"pad_last_batch": True}, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9], [0, 1, 2, 3]]),
     ({"num_shards": 4, "pad_last_batch": True}, [[0, 1, 1, 1], [2, 3, 4, 4], [5, 6, 6, 6], [7, 8, 9, 9], [0, 1, 1, 1]]),
     ({"num_shards": 4, "pad_last_batch": True, "stick_to_shard": True, "shard_id": 2}, [[5, 6, 6, 6]] * 3),
     ({"random_shuffle": True, "initial_fill": 1}, [[5, 9, 1, 6], [7, 2, 0, 4], [8, 3, 5, 9]])],
)  # fmt: skip
def test_golden_orders(ten, arguments, wanted):
    assert indices(len(wanted), files=ten, **arguments) == wanted
    faster = {"prefetch_queue_depth": 3, "read_ahead": True, "dont_use_mmap": True, "tensor_init_bytes": 5}
    assert indices(len(wanted), files=ten, **arguments, **faster) == wanted  # threads and queues do not change the order


@pytest.mark.parametrize("checkpointing, seed, wanted", [
    (True, None, [[9, 6, 0, 5, 4, 2, 8, 1, 7, 3], [8, 7, 4, 3, 6, 1, 2, 5, 9, 0], [2, 3, 9, 4, 8, 1, 6, 5, 0, 7]]),
    (False, None, [[9, 6, 0, 5, 4, 2, 8, 1, 7, 3], [7, 1, 4, 5, 8, 6, 0, 2, 3, 9], [4, 5, 9, 8, 3, 1, 0, 6, 7, 2]]),
    (True, 5, [[1, 4, 6, 2, 5, 8, 0, 9, 7, 3], [9, 7, 6, 5, 8, 2, 3, 4, 1, 0], [2, 0, 3, 6, 8, 7, 1, 5, 9, 4]])])  # fmt: skip
def test_shuffle_after_epoch(ten, checkpointing, seed, wanted):
    options = {"pipeline": {"enable_checkpointing": checkpointing}}
    assert indices(3, 10, files=ten, shuffle_after_epoch=True, shuffle_after_epoch_seed=seed, **options) == wanted
    assert reader(1, files=ten, shuffle_after_epoch=True).reader_meta("R")["stick_to_shard"] == 1


def test_shuffling_depends_on_the_seed(ten):
    once = indices(5, 10, files=ten, random_shuffle=True)
    assert once == indices(5, 10, files=ten, random_shuffle=True)
    assert once != indices(5, 10, files=ten, random_shuffle=True, pipeline={"seed": 43})
    assert all(sorted(epoch) == list(range(10)) for epoch in once) and len({tuple(epoch) for epoch in once}) == 5


def test_reader_metadata(ten):
    """`reader_meta` and `epoch_size`, with and without the name of the reader."""
    pipe = reader(4, files=ten, num_shards=3, shard_id=1, pad_last_batch=True)
    wanted = {"epoch_size": 10, "epoch_size_padded": 12, "number_of_shards": 3, "shard_id": 1, "pad_last_batch": 1, "stick_to_shard": 0}
    assert pipe.reader_meta("R") == wanted and pipe.reader_meta() == {"R": wanted}
    assert pipe.epoch_size("R") == 12 and pipe.epoch_size() == {"R": 12}
    assert reader(4, files=ten, num_shards=3).epoch_size("R") == 10
    with pytest.raises(RuntimeError, match=r"'S' not found or does not expose valid metadata.*'R'"):
        pipe.reader_meta("S")
    unnamed = reader(1, files=ten, name=None)
    assert list(unnamed.epoch_size()) == ["__File_0"]


def test_an_epoch_of_async_for(ten):
    import asyncio

    async def epochs(**arguments):
        pipe = reader(4, files=ten, **arguments)
        lengths = []
        for _ in range(3):
            batches = [batch async for batch in pipe]
            lengths.append(len(batches))
        return lengths

    assert asyncio.run(epochs()) == [3, 2, 3]  # the prefetched samples belong to the next epoch
    assert asyncio.run(epochs(pad_last_batch=True)) == [3, 3, 3]
    assert asyncio.run(epochs(num_shards=2, stick_to_shard=True)) == [2, 1, 1]


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_looking_ahead_asks_for_the_right_files(ten, depth, monkeypatch):
    """With `prefetch_queue_depth` the reader announces the files of the next batches to the system, each file once and in order."""
    from asyncdali.readers.files import contents

    asked = []
    real = contents.advise

    def note(table, chosen):
        asked.extend(chosen.tolist())
        return real(table, chosen)

    monkeypatch.setattr(contents, "advise", note)
    pipe = reader(3, files=ten, prefetch_queue_depth=depth, random_shuffle=True, initial_fill=4, pipeline={"exec_pipelined": False})
    order = [row[0] for _ in range(12) for row in values(pipe.run())[1]]
    assert asked[: 36 - 3] == order[3:][: len(asked[:33])] and len(asked) == (0 if depth == 1 else 3 * (12 + depth - 2))


def test_two_readers_in_one_graph(ten):
    pipe = Pipeline(batch_size=2, num_threads=2, seed=1)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=ten)[1], fn.readers.file(files=ten[::-1])[1], fn.readers.file(files=ten)[1])
    assert values(pipe.run()) == [[[0], [1]]] * 3 and len(pipe.reader_meta()) == 3


# ------------------------------------------------------------------------------------------------- memory set aside for a batch


@pytest.fixture
def jobs(monkeypatch):
    """A list with one entry for each job that the reader has requested."""
    from asyncdali.readers.files import contents

    asked: list[int] = []

    def job(count, steps):
        asked.append(count)
        return CompiledJob(count, steps)

    monkeypatch.setattr(contents, "CompiledJob", job)
    return asked


def _files(folder, sizes):
    for k, size in enumerate(sizes):
        (folder / f"{k:03}").write_bytes(np.random.default_rng(k).bytes(size))
    return [str(folder / f"{k:03}") for k in range(len(sizes))]


def _run_and_check(pipe, files):
    """Run a batch. Each sample must equal the content of its file."""
    contents, labels, _ = pipe.run()
    for sample, label in zip(contents, labels, strict=True):
        with open(files[int(np.asarray(label)[0])], "rb") as file:
            assert bytes(np.asarray(sample)) == file.read()
    return contents


def test_batches_of_about_one_size_are_read_in_one_job(tmp_path, jobs):
    files = _files(tmp_path, [9_000 + 37 * k for k in range(16)])
    pipe = reader(8, files=files, random_shuffle=True, pipeline={"prefetch_queue_depth": 1})
    counts = []
    for _ in range(6):
        jobs.clear()
        _run_and_check(pipe, files)
        counts.append(len(jobs))
    assert counts[0] == 2 and counts[1:] == [1] * 5


def test_files_that_the_memory_set_aside_does_not_hold(tmp_path):
    sizes = [10, 1_000, 0, 64, 300_000, 5, 1_000_000, 128, 63, 65, 20_000, 0]
    files = _files(tmp_path, sizes)
    pipe = reader(4, files=files, dont_use_mmap=True, random_shuffle=True, initial_fill=5)
    held = [_run_and_check(pipe, files) for _ in range(30)]
    before = [[bytes(np.asarray(sample)) for sample in contents] for contents in held]
    for _ in range(5):
        _run_and_check(pipe, files)
    assert [[bytes(np.asarray(sample)) for sample in contents] for contents in held] == before


def test_equal_files_share_an_array_until_one_differs(tmp_path, jobs):
    files = _files(tmp_path, [4096] * 12 + [4097] + [4096] * 11)
    pipe = reader(4, files=files, pipeline={"prefetch_queue_depth": 1})
    dense, counts = [], []
    for _ in range(12):
        jobs.clear()
        contents = _run_and_check(pipe, files)
        dense.append(contents.is_dense_tensor())
        if dense[-1]:
            assert np.array_equal(contents.as_array(), np.stack([np.asarray(sample) for sample in contents]))
        counts.append(len(jobs))
    assert dense == [True, True, True, False, True, True] * 2
    assert counts[:4] == [2, 1, 1, 2]  # the first batch, and the batch that contains a file of another size


def test_a_slice_of_a_batch_keeps_its_files(ten):
    """`source_info()` of samples in a slice names their files. The texts are made on demand."""
    pipe = Pipeline(batch_size=4, num_threads=1)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=ten)[0])
    data = pipe.run()[0]
    assert [sample.source_info() for sample in data[1:3]] == [data[1].source_info(), data[2].source_info()] == ten[1:3]
    pipe.close()
