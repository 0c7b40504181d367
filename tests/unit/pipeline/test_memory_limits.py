"""Sizes that come from data or arguments are compared with the free memory before memory is reserved."""

from __future__ import annotations

import numpy as np
import pytest
from asyncdali_workers import limits
from helpers.images import encode
from helpers.memory import Machine
from helpers.pipelines import pipeline_of

from asyncdali import Pipeline, fn, types
from asyncdali.batch import Batch
from asyncdali.device.buffers import BufferPool
from asyncdali.device.threads import WorkerState

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def test_free_memory(machine):
    machine.free(3 * GIB)
    limits.check(3 * GIB, "a thing")
    with pytest.raises(limits.TooLarge, match=r"a thing: 3,221,225,473 bytes are needed; 3,221,225,472 are left by the free memory"):
        limits.check(3 * GIB + 1, "a thing")


def test_unknown_free_memory_is_no_limit(machine):
    limits.check(1 << 60, "a thing")


def test_the_limit_of_a_control_group_of_version_2(machine):
    machine.free(100 * GIB)
    machine.belongs_to("0::/a/b\n")
    machine.group("a", memory__max=4 * GIB, memory__current=3 * GIB, memory__stat="anon 5\ninactive_file 1048576\nfile 7\n")
    machine.group("a/b", memory__max="max", memory__current=GIB)
    limits.check(GIB + 1048576, "a thing")
    with pytest.raises(limits.TooLarge, match=r"are left by the memory limit of the control group \(4,294,967,296 in .*a/memory.max\)"):
        limits.check(GIB + 1048577, "a thing")


