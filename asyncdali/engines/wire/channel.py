"""The socket pair between the training process and an engine. Messages are never split.

A message is a JSON header and the bytes that the header describes (a frame, see ``encoding``). Nothing that arrives is unpickled. A message
begins with the length of its header and its own length. A message that names new blocks ("new") carries their file descriptors.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import socket
import struct
import threading
from typing import Any

LARGEST = 96 << 10
"""Largest message, in bytes. Larger frames go to shared memory. The socket's buffer (208 KB by default) always has room for one message."""

_MOST_DESCRIPTORS = 64
_LENGTHS = struct.Struct("<II")
AT_ONCE = int(socket.MSG_DONTWAIT)
"""A flag: do not wait for the other side."""
_CLOSED_ON_EXEC = int(socket.MSG_CMSG_CLOEXEC)  # Flags are combined as integers, because Flag.__or__ takes 2 us.

_CONTROL = struct.Struct("@Nii")
_ANCILLARY = socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
_NOW = AT_ONCE | int(socket.MSG_NOSIGNAL)
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


library = ctypes.PyDLL(None, use_errno=True)
"""The C library. Its functions are called with the interpreter lock held: for calls that take microseconds and never wait.

Python's own functions release the lock. Beside a thread that runs pure Python it comes back after a switch interval (5 ms).
"""
library.send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
library.recvmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
library.write.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
library.read.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
for _function in (library.send, library.recvmsg, library.write, library.read):
    _function.restype = ctypes.c_ssize_t


class _Message(ctypes.Structure):
    """struct msghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p), ("name_size", ctypes.c_uint32), ("parts", ctypes.c_void_p), ("part_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t), ("flags", ctypes.c_int),
    )  # fmt: skip


class _Inbox(threading.local):
    """Memory for one message, per thread."""

    def __init__(self) -> None:
        self.data, self.control = ctypes.create_string_buffer(LARGEST), ctypes.create_string_buffer(_ANCILLARY)
        self._part = (ctypes.c_size_t * 2)(ctypes.addressof(self.data), LARGEST)
        self.message = _Message(None, 0, ctypes.addressof(self._part), 1, ctypes.addressof(self.control), _ANCILLARY, 0)


_inbox = _Inbox()


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a new channel."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.settimeout(None)  # whatever socket.setdefaulttimeout says
    return ends


def opened(descriptor: int) -> socket.socket:
    """The socket of a descriptor. Calls on it wait, whatever socket.setdefaulttimeout says."""
    channel = socket.socket(fileno=descriptor)
    channel.settimeout(None)
    return channel


def message(header: dict[str, object], body: bytes = b"") -> bytes:
    """The bytes of a message."""
    text = _encode(header).encode()
    return b"".join((_LENGTHS.pack(len(text), _LENGTHS.size + len(text) + len(body)), text, body))


def parsed(data: bytes | memoryview) -> tuple[dict[str, Any], memoryview]:
    """Header and body of a message. ValueError for bytes that are not a message."""
    if len(data) < _LENGTHS.size:
        raise ValueError("a message has a header")
    length, total = _LENGTHS.unpack_from(data)
    stop = _LENGTHS.size + length
    if stop > total or total != len(data):
        raise ValueError("a message is cut short")
    header = _decode(str(data[_LENGTHS.size : stop], "utf-8"))
    if type(header) is not dict:
        raise ValueError("a header is an object")
    return header, memoryview(data)[stop:]


def send(channel: socket.socket, data: bytes, descriptors: list[int] | None = None, flags: int = 0) -> None:
    """Send a message. BlockingIOError if the channel is full (non-blocking, or AT_ONCE), OSError if the other side has closed it."""
    if descriptors:
        channel.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))], flags)
    else:
        channel.send(data, flags)


def receive(channel: socket.socket, flags: int = 0) -> tuple[bytes, list[int]]:
    """The next message and its descriptors. Both are empty when the other side has closed the channel."""
    try:
        data, ancillary, _, _ = channel.recvmsg(LARGEST, _ANCILLARY, _CLOSED_ON_EXEC | flags)
    except ConnectionError:
        return b"", []
    if not ancillary:
        return data, []
    found: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.extend(memoryview(content[: len(content) // 4 * 4]).cast("i"))
    return data, found


def send_now(channel: socket.socket, data: bytes, descriptors: list[int] | None = None) -> None:
    """Like :func:`send`, with the interpreter lock held if there are no descriptors. BlockingIOError if the channel is full."""
    if descriptors:
        send(channel, data, descriptors, AT_ONCE)
    elif library.send(channel.fileno(), data, len(data), _NOW) < 0:
        _fail()


def receive_now(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Like :func:`receive`, with the interpreter lock held. BlockingIOError if there is no message."""
    inbox = _inbox
    message = inbox.message
    message.control_size = _ANCILLARY
    size = library.recvmsg(channel.fileno(), ctypes.addressof(message), _CLOSED_ON_EXEC | AT_ONCE)
    if size < 0:
        try:
            _fail()
        except ConnectionError:
            return b"", []
    data = ctypes.string_at(inbox.data, size)
    return data, _descriptors(inbox.control.raw[: message.control_size]) if message.control_size else []


def _descriptors(control: bytes) -> list[int]:
    """The descriptors of a message's control data: struct cmsghdr (length, level, kind), its contents, padding to 8 bytes."""
    found: list[int] = []
    at = 0
    while at + _CONTROL.size <= len(control):
        length, level, kind = _CONTROL.unpack_from(control, at)
        if length < _CONTROL.size:
            break
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            content = control[at + _CONTROL.size : at + length]
            found.extend(memoryview(content[: len(content) // 4 * 4]).cast("i"))
        at += (length + 7) & -8
    return found


def _fail() -> None:
    """Raise the OSError of the last call."""
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
