"""The options that a link sets on its connection, and the modules that `fleet` imports."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from asyncdali import fleet
from asyncdali.device.buffers import BufferPool
from asyncdali.fleet import link
from asyncdali.runtime.loop import shared_loop


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
    own = {f"asyncdali.{name}" for name in ("_connections", "_first_use", "_version", "fleet", "fleet.scaling")}
    assert set(found) <= own | {"numbers"}
    assert [callable(getattr(fleet, name)) for name in fleet.__all__] == [True] * 5 and {*fleet.__all__} <= {*dir(fleet)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = fleet.nothing


@contextlib.contextmanager
def linked(received=lambda *frame: None, lost=lambda reason: None):
    """A link, and a plain socket at its other end."""
    loop, made, done = shared_loop(), [], threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as other:
        other.settimeout(20)
        sock = server.accept()[0]

        def start():
            made.append(link.Link(sock, BufferPool().allocate, received, lost))
            done.set()

        loop.call(start)
        assert done.wait(20)
        try:
            yield made[0], other
        finally:
            loop.call(made[0].close)


def frame_of(data):
    text = link._encode({"payloads": [len(data)]}).encode()
    return link.PREFIX.pack(link.MAGIC, len(text), 0, len(data)) + text + data


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
        assert done.wait(60)
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
        assert done.wait(5)
    assert reasons == ["it closed the connection"]
