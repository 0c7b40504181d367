"""Commands to streams.

Compiled code runs a list of commands over simulated driver functions. In pipelines over the CUDA simulator, a command fails.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from helpers import kernels as host
from helpers.cuda import StandIn, use

from asyncdali import fn, pipeline_def
from asyncdali.compiled.addresses import address_of
from asyncdali.device.cuda import command_tables as tables
from asyncdali.device.cuda import device
from asyncdali.device.cuda import driver as cuda_driver
from asyncdali.device.cuda.commands import Commands, listed
from asyncdali.device.cuda.memory import DevicePool, Events
from asyncdali.device.launch import Kernel, Launch, Scratch

POINTER, NUMBER, SIZE = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
SIGNATURES = {
    "cuStreamWaitEvent": (POINTER, POINTER, NUMBER),
    "cuEventRecord": (POINTER, POINTER),
    "cuEventSynchronize": (POINTER,),
    "cuEventQuery": (POINTER,),
    "cuMemcpyAsync": (POINTER, POINTER, SIZE, POINTER),
    "cuLaunchKernel": (POINTER, *[NUMBER] * 7, POINTER, POINTER, POINTER),
}


class Library:
    """Simulated functions of libcuda, which note their arguments. `fails` gives the status of the calls with these numbers."""

    def __init__(self):
        self.calls, self.fails = [], {}
        self.second = ()  # the numbers of the launches that have a second argument
        self._functions = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(lambda *given, name=name: self._called(name, given))
            for name, kinds in SIGNATURES.items()
        }

    def __getitem__(self, name):
        return self._functions.get(name) or (lambda status, text: self._text(name, status, text))

    def _called(self, name, given):
        if name == "cuLaunchKernel":
            *given, arguments, extra = given
            assert extra is None
            first = ctypes.c_void_p.from_address(arguments).value
            given.append(ctypes.c_int64.from_address(first).value)
            if len(self.calls) in self.second:
                given.append(ctypes.c_int64.from_address(ctypes.c_void_p.from_address(arguments + 8).value).value)
        self.calls.append((name, *[value or 0 for value in given]))
        return self.fails.get(len(self.calls) - 1, 0)

    def _text(self, name, status, text):
        text._obj.value = b"CUDA_ERROR_LAUNCH_FAILED" if name == "cuGetErrorName" else b"unspecified launch failure"


class Function:
    ptr = 0x7F00_1234_5678_9ABC


@pytest.fixture
def library():
    return Library()


@pytest.fixture
def driver(library):
    made = object.__new__(cuda_driver.CupyDriver)  # CuPy is not needed
    made._library = library
    return made


class Event:
    def __init__(self, handle):
        self.handle = handle


FAR = 0x7FFF_FFFF_FFFF_0000
"""Handles and addresses have 64 bits, grids 32."""


def all_kinds(driver, stream=FAR):
    commands = Commands(driver, stream)
    commands.wait(Event(FAR + 1))
    commands.copy(FAR + 2, FAR + 3, (1 << 33) + 5)
    commands.launch(Function, ((1 << 31) - 1, 65535), 256, 4096, FAR + 4)
    commands.launch_each(Function, (1, 2, 3), (4, 5, 6), np.array([[7, 70], [8, 80], [FAR, 90]]))
    commands.settle(Event(FAR + 5))
    return commands


CALLS = [
    ("cuStreamWaitEvent", FAR, FAR + 1, 0),
    ("cuMemcpyAsync", FAR + 2, FAR + 3, (1 << 33) + 5, FAR),
    ("cuLaunchKernel", Function.ptr, (1 << 31) - 1, 65535, 1, 256, 1, 1, 4096, FAR, FAR + 4),
    ("cuLaunchKernel", Function.ptr, 1, 2, 3, 4, 5, 6, 0, FAR, 7, 70),
    ("cuLaunchKernel", Function.ptr, 1, 2, 3, 4, 5, 6, 0, FAR, 8, 80),
    ("cuLaunchKernel", Function.ptr, 1, 2, 3, 4, 5, 6, 0, FAR, FAR, 90),
    ("cuEventRecord", FAR + 5, FAR),
    ("cuEventSynchronize", FAR + 5),
]


def test_every_command_is_the_drivers_call(driver, library):
    """Commands run in order, and each argument arrives complete. Handles of the default streams (0, 1, 2) are passed unchanged."""
    library.second = (3, 4, 5)
    commands = all_kinds(driver)
    assert library.calls == []
    commands.perform()
    assert library.calls == CALLS
    commands.perform()  # no command is left
    assert len(library.calls) == len(CALLS)
    for stream in (0, 1, 2):
        library.calls.clear()
        commands = Commands(driver, stream)
        commands.record(5)
        commands.perform()
        assert library.calls == [("cuEventRecord", 5, stream)]


@pytest.mark.parametrize("most_held", (0, 1 << 20))
def test_the_upload_of_launches(monkeypatch, most_held):
    """Arrays of any strides are dense copies in the upload, once each. Tables have their device addresses, and those of scratch memory.

    No byte outside of the upload is written, with the interpreter lock (small uploads) and without."""
    monkeypatch.setattr(device, "_HELD_BYTES", most_held)
    values, other, scratch = np.arange(8, dtype=np.int32), np.arange(3, dtype=np.float64), Scratch(100)
    kernel = Kernel(Path("a.cu"), "entry")
    launches = [Launch(kernel, (values[::2], 7, scratch), (1, 1)), Launch(kernel, (other, scratch, other, 1 << 40), (1, 1))]
    tables = device.Tables(launches)
    memory = np.full(tables.upload_bytes + 128, 0xDD, np.uint8)
    tables.write(address_of(memory) + 64, 1 << 50)
    assert (memory[:64] == 0xDD).all() and (memory[tables.upload_bytes + 64 :] == 0xDD).all()
    upload = memory[64 : tables.upload_bytes + 64]
    first, second = (upload[8 * begin :].view(np.int64) for begin in tables.begins)
    at, other_at, scratch_at = (int(word) - (1 << 50) for word in (first[0], second[0], second[1]))
    assert upload[at : at + 16].view(np.int32).tolist() == [0, 2, 4, 6] and first[1] == 7
    assert upload[other_at : other_at + 24].view(np.float64).tolist() == [0, 1, 2]
    assert second[0] == second[2] and second[3] == 1 << 40
    assert first[2] == second[1] and scratch_at == tables.upload_bytes and tables.total_bytes >= scratch_at + 100


@pytest.mark.parametrize("failing", range(len(CALLS)))
def test_an_error_ends_the_list_of_commands(driver, library, failing):
    """Later commands do not run. The error names the call, the meaning of the status, and the owner. Later lists run as usual."""
    library.second, library.fails = (3, 4, 5), {failing: 719}
    commands = all_kinds(driver)
    with pytest.raises(cuda_driver.DriverError) as caught:
        commands.perform()
    assert library.calls == CALLS[: failing + 1]
    assert str(caught.value) == f"{CALLS[failing][0]}: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure (719)"
    assert caught.value.status == 719 and caught.value.owner is None
    library.calls.clear()
    library.fails = {}
    all_kinds(driver).perform()
    assert library.calls == CALLS


def test_events_are_asked_for_up_to_the_first_that_is_not_reached(driver, library):
    words = [word for k in range(3) for word in tables.QUERY_COMMAND.entries(kind=tables.QUERY, event=FAR + k)]
    driver.perform(np.array(words))
    assert library.calls == [("cuEventQuery", FAR), ("cuEventQuery", FAR + 1), ("cuEventQuery", FAR + 2)]
    library.calls.clear()
    library.fails = {1: 600}
    with pytest.raises(cuda_driver.DriverError, match="cuEventQuery: ") as caught:
        driver.perform(np.array(words))
    assert library.calls == [("cuEventQuery", FAR), ("cuEventQuery", FAR + 1)] and caught.value.status == 600


def test_errors_name_the_owner_of_the_command(driver, library):
    commands = Commands(driver, 1)
    commands.record(1)
    for owner in ("first", "second"):
        commands.record_for(owner)
        for _ in range(2):
            commands.launch(Function, (1, 1), 32, 0, address_of(np.zeros(1, np.int64)))
    commands.record_for(None)
    commands.record(2)
    words = np.array(commands._words, np.int64)
    assert [place for place, _ in listed(words)] == [0, 3, 12, 21, 30, 39]
    owners = []
    for failing in range(6):
        again = Commands(driver, 1)
        again._words, again._owners = list(commands._words), list(commands._owners)
        library.calls.clear()
        library.fails = {failing: 1}
        with pytest.raises(cuda_driver.DriverError) as caught:
            again.perform()
        owners.append(caught.value.owner)
    assert owners == [None, "first", "first", "second", "second", None]


# --- over the CUDA simulator


@pytest.fixture
def cuda(monkeypatch):
    if host.COMPILER is None:
        pytest.skip("no C++ compiler to build kernels for the host")
    driver = StandIn(devices=2)
    use(driver, monkeypatch)
    driver.use(0)
    return driver


def test_memory_keeps_its_events_until_the_next_owners_stream_waits(cuda):
    """The commands of a failed iteration are dropped. The memory must still know the event of its last work."""
    pool = DevicePool(cuda, 0, Events(cuda, 0))
    first, second, third = (cuda.stream_create() for _ in range(3))
    held = pool.allocate(1000, Commands(cuda, first))
    address = held.address
    source = np.full(1000, 7, np.uint8)
    work = Commands(cuda, first)
    work.copy(address, address_of(source), 1000)
    work.perform()
    del held
    dropped = Commands(cuda, second)
    again = pool.allocate(1000, dropped)
    assert again.address == address
    del again, dropped
    told = Commands(cuda, third)
    last = pool.allocate(1000, told)
    assert last.address == address
    target = np.full(1000, 9, np.uint8)
    told.copy(address, address_of(target), 1000)
    told.perform()
    cuda.stream_synchronize(third)
    cuda.stream_synchronize(first)
    assert (cuda._memory[address][:1000] == 9).all()


@pipeline_def(batch_size=2, num_threads=1, device_id=0, prefetch_queue_depth=1)
def flipped():
    return fn.flip(fn.external_source(lambda info: np.full((4, 5, 3), info.iteration, np.uint8), batch=False, layout="HWC").gpu())


@pytest.mark.parametrize("name", ["stream_wait", "event_record", "copy", "launch"])
def test_a_call_that_fails(cuda, name):
    """The iteration fails with the driver's error, which names the operator if the call is a launch. The next iterations are correct."""
    pipe = flipped(device_id=1)
    outputs = [pipe.run() for _ in range(3)]
    cuda.fails = {name: 1}
    failed = 0
    for _ in range(3):
        try:
            outputs.append(pipe.run())
        except RuntimeError as error:
            failed += 1
            assert f"{name}: status 1" in str(error)
            assert (name != "launch") or "GPU operator `asyncdali.fn.flip`" in str(error)
    assert failed or name == "stream_wait"  # a single stream does not wait for itself
    cuda.fails = {}
    while True:  # iterations that were in flight
        try:
            outputs.append(pipe.run())
            break
        except RuntimeError as error:
            assert f"{name}: status 1" in str(error)
    outputs += [pipe.run() for _ in range(4)]
    values = [np.unique(np.array(images.as_cpu().as_array())).tolist() for (images,) in outputs]
    assert all(len(value) == 1 for value in values)
    assert values == sorted(values) and len(values) == len({value[0] for value in values})
    pipe.close()
