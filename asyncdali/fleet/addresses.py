"""Addresses of actors."""

from __future__ import annotations

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
    """A socket bound to this address only. OSError names the address."""
    family, kind, protocol, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"an engine cannot listen on {address}: {error.strerror}") from None
    return sock
