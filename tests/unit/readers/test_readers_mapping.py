"""Records that are used in place in the page cache: they are read-only and outlive the pipeline, and a shortened file raises no signal."""

from __future__ import annotations

import mmap
import os
import resource

import numpy as np
import pytest
from helpers import containers as written
from helpers.images import encode, picture, segment
from helpers.readers import KINDS, pipeline

import asyncdali
from asyncdali import Pipeline, fn, types
from asyncdali.readers.containers import containers

MAPPED = ("tfrecord", "caffe", "caffe2", "mxnet", "webdataset")


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Small batches are mapped, too."""
    monkeypatch.setattr(containers, "WORTH_MAPPING", 0)


def tar(folder, contents, **arguments):
    path = written.write_tar(folder / "0.tar", [(f"{k:03d}.bin", data) for k, data in enumerate(contents)])
    return path, lambda: fn.readers.webdataset(paths=path, ext=["bin"], **arguments)


def built(outputs, batch=4, **options):
    pipe = Pipeline(batch_size=batch, num_threads=2, device_id=None, seed=1, **options)
    with pipe:
        made = outputs()
        pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
    pipe.build()
    return pipe


def everything(kind, arguments, runs=6):
    pipe = pipeline(kind, arguments)
    found = []
    for _ in range(runs):
        outputs = pipe.run()
        found += [[np.asarray(sample).tolist() for sample in column] for column in outputs]
        found += [[sample.source_info() for sample in column] for column in outputs]
    return found


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_outputs_equal_copied_outputs(name, tmp_path):
    kind = KINDS[name]
    arguments = {**kind.write(tmp_path), "random_shuffle": True, "prefetch_queue_depth": 2}
    first = np.asarray(pipeline(kind, arguments).run()[0][0])
    assert not first.flags.writeable
    with pytest.raises(ValueError, match="read-only|WRITEABLE"):
        first[0] = 0
    assert np.asarray(pipeline(kind, {**arguments, "dont_use_mmap": True}).run()[0][0]).flags.writeable
    assert everything(kind, arguments) == everything(kind, {**arguments, "dont_use_mmap": True})


def test_small_batches_are_copied(tmp_path, monkeypatch):
    monkeypatch.undo()
    _, outputs = tar(tmp_path, [b"abc"] * 4)
    samples = built(outputs).run()[0]
    assert np.asarray(samples[0]).flags.writeable and np.asarray(samples.as_tensor()).shape == (4, 3)


def test_outputs_outlive_pipeline_and_file(tmp_path):
    data = [os.urandom(5000 + k) for k in range(8)]
    path, outputs = tar(tmp_path, data)
    pipe = built(outputs)
    kept = [pipe.run()[0] for _ in range(2)]
    sample = np.asarray(kept[1][3])
    pipe.close()
    del pipe
    os.unlink(path)
    assert [np.asarray(one).tobytes() for batch in kept for one in batch] == data
    del kept
    assert sample.tobytes() == data[7]


def test_mapped_samples_are_read_only_for_users(tmp_path):
    """Arrays and buffers are read-only. DLPack capsules, and whole tensors of several pieces, are copies."""
    data = [bytes([k]) * 600 for k in range(4)]
    _, outputs = tar(tmp_path, data)
    samples = built(outputs).run()[0]
    one = samples[2]
    assert not np.asarray(one).flags.writeable and one.__array_interface__["data"][1]
    for copy in (np.from_dlpack(one), np.asarray(samples.as_tensor()), samples.as_array(), samples.at(2)):
        if copy.flags.writeable:  # NumPy marks the array of an unversioned capsule as read-only
            copy[...] = 99
    with pytest.raises(BufferError):
        one.__dlpack__(copy=False)
    single = built(outputs, batch=1).run()[0]
    assert not np.asarray(single.as_tensor()).flags.writeable
    again = asyncdali.tensors.TensorListCPU([one, samples[1]], contiguous=False)
    assert not np.asarray(again[0]).flags.writeable
    assert np.asarray(one).tobytes() == data[2]
    assert [np.asarray(sample).tobytes() for sample in built(outputs).run()[0]] == data


def test_torch_gets_a_copy(tmp_path):
    torch = pytest.importorskip("torch")
    _, outputs = tar(tmp_path, [b"a" * 600] * 4)
    samples = built(outputs).run()[0]
    tensor = torch.from_dlpack(samples[0])
    tensor += 1
    assert tensor[0] == ord("b") and np.asarray(samples[0]).tobytes() == b"a" * 600


def test_functions_of_the_user(tmp_path):
    """Python functions get read-only arrays. Capsules are copies."""
    _, reader = tar(tmp_path, [b"a" * 600] * 4)

    def shout(array):
        array[:] = 65

    with pytest.raises(RuntimeError, match="(?s)sample 0.*read-only"):
        built(lambda: fn.python_function(reader(), function=shout)).run()

    def louder(capsule):
        array = asyncdali.tensors.TensorCPU(capsule)
        values = np.asarray(array)
        values -= 32
        return array.__dlpack__()

    def graph():
        made = reader()
        return fn.dl_tensor_python_function(made, function=louder, batch_processing=False), made

    louder_one, plain = built(graph).run()
    assert np.asarray(louder_one[0]).tobytes() == b"A" * 600 and np.asarray(plain[0]).tobytes() == b"a" * 600


@pytest.mark.parametrize("whole", [False, True])
def test_compiled_functions_of_the_user_get_a_copy(whole, tmp_path):
    _, reader = tar(tmp_path, [b"a" * 600] * 4)
    if whole:

        def run(outs, ins):
            for k in range(len(ins)):
                ins[k][0] = 90
                outs[k][:] = ins[k]
    else:

        def run(out, given):
            given[0] = 90
            out[:] = given

    def outputs():
        made = reader()
        return [fn.experimental.numba_function(made, run_fn=run, out_types=[types.UINT8], in_types=[types.UINT8], outs_ndim=[1],
                                               ins_ndim=[1], batch_processing=whole), made]  # fmt: skip

    changed, plain = built(outputs).run()
    assert np.asarray(changed[0]).tobytes() == b"Z" + b"a" * 599 and np.asarray(plain[0]).tobytes() == b"a" * 600


def test_a_file_that_was_cut_short(tmp_path):
    """The file is also cut within the last page, where a map contains zeros. The iteration fails, and the next one continues."""
    data = [os.urandom(3 * 4096) for _ in range(4)]
    path, outputs = tar(tmp_path, data)
    whole = open(path, "rb").read()
    end = whole.rindex(data[3]) + len(data[3])
    pipe = built(outputs, exec_pipelined=False, exec_async=False)
    assert np.asarray(pipe.run()[0][3]).tobytes() == data[3]
    for size in (end - 1, end - 2 * 4096, 0):
        os.truncate(path, size)
        with pytest.raises(RuntimeError, match=r"(?s)sample \d.*0.tar.*the file ends before the record does"):
            pipe.run()
        with open(path, "r+b") as file:
            file.write(whole)
        assert [np.asarray(sample).tobytes() for sample in pipe.run()[0]] == data


def test_pages_that_are_not_in_memory(tmp_path):
    data = [os.urandom(100_000 + k) for k in range(4)]
    path, outputs = tar(tmp_path, data)
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert [np.asarray(sample).tobytes() for sample in built(outputs).run()[0]] == data


def test_a_file_system_that_cannot_map(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(19, "No such device")

    monkeypatch.setattr(containers, "MappedFile", refused)
    data = [b"abc" * 500] * 4
    _, outputs = tar(tmp_path, data)
    samples = built(outputs).run()[0]
    assert [np.asarray(sample).tobytes() for sample in samples] == data and np.asarray(samples[0]).flags.writeable


def test_more_containers_than_stay_open(tmp_path, monkeypatch):
    opened, seen = containers.Containers._opened, []

    def watched(self, path):
        descriptor = opened(self, path)
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        seen.append(sum(os.path.realpath(link) in paths for link in links))  # no other thread opens descriptors now
        return descriptor

    monkeypatch.setattr(containers, "MAX_OPEN", 2)
    monkeypatch.setattr(containers.Containers, "_opened", watched)
    paths = [str(written.write_tar(tmp_path / f"{k}.tar", [("0.bin", b"%d" % k * 1000)])) for k in range(6)]
    pipe = built(lambda: fn.readers.webdataset(paths=paths, ext=["bin"]), batch=2)
    kept = [pipe.run()[0] for _ in range(9)]
    assert len(seen) >= 18 and set(seen) == {1, 2}
    assert [np.asarray(sample).tobytes() for batch in kept for sample in batch] == [b"%d" % k * 1000 for k in range(6)] * 3


def test_recordio_in_parts(tmp_path):
    """The parts of a divided record are joined in separate memory. Labels have separate memory, too."""
    magic = (0xCED7230A).to_bytes(4, "little")
    images = [b"x" * 40, b"ab" * 6 + magic + b"cd" * 8, b"y" * 44, magic + b"z" * 12]
    payloads = [b"\0" * 4 + np.float32(k).tobytes() + b"\0" * 16 + image for k, image in enumerate(images)]
    cuts = [[at for at in range(0, len(data), 4) if data[at : at + 4] == magic] for data in payloads]
    records = [written.record_parts(data, places) for data, places in zip(payloads, cuts, strict=True)]
    starts = np.cumsum([0, *map(len, records)])
    (tmp_path / "a.rec").write_bytes(b"".join(records))
    (tmp_path / "a.idx").write_text("".join(f"{k}\t{at}\n" for k, at in enumerate(starts[:-1])))

    def outputs(**arguments):
        return lambda: fn.readers.mxnet(path=str(tmp_path / "a.rec"), index_path=str(tmp_path / "a.idx"), **arguments)

    for arguments in ({}, {"dont_use_mmap": True}):
        found, labels = built(outputs(**arguments)).run()
        assert [np.asarray(one).tobytes() for one in found] == images
        assert np.asarray(labels.as_tensor()).ravel().tolist() == [0, 1, 2, 3]
    broken = bytearray(b"".join(records))
    broken[starts[3] + 7] = 0x40  # the first part of the last record is marked as a middle part
    (tmp_path / "a.rec").write_bytes(broken)
    with pytest.raises(RuntimeError, match="(?s)sample 3.*not first, middle and last"):
        built(outputs()).run()


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_decoding_a_record_that_ends_with_the_map(kind, tmp_path):
    """The decoder must not read beyond the record, where no memory is mapped."""
    image = picture(40, 60)
    data = encode(image, kind)
    if kind == "jpeg":
        room = -(512 + len(data)) % 4096
        data = data[:2] + segment(0xFE, bytes(room - 4)) + data[2:]
    else:
        from helpers.images import png_chunk

        room = -(512 + len(data)) % 4096
        data = data[:33] + png_chunk(b"teXt", bytes(room - 12)) + data[33:]
    assert (512 + len(data)) % 4096 == 0
    path = tmp_path / "0.tar"
    written.write_tar(path, [("0.bin", data)])
    os.truncate(path, 512 + len(data))
    (tmp_path / "0.idx").write_text(f"v1.2 1\nbin 512 {len(data)} 0.bin\n")

    def outputs(**arguments):
        made = fn.readers.webdataset(paths=str(path), index_paths=str(tmp_path / "0.idx"), ext=["bin"], **arguments)
        return fn.decoders.image(made)

    mapped, copied = (np.asarray(built(lambda a=a: outputs(**a), batch=1).run()[0][0]) for a in ({}, {"dont_use_mmap": True}))
    assert mapped.shape == image.shape
    np.testing.assert_array_equal(mapped, copied)


def test_touched_records_cause_no_page_faults_later(tmp_path):
    """When a batch is returned, its pages are mapped in memory, if the system supports this (Linux 5.14)."""
    probe = mmap.mmap(-1, 4096)
    try:
        probe.madvise(22)
    except OSError:
        pytest.skip("this kernel has no MADV_POPULATE_READ")
    data = [os.urandom(1 << 20) for _ in range(4)]
    _, outputs = tar(tmp_path, data)
    pipe = built(outputs, exec_pipelined=False, exec_async=False)
    views = [memoryview(np.asarray(sample)) for sample in pipe.run()[0]]
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    total = sum(view[at] for view in views for at in range(0, 1 << 20, 4096))
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before < 16  # of 1024 pages, mapped 16 at a time
    assert total == sum(one[at] for one in data for at in range(0, 1 << 20, 4096))
