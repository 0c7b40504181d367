"""The thread that exchanges messages with the engines of a GPU pipeline, and calls that keep the interpreter lock."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from contextlib import closing

import numpy as np
import pytest
from asyncdali_workers import interrupts
from helpers.cuda import StandIn, use
from helpers.engines import data_files, pipeline
from helpers.processes import wait_until

from asyncdali import fn, types
from asyncdali.batch import Batch
from asyncdali.compiled.addresses import address_of
from asyncdali.device.cuda.arrays import pending_events
from asyncdali.device.cuda.commands import Commands
from asyncdali.device.cuda.gates import CompletionGate, CompletionWatch
from asyncdali.device.cuda.memory import DevicePool, Events
from asyncdali.engines.parent import receiver as receivers
from asyncdali.engines.parent.pool import EnginePool
from asyncdali.engines.parent.receiver import Receiver
from asyncdali.engines.wire import channel as channels
from asyncdali.runtime.order.record import Record

LONG = 300.0


@pytest.fixture
def receiver():
    made = Receiver("test")
    yield made
    made.close()
    made.join(LONG)
    assert not made._thread.is_alive()


@pytest.fixture
def cuda(monkeypatch):
    driver = StandIn()
    use(driver, monkeypatch)
    return driver


class Made:
    """A batch that the GPU has still to make, and the means to wait for it."""

    def __init__(self, cuda, copies=3):
        cuda.use(0)
        events = Events(cuda, 0)
        commands = Commands(cuda, cuda.stream_create())
        buffer = DevicePool(cuda, 0, events).allocate(64, commands)
        staged = cuda.host_alloc(64)
        for _ in range(copies):
            commands.copy(buffer.address, staged, 64, pinned=True)
        buffer.ready = events.last(commands)
        self.ready, self.batch, self.watch = buffer.ready, Batch(np.array([[64]]), types.UINT8, owner=buffer), CompletionWatch(cuda)


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


class Finished(Record):
    """An iteration that the test finishes."""

    def __init__(self):
        super().__init__(0, 1, 0)


def test_a_caller_that_waits_receives(receiver):
    ours, theirs = channels.pair()
    record, found = Finished(), queue.SimpleQueue()

    def receive():
        found.put((channels.receive_now(ours)[0], threading.current_thread()))
        record.finish()

    added = threading.Event()
    receiver.call(receiver.add_reader, ours.fileno(), receive)
    receiver.call(added.set)
    assert added.wait(LONG)
    # The thread of the receiver cannot read: it is in a call.
    goes_on, in_call = threading.Event(), threading.Event()
    receiver.call(lambda: (in_call.set(), goes_on.wait(LONG)))
    assert in_call.wait(LONG)
    channels.send(theirs, b"one")
    receiver.help(record)
    assert found.get(timeout=LONG) == (b"one", threading.current_thread())
    goes_on.set()
    channels.send(theirs, b"two")
    assert found.get(timeout=LONG) == (b"two", receiver._thread)  # after the help
    ours.close(), theirs.close()


def test_help_ends_when_another_thread_finishes_the_iteration(receiver, monkeypatch):
    monkeypatch.setattr(receivers, "FIRST_LOOK", LONG)
    record = Finished()
    receiver.call(lambda: (wait_until(lambda: receiver._helper), record.finish()))
    receiver.help(record)
    assert record.finished and not receiver._helper


def test_help_ends_after_some_time(receiver):
    record = Finished()
    receiver.help(record)
    assert not record.finished and not receiver._helper and not receiver._helping.locked()


def test_one_caller_helps(receiver, monkeypatch):
    monkeypatch.setattr(receivers, "FIRST_LOOK", LONG)
    record = Finished()
    first = threading.Thread(target=receiver.help, args=(record,))
    first.start()
    wait_until(lambda: receiver._helper)
    receiver.help(record)  # returns immediately
    assert receiver._helper == first.ident
    record.finish()
    first.join(LONG)
    assert not first.is_alive()


def test_no_caller_helps_after_the_end():
    made = Receiver("test")
    made.close()
    made.join(LONG)
    made.help(Finished())
    assert not made._helping.locked()


@pytest.mark.parametrize("queued", [False, True], ids=["iteration", "gpu"])
def test_an_interrupt_ends_help_and_comes_after_it(receiver, monkeypatch, cuda, queued):
    # A signal that comes just before the wait is seen at its end, and one that comes while the simulated GPU is asked.
    monkeypatch.setattr(receivers, "FIRST_LOOK", 0.2 if queued else 5.0)
    main, record, made = threading.get_ident(), Finished(), Made(cuda)
    cuda._do_event_query = lambda event: 600
    if queued:
        record.outputs = [made.batch]
        record.finish()
    receiver.call(lambda: (wait_until(lambda: receiver._helper), signal.pthread_kill(main, signal.SIGINT)))
    with pytest.raises(KeyboardInterrupt):
        receiver.help(record, made.watch)
    assert not receiver._helper and not receiver._helping.locked()


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


@pytest.fixture
def another_handler():
    """SIGUSR2 has a handler in Python."""
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    yield signal.SIGUSR2
    signal.signal(signal.SIGUSR2, before)


def test_the_thread_that_sends_requests(tmp_path, cuda, monkeypatch, another_handler):
    """The caller of `run()` sends them. If the handler of a signal could raise in between, the thread of the engines sends them."""
    files, found = data_files(tmp_path), []
    for alone in (True, False):
        monkeypatch.setattr(interrupts, "_OTHERS", [] if alone else [another_handler])
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


@pytest.mark.parametrize("device, most", [(None, 2), (0, 3)])
def test_iterations_in_flight_per_engine(tmp_path, cuda, monkeypatch, device, most):
    """An engine for a GPU has one more, because its answers may be received late."""
    define = graph(data_files(tmp_path)) if device == 0 else lambda: fn.random.uniform(range=[0, 10])
    with closing(pipeline(define, 1, device_id=device, prefetch_queue_depth=6)) as pipe:
        pipe.build()
        loader, found = pipe._core.session.engines.loader, []
        send = loader.sender.send

        def noted(asked, place):
            send(asked, place)
            found.append(len(place.outstanding))

        monkeypatch.setattr(loader.sender, "send", noted)
        for _ in range(20):
            pipe.run()
        assert max(found) == most


def test_the_caller_works_while_it_waits(tmp_path, cuda, monkeypatch):
    """It receives and plans. If the handler of a signal could raise in between, the thread of the engines does."""
    files, found = data_files(tmp_path), []
    for alone in (True, False):
        monkeypatch.setattr(receivers, "only_ctrl_c", lambda alone=alone: alone)
        pipe = pipeline(graph(files), 1, device_id=0)
        pipe.build()
        loader = pipe._core.session.engines.loader
        receivers_seen, readable = set(), loader._readable

        def noted(place, engine, readable=readable, seen=receivers_seen):
            seen.add(threading.current_thread())
            readable(place, engine)

        receiver, changed = loader.placement.thread, threading.Event()
        descriptor = loader.places[0].engine.channel.fileno()
        receiver.call(receiver.remove_reader, descriptor)
        receiver.call(receiver.add_reader, descriptor, loader.placement.receive, noted, loader.places[0], loader.places[0].engine)
        receiver.call(changed.set)
        assert changed.wait(LONG)
        found.append([contents(pipe.run()) for _ in range(40)])
        assert (threading.current_thread() in receivers_seen) <= alone
        pipe.close()
    assert found[0] == found[1]


def test_a_caller_that_does_not_wait_does_not_work(tmp_path, cuda, monkeypatch):
    """The consumer is slower than the pipeline: the iteration is finished, and the GPU has made its batches."""
    with closing(pipeline(graph(data_files(tmp_path)), 1, device_id=0)) as pipe:
        pipe.run()
        session, helped = pipe._core.session, []
        receiver = session.executor.placement.thread
        helps = receiver.help
        monkeypatch.setattr(receiver, "help", lambda record, watch: (helped.append(record.index), helps(record, watch)))
        for index in range(1, 5):
            session.wait_all()
            oldest = session.in_flight[0]
            queued = pending_events(oldest.outputs)
            if index % 2:
                session.gpu.complete(oldest.outputs)
            pipe.run()
            assert queued and (index in helped) == (index % 2 == 0)


def test_an_interrupt_while_the_caller_works_loses_nothing(tmp_path, cuda, monkeypatch):
    files = data_files(tmp_path)
    pipe = pipeline(graph(files), 0, device_id=0)
    wanted = [contents(pipe.run()) for _ in range(12)]
    pipe.close()
    with closing(pipeline(graph(files), 1, device_id=0)) as pipe:
        pipe.build()
        receiver, found, interrupts = pipe._core.session.engines.loader.placement.thread, [], []
        serve = receiver._serve

        def interrupted():
            due = len(interrupts) < 2 * len(found) and len(found) < len(wanted)
            if due and not receiver._helper:
                return False  # the caller must work before more answers are received
            if due:
                interrupts.append(len(found))
                signal.raise_signal(signal.SIGINT)
            return serve()

        monkeypatch.setattr(receiver, "_serve", interrupted)
        while len(found) < 12:
            try:
                found.append(contents(pipe.run()))
            except KeyboardInterrupt:
                pass
        assert found == wanted and interrupts


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


@pytest.mark.parametrize("fails", [False, True])
def test_events_behind_a_gate_are_over_unless_waiting_for_them_failed(cuda, fails):
    """A call that has passed the gate asks the driver only for events that failed, to raise their error."""
    cuda.use(0)
    events = Events(cuda, 0)
    commands = Commands(cuda, cuda.stream_create())
    buffer = DevicePool(cuda, 0, events).allocate(64, commands)
    buffer.ready = events.last(commands)
    batch = Batch(np.array([[64]]), types.UINT8, owner=buffer)
    assert pending_events([batch, batch]) == [buffer.ready]
    if fails:
        cuda.fails["event_synchronize"] = 700
    gate = CompletionGate(cuda)
    gate.open([batch])
    assert gate.wait(LONG)
    assert buffer.ready.is_over() != fails
    assert pending_events([batch]) == ([buffer.ready] if fails else [])


def descriptors(*numbers):
    found = np.array([(number, receivers._POLLIN, 0) for number in numbers], receivers._POLLED)
    return found, address_of(found)


def test_a_watch_waits_for_the_gpu(cuda):
    made = Made(cuda)
    quiet = os.eventfd(0)
    waits, at = descriptors(quiet)
    assert not made.watch.over([made.batch])
    assert made.watch.wait(at, 1, LONG)
    assert made.watch.over([made.batch]) and made.ready.is_over() and not waits["found"].any()
    assert cuda.calls["event_query"] == 4  # one for each copy, and one for the event
    os.close(quiet)


def test_a_watch_ends_with_a_message(cuda):
    made = Made(cuda, copies=1000)
    told = os.eventfd(1)
    waits, at = descriptors(os.eventfd(0), told)
    assert not made.watch.over([made.batch])
    assert not made.watch.wait(at, 2, LONG)
    assert waits["found"].tolist() == [0, receivers._POLLIN] and not made.ready.is_over()
    assert cuda.calls["event_query"] == 1
    for number in waits["descriptor"].tolist():
        os.close(number)


def test_a_watch_ends_after_some_time(cuda):
    made = Made(cuda, copies=1000)
    waits, at = descriptors(os.eventfd(0))
    assert not made.watch.over([made.batch])
    assert not made.watch.wait(at, 1, 0.001)
    assert not waits["found"].any() and not made.ready.is_over()
    os.close(int(waits["descriptor"][0]))


def test_a_watch_that_fails_leaves_the_error_to_the_caller(cuda):
    made = Made(cuda)
    waits, at = descriptors(os.eventfd(0))
    cuda.fails["event_query"] = 700
    assert not made.watch.over([made.batch])
    assert made.watch.wait(at, 1, LONG)
    assert pending_events([made.batch]) == [made.ready]
    os.close(int(waits["descriptor"][0]))


def test_a_caller_helps_while_the_gpu_works(receiver, cuda):
    """A message that comes after the iteration was queued, and before the GPU has made its batches."""
    made, record, found = Made(cuda, copies=20), Finished(), queue.SimpleQueue()
    record.outputs = [made.batch]
    record.finish()
    ours, theirs = channels.pair()
    goes_on, in_call = threading.Event(), threading.Event()
    receiver.call(receiver.add_reader, ours.fileno(), lambda: found.put((channels.receive_now(ours)[0], threading.current_thread())))
    receiver.call(lambda: (in_call.set(), goes_on.wait(LONG)))  # the thread of the receiver cannot read
    assert in_call.wait(LONG)
    query, asked = cuda._do_event_query, []

    def queried(event):
        asked.append(event)
        if len(asked) == 5:
            channels.send(theirs, b"one")
        return query(event)

    cuda._do_event_query = queried
    receiver.help(record, made.watch)
    assert found.get(timeout=LONG) == (b"one", threading.current_thread())
    assert made.ready.is_over()
    goes_on.set()
    ours.close(), theirs.close()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_thread_ends_if_the_build_fails(tmp_path, cuda, monkeypatch, error):
    """The thread is made before the engines are ready."""

    def fails(self):
        raise error("no engine")

    monkeypatch.setattr(EnginePool, "_wait_until_ready", fails)
    pipe = pipeline(graph(data_files(tmp_path)), 1, device_id=0)
    with pytest.raises(error, match="no engine"):
        pipe.build()
    pipe.close()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.endswith("-engines")])
