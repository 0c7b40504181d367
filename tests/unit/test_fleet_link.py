"""The options that a link sets on its connection, and the modules that `fleet` imports."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from asyncdali import fleet
from asyncdali.fleet import link


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
