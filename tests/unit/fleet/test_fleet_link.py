"""Frames on a link, the options that a link sets on its connection, and the modules that `fleet` imports."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from asyncdali import fleet
from asyncdali.device.buffers import BufferPool
from asyncdali.fleet import link, near
from asyncdali.fleet.inflow import BUFFER
from asyncdali.runtime.order.loop import shared_loop

LONG = 300.0
"""Seconds after which a test fails instead of waiting forever."""


@pytest.fixture
def pair():
    """Both ends of a TCP connection whose congestion control is BBR."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        for sock in (near, far):
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
            except (OSError, AttributeError):
                pytest.skip("this kernel has no BBR, or does not allow it")
        yield near, far


def congestion(sock):
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_a_short_path_is_not_paced(monkeypatch, pair):
    monkeypatch.setattr(link, "NEARBY", 1 << 32)
    for sock in pair:
        link._tune(sock)
        assert congestion(sock) in (b"cubic", b"reno")


def test_a_long_path_keeps_the_systems_choice(monkeypatch, pair):
    monkeypatch.setattr(link, "NEARBY", 0)
    for sock in pair:
        link._tune(sock)
        assert congestion(sock) == b"bbr"


def test_a_congestion_control_other_than_bbr_is_kept(pair):
    near, _ = pair
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    link._tune(near)
    assert congestion(near) == b"reno"


