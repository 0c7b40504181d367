"""The thread that exchanges messages with the engines of a GPU pipeline, and calls that keep the interpreter lock."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading

import numpy as np
import pytest
from helpers.cuda import StandIn, use
from helpers.engines import data_files, pipeline
from helpers.processes import wait_until

from asyncdali import fn, types
from asyncdali.device.cuda.gates import CompletionGate
from asyncdali.engines import channel as channels
from asyncdali.engines.receiver import Receiver
from asyncdali.runtime import executor

LONG = 60.0


@pytest.fixture
def receiver():
    made = Receiver("test")
    yield made
    made.close()
    made.join(LONG)
    assert not made._thread.is_alive()


def test_calls_are_made_in_order_on_one_thread(receiver):
    made = queue.SimpleQueue()
    for k in range(1000):
        receiver.call(lambda k=k: made.put((k, receiver.is_current())))
    assert [made.get(timeout=LONG) for _ in range(1000)] == [(k, True) for k in range(1000)]
    assert not receiver.is_current()


def test_calls_from_many_threads(receiver):
    made, threads = queue.SimpleQueue(), []
    for first in range(4):
        threads.append(threading.Thread(target=lambda first=first: [receiver.call(made.put, first * 500 + k) for k in range(500)]))
        threads[-1].start()
    assert {made.get(timeout=LONG) for _ in range(2000)} == set(range(2000))
    for thread in threads:
        thread.join()


def test_a_call_that_fails_does_not_end_the_thread(receiver, caplog):
    made = queue.SimpleQueue()
    receiver.call(lambda: 1 / 0)
    receiver.call(made.put, 1)
    assert made.get(timeout=LONG) == 1
    assert "unexpected error on the thread of the engines" in caplog.text


def test_every_message_is_received(receiver):
    ours, theirs = channels.pair()
    found = queue.SimpleQueue()
    receiver.call(receiver.add_reader, ours.fileno(), lambda: found.put(channels.receive_now(ours)[0]))
    for k in range(100):
        channels.send(theirs, b"%d" % k)
    assert [found.get(timeout=LONG) for _ in range(100)] == [b"%d" % k for k in range(100)]
    removed = threading.Event()
    receiver.call(receiver.remove_reader, ours.fileno())
    receiver.call(removed.set)
    assert removed.wait(LONG)
    channels.send(theirs, b"unread")
    assert channels.receive(ours)[0] == b"unread"
    ours.close(), theirs.close()


def test_timers_go_off_in_order(receiver):
    made = queue.SimpleQueue()
    for seconds in (0.03, 0.01, 0.02):
        receiver.call_later(seconds, made.put, seconds)
    assert [made.get(timeout=LONG) for _ in range(3)] == [0.01, 0.02, 0.03]


def test_the_descriptor_is_closed_with_the_thread():
    made = Receiver("test")
    wake = made._wake
    made.close()
    made.close()
    made.join(LONG)
    with pytest.raises(OSError):
        os.fstat(wake)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_messages_are_sent_and_received_while_holding_the_lock(count):
    ours, theirs = channels.pair()
    with pytest.raises(BlockingIOError):
        channels.receive_now(ours)
    sent = [os.memfd_create(f"block-{k}") for k in range(count)]
    for k, descriptor in enumerate(sent):
        os.write(descriptor, b"%d" % k)
    channels.send_now(theirs, b"message", sent)
    data, found = channels.receive_now(ours)
    assert data == b"message"
    assert [os.pread(descriptor, 9, 0) for descriptor in found] == [b"%d" % k for k in range(count)]
    channels.send_now(theirs, bytes(channels.LARGEST))
    assert channels.receive_now(ours) == (bytes(channels.LARGEST), [])
    theirs.close()
    assert channels.receive_now(ours) == (b"", [])
    with pytest.raises(BrokenPipeError):
        channels.send_now(ours, b"nobody listens")
    ours.close()
    for descriptor in (*sent, *found):
        os.close(descriptor)


def test_a_full_channel():
    ours, theirs = channels.pair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with pytest.raises(BlockingIOError):
        for _ in range(1000):
            channels.send_now(ours, bytes(4096))
    ours.close(), theirs.close()


# --- pipelines on a GPU


@pytest.fixture
def cuda(monkeypatch):
    driver = StandIn()
    use(driver, monkeypatch)
    return driver


def graph(files):
    def define():
        data, labels = fn.readers.file(files=files, name="reader", random_shuffle=True)
        shift = fn.random.uniform(range=[0, 10], name="shift")
        return fn.cast(data.gpu(), dtype=types.FLOAT) + shift, labels.gpu()

    return define


def contents(outputs):
    return [[np.asarray(output.as_cpu()[k]).tobytes() for k in range(len(output))] for output in outputs]


def test_batches_of_a_gpu_pipeline_are_the_same_with_engines(tmp_path, cuda):
    files = data_files(tmp_path)
    found = []
    for engines in (0, 1, 2):
        pipe = pipeline(graph(files), engines, device_id=0)
        found.append([contents(pipe.run()) for _ in range(12)])
        pipe.close()
    assert found[1] == found[0] and found[2] == found[0]


def test_the_thread_that_sends_requests(tmp_path, cuda, monkeypatch):
    """The caller of `run()` sends them. If the handler of a signal could raise in between, the thread of the engines sends them."""
    files, found = data_files(tmp_path), []
    for alone in (True, False):
        monkeypatch.setattr(executor, "only_ctrl_c", lambda alone=alone: alone)
        pipe = pipeline(graph(files), 1, device_id=0)
        pipe.build()
        loader = pipe._core.session.engines.loader
        senders, send = set(), loader.sender.send

        def noted(asked, place, send=send, senders=senders):
            senders.add(threading.current_thread())
            send(asked, place)

        monkeypatch.setattr(loader.sender, "send", noted)
        found.append([contents(pipe.run()) for _ in range(12)])
        assert (threading.current_thread() in senders) is alone
        pipe.close()
    assert found[0] == found[1]


def test_a_killed_engine_of_a_gpu_pipeline_is_replaced(tmp_path, cuda):
    files = data_files(tmp_path)
    pipe = pipeline(graph(files), 0, device_id=0)
    wanted = [contents(pipe.run()) for _ in range(12)]
    pipe.close()
    pipe = pipeline(graph(files), 1, device_id=0)
    found = []
    for k in range(12):
        found.append(contents(pipe.run()))
        if k in (2, 6):
            os.kill(pipe.statistics().engines[0].pid, signal.SIGKILL)
            wait_until(lambda k=k: pipe.statistics().engines[0].restarts == (1 if k == 2 else 2))
            wait_until(lambda: pipe.statistics().engines[0].pid)
    assert found == wanted
    pipe.close()
    assert not [thread for thread in threading.enumerate() if thread.name.endswith("-engines")]


def test_a_completion_gate_lets_its_waiters_pass_when_it_opens(cuda):
    gate = CompletionGate(cuda)
    assert not gate.wait(0.01)
    opens = threading.Thread(target=gate.open, args=([],))
    opens.start()
    assert gate.wait(LONG)
    opens.join()
