"""Addresses of actors."""

from __future__ import annotations

import errno
import socket
from typing import NamedTuple


class Address(NamedTuple):
    """``host:port``; an IPv6 address is in brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """ValueError for another form."""
        host, colon, port = str(text).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{text!r} is no address of an engine: give 'host:port', for example '10.0.0.7:7070' or '[fd00::7]:7070'")
        return cls(host, int(port))

    def with_port(self, port: int) -> str:
        """The text of this host with another port."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def __str__(self) -> str:
        return self.with_port(self.port)


def bound(address: Address) -> socket.socket:
    """A socket bound to this address only. OSError names the address, and what to do."""
    try:
        places = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = places[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _refusal(address, error) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
    except OSError as error:
        sock.close()
        raise _refusal(address, error) from None
    return sock


_ADVICE = {
    errno.EADDRINUSE: ". Another process uses this port: give another port, or port 0 for any free one",
    errno.EADDRNOTAVAIL: ". Give an address of this machine (`hostname -I` prints them)",
    errno.EACCES: ". Ports below 1024 need a privilege: give a larger one",
    socket.EAI_NONAME: ". Give an address of this machine (`hostname -I` prints them), or a name that it knows",
}


def _refusal(address: Address, error: OSError) -> OSError:
    found = OSError(f"an engine cannot listen on {address}: {error.strerror}{_ADVICE.get(error.errno or 0, '')}")
    found.errno = error.errno
    return found