def test_the_limit_of_a_control_group_of_version_1(machine):
    machine.free(100 * GIB)
    machine.belongs_to("5:cpu,cpuacct:/x\n4:memory:/docker/1\n1:name=systemd:/x\n")
    stat = "cache 1\ntotal_inactive_file 4096\n"
    machine.group("memory/docker/1", memory__limit_in_bytes=2 * GIB, memory__usage_in_bytes=GIB, memory__stat=stat)
    machine.group("memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=GIB)
    limits.check(GIB + 4096, "a thing")
    with pytest.raises(limits.TooLarge, match="control group"):
        limits.check(GIB + 4097, "a thing")


def test_a_container_sees_its_own_group_at_the_root(machine):
    """The path of the group is the host's, but the mounted folder is that of the container's group."""
    machine.free(100 * GIB)
    machine.belongs_to("0::/kubepods/pod7\n")
    machine.group("", memory__max=2 * GIB, memory__current=GIB, memory__stat="")
    with pytest.raises(limits.TooLarge, match="control group"):
        limits.check(GIB + 1, "a thing")


def test_the_files_of_this_machine_can_be_read():
    assert limits._free_memory() > 0
    assert all(room.size < 1 << 60 for room in limits._rooms())


def test_the_cap_of_a_sample(machine, monkeypatch):
    machine.free(100 * GIB)
    assert limits.sample_cap() == 16 * GIB
    monkeypatch.setenv("ASYNCDALI_MAX_SAMPLE_BYTES", "1000")
    assert limits.check_cap((10, 25), 4, "it") == 1000
    with pytest.raises(limits.TooLarge, match=r"it of shape \(10, 26\) has 1,040 bytes; a sample may have 1,000 \(ASYNCDALI"):
        limits.check_cap((10, 26), 4, "it")
    monkeypatch.setenv("ASYNCDALI_MAX_SAMPLE_BYTES", "-1")
    with pytest.raises(ValueError, match="at least 1"):
        limits.sample_cap()


# --------------------------------------------------------------------------------------------------------- the callers that check


def test_pools_check_only_new_large_blocks(machine):
    machine.free(GIB)
    pool = BufferPool()
    kept = pool.allocate(GIB // 2)
    del kept
    machine.free(0)
    assert pool.allocate(GIB // 2).nbytes == GIB // 2  # the same block again
    assert pool.allocate(limits.CHECKED // 2).nbytes  # the size is small, so no check takes place
    with pytest.raises(limits.TooLarge, match="a batch needs a new block of memory"):
        pool.allocate(GIB)


def test_scratch(machine):
    machine.free(GIB)
    with pytest.raises(limits.TooLarge, match="intermediate results"):
        WorkerState().record_for(GIB)


def test_sizes_that_wrap_around():
    batch = Batch(np.array([[4, 4], [1 << 31, 1 << 31]]), types.FLOAT)
    assert batch.sizes()[1] == 0  # 2**64
    with pytest.raises(limits.TooLarge, match="sample 1 of shape") as error:
        batch.checked_sizes()
    assert error.value.sample == 1


def large(name="absurd"):
    """An array of 137 GB whose elements share 1 byte."""
    return np.broadcast_to(np.uint8(1), (1 << 20, 1 << 17))


def some():
    """An array of 192 MiB whose elements share 1 byte."""
    return np.broadcast_to(np.uint8(1), (3, 1 << 13, 1 << 13))



@pytest.mark.parametrize("parallel", [False, True])
def test_a_source_of_samples(parallel):
    def source(info):
        return large() if info.idx_in_batch == 1 else np.zeros((2, 2), np.uint8)

    pipe = pipeline_of(lambda: fn.external_source(source, batch=False, parallel=parallel, name="pictures"), py_num_workers=1)
    with pytest.raises(MemoryError, match=r"pictures.*sample 1.*shape \(1048576, 131072\) has 137,438,953,472 bytes; a sample may have"):
        pipe.run()
    pipe.close()


@pytest.mark.parametrize("make", [lambda k: [large()] * 3, lambda k: np.broadcast_to(np.uint8(1), (3, 1 << 20, 1 << 17))])
@pytest.mark.parametrize("parallel", [False, True])
def test_a_source_of_batches(parallel, make):
    pipe = pipeline_of(lambda: fn.external_source(make, parallel=parallel, name="pictures"), py_num_workers=1)
    with pytest.raises(MemoryError, match=r"pictures.*shape \(1048576, 131072\) has 137,438,953,472 bytes; a sample may have"):
        pipe.run()
    pipe.close()


@pytest.mark.parametrize("parallel", [False, True])
def test_a_source_for_which_there_is_no_memory(parallel, machine):
    machine.free(100 << 20)
    pipe = pipeline_of(lambda: fn.external_source(lambda k: some(), parallel=parallel, name="pictures"), py_num_workers=1)
    with pytest.raises(MemoryError, match=r"pictures.*shape \(8192, 8192\).*bytes are needed; 104,857,600 are left by the free memory"):
        pipe.run()
    machine.free(10 * GIB)
    assert pipe.run()[0].shape() == [(8192, 8192)] * 3  # the next iteration
    pipe.close()


def test_fed_data_of_large_size_is_refused(machine):
    machine.free(100 << 20)
    pipe = pipeline_of(lambda: fn.external_source(name="pictures"))
    with pytest.raises(MemoryError, match="'pictures' are too large"):
        pipe.feed_input("pictures", some())
    with pytest.raises(MemoryError, match=r"'pictures' are too large: sample 0 of shape"):
        pipe.feed_input("pictures", [large(), large()[:5], large()])
    pipe.close()


def test_coefficients_of_progressive_jpegs(machine):
    """Decoders keep the coefficients of the whole picture, also for a small window."""
    file = np.frombuffer(encode(np.random.default_rng(1).integers(0, 40, (4096, 4096, 3), np.uint8), "JPEG", progressive=True), np.uint8)
    graph = lambda: fn.decoders.image_crop(fn.external_source(lambda: [file] * 3), crop=[8, 8])  # noqa: E731
    with pipeline_of(graph) as pipe:
        assert pipe.run()[0][0].shape() == [8, 8, 3]
    machine.free(90 << 20)
    with pipeline_of(graph) as pipe, pytest.raises(MemoryError, match=r"(?s)sample 0.*the coefficients of a progressive JPEG of 4096x4096"):
        pipe.run()


ARGUMENTS = {
    "resize": lambda data: fn.resize(data, size=[1 << 16, 1 << 17]),
    "crop": lambda data: fn.crop(data, crop=[1 << 20, 1 << 20], out_of_bounds_policy="pad"),
    "pad": lambda data: fn.pad(data, shape=[1 << 31, 1 << 31, 4]),
    "paste": lambda data: fn.paste(data, ratio=1e6, fill_value=0),
    "slice": lambda data: fn.slice(data, 0.0, 1e9, axes=[0], out_of_bounds_policy="pad"),
    "cat": lambda data: fn.cat(*[fn.pad(data, shape=[1 << 17, 1 << 16, 3])] * 2),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_operators(name):
    zeros = np.zeros((3, 4, 4, 3), np.uint8)
    pipe = pipeline_of(lambda: ARGUMENTS[name](fn.external_source(lambda k: zeros, layout="HWC")))
    with pytest.raises(MemoryError, match=r"(?s)asyncdali\.fn\.\w+` .*sample 0.*of shape .* has [\d,]+ bytes; a sample may have"):
        pipe.run()
    pipe.close()


def test_an_operator_for_which_there_is_no_memory(machine):
    machine.free(100 << 20)
    pipe = pipeline_of(lambda: fn.resize(fn.external_source(lambda k: np.zeros((3, 4, 4, 3), np.uint8), layout="HWC"), size=[8192, 8192]))
    with pytest.raises(MemoryError, match=r"(?s)fn\.resize` .*sample 0.*shape \(8192, 8192, 3\).*104,857,600 are left by the free memory"):
        pipe.run()
    pipe.close()


def test_hints(machine):
    machine.free(GIB)
    options = {"parallel": True, "bytes_per_sample_hint": 1 << 40}
    pipe = pipeline_of(lambda: fn.external_source(lambda k: np.zeros((3, 1)), **options), py_num_workers=1)
    with pytest.raises(MemoryError, match="bytes_per_sample_hint"):
        pipe.build()
    pipe = Pipeline(batch_size=4, num_threads=1, bytes_per_sample=1 << 40)
    pipe.set_outputs(fn.random.uniform())
    with pytest.raises(MemoryError, match="bytes_per_sample=1099511627776, batch_size=4"):
        pipe.build()


def images(shape=(4, 4, 3)):
    return fn.external_source(lambda k: np.zeros((3, *shape), np.uint8), layout="HWC")


def sound():
    return fn.external_source(lambda k: np.zeros((3, 64), np.float32))


def spectrum():
    return fn.external_source(lambda k: np.ones((3, 33, 4), np.float32), layout="ft")


# Operators that allocate GiB of temporary memory, depending on arguments or on data.
TEMPORARIES = {
    "zeros": lambda: fn.zeros(shape=[1 << 15, 1 << 15]),
    "full": lambda: fn.full(1.5, shape=fn.external_source(lambda k: [np.int32([1 << 14 + k, 1 << 15]) for k in range(3)])),
    "constant": lambda: fn.constant(fdata=1.5, shape=[1 << 15, 1 << 15]),
    "spectrogram": lambda: fn.spectrogram(sound(), window_length=1 << 29),
    "mel_filter_bank": lambda: fn.mel_filter_bank(spectrum(), nfilter=1 << 28),
    "rotate, frames": lambda: fn.rotate(fn.external_source(lambda k: np.zeros((3, 1 << 28, 0, 4, 3), np.uint8), layout="FHWC"), angle=5),
}


@pytest.mark.parametrize("name", TEMPORARIES)
def test_temporaries_of_operators(name, machine):
    machine.free(GIB)
    pipe = pipeline_of(TEMPORARIES[name])
    with pytest.raises(MemoryError, match=r"(?s)asyncdali\.fn\.\w+` .*(bytes are needed; 1,073,741,824 are left|a sample may have)"):
        pipe.run()
    pipe.close()


RANDOM = {
    "shape": lambda: fn.random.uniform(shape=[1 << 14, 1 << 14]),
    "shapes": lambda: fn.random.normal(shape=fn.external_source(lambda k: [np.int32([2]), np.int32([1 << 28]), np.int32([3])])),
    "beta": lambda: fn.random.beta(shape=[1 << 14, 1 << 14]),
    "choice": lambda: fn.random.choice(5, shape=fn.external_source(lambda k: [np.int32([2]), np.int32([1 << 28]), np.int32([3])])),
    "coin_flip": lambda: fn.random.coin_flip(shape=[1 << 15, 1 << 15]),
    "absurd": lambda: fn.random.uniform(shape=[1 << 31, 1 << 31]),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_name_the_sample(name, machine):
    machine.free(GIB // 4)
    pipe = pipeline_of(RANDOM[name])
    with pytest.raises(MemoryError, match=r"(?s)fn\.random\.\w+` .* sample \d.*encountered:\nsample [01].* of shape \(\d+") as error:
        pipe.run()
    assert error.value.sample == (1 if name in ("shapes", "choice") else 0)
    pipe.close()


WRONG_RANGES = [np.float32([0, 1]), np.float32([2, 1]), np.float32([0, 1])]


def test_other_errors_of_random_numbers_name_the_sample():
    pipe = pipeline_of(lambda: fn.random.uniform(range=fn.external_source(lambda k: WRONG_RANGES)))
    with pytest.raises(ValueError, match="in iteration 0, sample 1") as error:
        pipe.run()
    assert error.value.sample == 1
    pipe.close()