def test_names_are_imported_at_their_first_use():
    """Ray's manager imports `scaling`. This import must not load NumPy or Numba."""
    code = "import sys, asyncdali.fleet.scaling; print(*sorted(name for name in sys.modules if name.startswith(('asyncdali.', 'num'))))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = {f"asyncdali.{name}" for name in ("_version", "fleet", "fleet.scaling", "system", "system.connections", "system.first_use")}
    assert set(found) <= own | {"numbers"}
    assert [callable(getattr(fleet, name)) for name in fleet.__all__] == [True] * 5 and {*fleet.__all__} <= {*dir(fleet)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = fleet.nothing


@contextlib.contextmanager
def linked(received=lambda *frame: None, lost=lambda reason: None):
    """A link, and a plain socket at its other end."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as other:
        other.settimeout(LONG)
        with link_on(server.accept()[0], received, lost) as made:
            yield made, other


@contextlib.contextmanager
def link_on(sock, received, lost=lambda reason: None, borrower=None, made=None):
    """A link on a socket. It is appended to `made` before it receives."""
    loop, made, done = shared_loop(), [] if made is None else made, threading.Event()

    def start():
        made.append(link.Link(sock, BufferPool().allocate, received, lost, near=borrower))
        done.set()

    loop.call(start)
    assert done.wait(LONG)
    try:
        yield made[0]
    finally:
        loop.call(made[0].close)


def frame_of(*payloads, body=b"", **fields):
    text = link._encode({**fields, "payloads": [len(data) for data in payloads]}).encode()
    return link.PREFIX.pack(link.MAGIC, len(text), len(body), sum(map(len, payloads))) + text + body + b"".join(payloads)


class Frames:
    """Frames that a link has received. `complete` is set when there are `wanted` of them."""

    def __init__(self, wanted):
        self.found, self.complete, self._wanted = [], threading.Event(), wanted

    def __call__(self, header, body, payloads):
        self.found.append((header.get("k"), bytes(body), [payload.tobytes() for payload in payloads]))
        if len(self.found) == self._wanted:
            self.complete.set()


@pytest.mark.parametrize("step", [1, 997, BUFFER, BUFFER + 1, 1 << 30])
def test_frames_arrive_however_the_stream_is_cut(step):
    """Heads and payloads of all sizes around that of the buffer, one frame after another."""
    data = np.random.default_rng(1).bytes(3 * BUFFER)
    sizes = [0, 1, 50] if step == 1 else [0, 1, BUFFER - 100, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER]
    wanted = [(body, payloads) for body in sizes for payloads in ([], [0], [sizes[-1]], [5, sizes[-2], 0, 7])]
    wanted = [(k, data[:body], [data[-size:] if size else b"" for size in payloads]) for k, (body, payloads) in enumerate(wanted)]
    stream = b"".join(frame_of(*payloads, body=body, k=k) for k, body, payloads in wanted)
    frames = Frames(len(wanted))
    with linked(frames) as (made, other):
        for at in range(0, len(stream), step):
            other.sendall(stream[at : at + step])
        assert frames.complete.wait(LONG)
        assert frames.found == wanted and made.got == len(stream)


def test_a_paused_link_keeps_frames_until_it_is_resumed():
    """All frames come in one piece, so no later data wakes the loop."""
    frames, made, seen = Frames(20), [], []

    def received(*frame):
        frames(*frame)
        if len(frames.found) in (1, 7):
            made[0].pause()
            shared_loop().loop.call_soon(resume)

    def resume():
        seen.append(len(frames.found))
        made[0].resume()

    ours, other = socket.socketpair()
    with other:
        other.sendall(b"".join(frame_of(k=k) for k in range(20)))
        with link_on(ours, received, made=made):
            assert frames.complete.wait(LONG)
    assert seen == [1, 7] and [k for k, *_ in frames.found] == list(range(20))


def block_of(data):
    """The descriptor of shared memory with these contents."""
    descriptor = os.memfd_create("block")
    os.write(descriptor, data)
    return descriptor


def test_descriptors_go_to_the_frames_that_name_them():
    """Frames are read together with the begin of the next ones, so descriptors may come before their frame."""
    data = [np.random.default_rng(k).bytes(8192) for k in range(4)]
    frames = Frames(9)
    ours, other = socket.socketpair()
    with other:
        for k, content in enumerate(data):
            other.sendall(frame_of(k=-1))
            descriptor = block_of(content)
            named = {"k": k, "new": [k], "shared": {"0": [k, 100, 5000, k + 1]}}
            socket.send_fds(other, [frame_of(b"", **named)], [descriptor])
            os.close(descriptor)
        other.sendall(frame_of(k=-1))
        with link_on(ours, frames, borrower=near.Borrower()):
            assert frames.complete.wait(LONG)
    assert [k for k, *_ in frames.found] == [-1, 0, -1, 1, -1, 2, -1, 3, -1]
    assert [payloads for k, _, payloads in frames.found if k >= 0] == [[content[100:5100]] for content in data]


def test_descriptors_that_no_frame_names_end_the_connection():
    """A connection cannot fill the table of descriptors."""
    reasons, done = [], threading.Event()

    def lost(reason):
        reasons.append(reason)
        done.set()

    ours, other = socket.socketpair()
    before = len(os.listdir("/proc/self/fd"))
    with other, open(os.devnull) as file:
        with contextlib.suppress(OSError):  # the link may close the connection before all are sent
            for _ in range(20):
                socket.send_fds(other, [frame_of(k=0)], [file.fileno()] * near.MOST_DESCRIPTORS)
        with link_on(ours, lambda *frame: None, lost, near.Borrower()):
            assert done.wait(LONG)
    assert "more descriptors than the frames name" in reasons[0]
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("size", [link._LOW_WATERS[-1] - 1, link._LOW_WATERS[-1], 9_633_792, 2 * link._READ + 5])
def test_large_payloads_arrive_in_pieces_of_any_size(size):
    """The kernel reports large parts of a payload, then the rest, and the next frame at once."""
    data, frames, done = np.random.default_rng(size).bytes(size), [], threading.Event()

    def received(header, body, payloads):
        frames.append(payloads[0].tobytes())
        if len(frames) == 3:
            done.set()

    with linked(received) as (_, other):
        for step in (size, 100_003):
            for at in range(0, len(frame := frame_of(data)), step):
                other.sendall(frame[at : at + step])
        other.sendall(frame_of(b"small"))
        assert done.wait(LONG)
    assert frames[0] == frames[1] == data and frames[2] == b"small"


@pytest.mark.parametrize("sent", [100, 150_000, 9_000_000])
def test_a_connection_that_ends_within_a_payload_is_reported_at_once(sent):
    reasons, done = [], threading.Event()

    def lost(reason):
        reasons.append(reason)
        done.set()

    with linked(lost=lost) as (_, other):
        other.sendall(frame_of(bytes(9_633_792))[:sent])
        other.close()
        assert done.wait(LONG)
    assert reasons == ["it closed the connection"]
