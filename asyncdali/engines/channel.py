"""The socket pair between the training process and an engine. Messages carry file descriptors and are never split.

A message is a JSON header and the bytes that the header describes (a frame, see ``frames``). Nothing that arrives is unpickled.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

LARGEST = 96 << 10
"""Largest message, in bytes. Larger frames go to shared memory. The socket's buffer (208 KB by default) always has room for one message."""

_MOST_DESCRIPTORS = 64
_LENGTH = struct.Struct("<I")
_ANCILLARY = socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a new channel."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def message(header: dict[str, Any], body: bytes = b"") -> bytes:
    """The bytes of a message."""
    text = _encode(header).encode()
    return b"".join((_LENGTH.pack(len(text)), text, body))


def parsed(data: bytes | memoryview) -> tuple[dict[str, Any], memoryview]:
    """Header and body of a message. ValueError for bytes that are not a message."""
    if len(data) < 4:
        raise ValueError("a message has a header")
    (length,) = _LENGTH.unpack_from(data)
    if length > len(data) - 4:
        raise ValueError("a message is cut short")
    header = _decode(str(data[4 : 4 + length], "utf-8"))
    if type(header) is not dict:
        raise ValueError("a header is an object")
    return header, memoryview(data)[4 + length :]


def send(channel: socket.socket, data: bytes, descriptors: list[int] | None = None) -> None:
    """Send a message. BlockingIOError if a non-blocking channel is full, OSError if the other side has closed the channel."""
    if descriptors:
        socket.send_fds(channel, [data], descriptors)
    else:
        channel.send(data)


def receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its descriptors. Both are empty when the other side has closed the channel."""
    try:
        data, ancillary, _, _ = channel.recvmsg(LARGEST, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return b"", []
    if not ancillary:
        return data, []
    found: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.extend(memoryview(content[: len(content) // 4 * 4]).cast("i"))
    return data, found
