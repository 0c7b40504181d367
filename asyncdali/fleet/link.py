"""Frames on a stream socket: a header (JSON), a body (small contents), and payloads (large contents, each received into its own memory).

A link runs on the loop's thread and never blocks. It sends payloads from where they are, and receives them where they stay: one copy on
each side, by the kernel. Lengths are checked before memory is allocated. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ..runtime.order.loop import shared_loop
from .inflow import Inflow
from .near import Borrower, Lender, receive_near

MAGIC = b"adE1"
PREFIX = struct.Struct("<4sIIQ")
"""Magic, bytes of the header, bytes of the body, bytes of all payloads. The header lists the sizes of the payloads."""

HEADER, BODY, PAYLOADS = 4 << 20, 64 << 20, 4 << 30
"""Largest sizes."""

_MOST_PAYLOADS = 4096
_MOST_BUFFERS = 512
_READ = 4 << 20
"""Bytes of one read. The loop serves other sockets between reads."""
_LOW_WATERS = (4 << 20, 1 << 20, 128 << 10)
"""The kernel wakes the loop when this much of a large payload has arrived, instead of once per packet."""

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


class FrameError(ValueError):
    """Bytes that are no frame, or a frame that is too large."""


Received = Callable[[dict[str, Any], memoryview, list[np.ndarray]], None]


class Link:
    """One end of a connection that has been proven.

    `received` is called with each frame. `lost` is called once, with the reason, when the connection ends by itself. `allocate` gives the
    memory of payloads. `release` closes the socket. `near`: the connection is local, and the actor's end lends memory to the trainer's.

    Attributes:
        unsent: bytes that wait for the socket.
        got, sent: bytes of all frames.
    """

    def __init__(
        self, sock: socket.socket, allocate: Callable[[int], np.ndarray], received: Received, lost: Callable[[str], None],
        release: Callable[[socket.socket], None] = socket.socket.close, near: Lender | Borrower | None = None,
    ):  # fmt: skip
        self._release, self._near = release, near
        self._descriptors: list[int] = []  # received descriptors of frames that are not complete
        self._sock, self._allocate, self._received, self._lost = sock, allocate, received, lost
        self._loop = shared_loop().loop
        self._number = sock.fileno()
        self._out: deque[tuple[memoryview, Any, list[int]]] = deque()
        self._writing = self._reading = False
        self._low_water = 1
        self._inflow = Inflow(sock.recv_into if near is None else partial(receive_near, sock, self._descriptors))
        self.closed = False
        self.unsent = self.got = self.sent = 0
        sock.setblocking(False)
        _tune(sock)
        self._start_frame()
        self.resume()

    # --- the end

    def close(self) -> None:
        """Close the connection; `lost` is not called. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self.pause()
        if self._writing:
            self._loop.remove_writer(self._number)
        self._out.clear()
        if self._near is not None:
            self._near.close()
        while self._descriptors:
            os.close(self._descriptors.pop())
        self._release(self._sock)

    def _end(self, reason: str) -> None:
        if not self.closed:
            self.close()
            self._lost(reason)

    # --- send

    def send(self, header: dict[str, Any], body: bytes = b"", payloads: Sequence[Sequence[memoryview]] = (), keep: Any = None) -> None:
        """Send a frame. A payload is a list of pieces; `keep` is held until all are sent. FrameError if the frame is too large."""
        if self.closed:
            return
        pieces, descriptors, lent = list(map(list, payloads)), list[int](), 0
        if isinstance(self._near, Lender):
            header, lent = dict(header), sum(piece.nbytes for payload in pieces for piece in payload)
            descriptors = self._near.share(header, pieces, keep or [])
        elif self._near is not None:
            back = self._near.returned()
            header = {**header, "back": back} if back else header
        sizes = [sum(piece.nbytes for piece in payload) for payload in pieces]
        lent = max(0, lent - sum(sizes))
        text = _encode({**header, "payloads": sizes} if sizes else header).encode()
        _check(len(text), len(body), sum(sizes))
        self._out.append((memoryview(b"".join((PREFIX.pack(MAGIC, len(text), len(body), sum(sizes)), text, body))), None, descriptors))
        self._out.extend((piece, keep, []) for payload in pieces for piece in payload if piece.nbytes)
        size = PREFIX.size + len(text) + len(body) + sum(sizes)
        self.unsent += size
        self.sent += size + lent
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        out = self._out
        while out:
            try:
                pieces = [piece for piece, _, _ in islice(out, self._together())]
                rights = out[0][2]
                count = self._sock.sendmsg(pieces, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", rights))] if rights else [])
            except BlockingIOError:
                if not self._writing:
                    self._writing = True
                    self._loop.add_writer(self._number, self._flush)
                return
            except OSError as error:
                self._end(f"the connection is lost: {error.strerror or error}")
                return
            self.unsent -= count
            while count:
                piece, keep, _ = out[0]
                if count < piece.nbytes:
                    out[0] = piece[count:], keep, []  # descriptors travel with the first byte
                    break
                count -= piece.nbytes
                out.popleft()
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._number)
            self.resume()

    def _together(self) -> int:
        """Number of pieces for one call: up to the next one that has descriptors."""
        if self._near is None:
            return _MOST_BUFFERS
        return next((k for k, item in enumerate(self._out) if k and item[2]), _MOST_BUFFERS)

    # --- receive

    def pause(self) -> None:
        """Read nothing until everything is sent (or :meth:`resume`). The kernel's buffers fill, and the other end has to wait."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._number)

    def resume(self) -> None:
        """Read again."""
        if not self._reading and not self.closed:
            self._reading = True
            self._loop.add_reader(self._number, self._readable)
            if self._inflow.waiting:
                self._loop.call_soon(self._readable)

    def _start_frame(self) -> None:
        self._stage = 0
        self._head = bytearray(PREFIX.size)
        self._targets: deque[memoryview] = deque([memoryview(self._head)])
        self._payloads: list[np.ndarray] = []

    def _readable(self) -> None:
        left, inflow = _READ, self._inflow
        try:
            while self._reading and (left > 0 or inflow.waiting):
                target = self._targets[0]
                count = inflow.take(target[:left] if 0 < left < target.nbytes else target)
                if not count:
                    self._end("it closed the connection")
                    return
                left -= count
                self.got += count
                if count < target.nbytes:
                    self._targets[0] = target[count:]
                else:
                    self._targets.popleft()
                    while not self._targets and not self.closed:
                        self._filled()
                if inflow.dry and not inflow.waiting:
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"the connection is lost: {error.strerror or error}")
        except Exception as error:  # wrong bytes of the other end can cause any error
            self._end(f"it sent what is no frame of the protocol: {type(error).__name__}: {error}")
        if not self.closed:
            self._wait_for(self._targets[0].nbytes)

    def _wait_for(self, missing: int) -> None:
        """Let the kernel wake the loop only when a large part of `missing` bytes has arrived, or the connection ends."""
        size = 1 if missing < _LOW_WATERS[-1] else next(size for size in _LOW_WATERS if size <= missing)
        if size != self._low_water and self._near is None:
            self._low_water = size
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _filled(self) -> None:
        """A stage of the frame has arrived: prefix, header and body, payloads."""
        if self._stage == 0:
            magic, self._text, self._body, self._total = PREFIX.unpack(self._head)
            if magic != MAGIC:
                raise FrameError("wrong magic number")
            _check(self._text, self._body, self._total)
            self._head = bytearray(self._text + self._body)
            self._targets.append(memoryview(self._head))
        elif self._stage == 1:
            self._header = _decode(str(memoryview(self._head)[: self._text], "utf-8"))
            if type(self._header) is not dict:
                raise FrameError("a header is an object")
            sizes = self._header.get("payloads", [])
            good = type(sizes) is list and len(sizes) <= _MOST_PAYLOADS and all(type(size) is int and size >= 0 for size in sizes)
            if not good or sum(sizes) != self._total:
                raise FrameError(f"the payloads have {self._total} bytes together; the header says otherwise")
            self._payloads = [self._allocate(size) for size in sizes]
            self._targets.extend(payload.data for payload in self._payloads if payload.nbytes)
        else:
            header, body, payloads = self._header, memoryview(self._head)[self._text :], self._payloads
            if isinstance(self._near, Borrower):
                self.got += self._near.take(header, self._descriptors, payloads)
            elif self._near is not None:
                self._near.back(header)
            self._start_frame()
            self._received(header, body, payloads)
            return
        self._stage += 1


def _check(text: int, body: int, payloads: int) -> None:
    if not 2 <= text <= HEADER or body > BODY or payloads > PAYLOADS:
        raise FrameError(
            f"a frame with {text} bytes of header, {body} of body and {payloads} of payloads; at most {HEADER}, {BODY} and {PAYLOADS} are "
            "allowed. Make smaller batches"
        )


def _tune(sock: socket.socket) -> None:
    """Send small frames without delay, and notice a host that has vanished within 30 s."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 30_000)):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    _send_without_pacing(sock)


NEARBY = 1000
"""Round trip (us) below which a connection stays in one data centre."""
_CONGESTION, _INFO = getattr(socket, "TCP_CONGESTION", None), getattr(socket, "TCP_INFO", None)
_ROUND_TRIP = struct.Struct("<68xI")
"""``tcpi_rtt`` of Linux's ``struct tcp_info``, in us."""


def _send_without_pacing(sock: socket.socket) -> None:
    """Replace BBR on a short path. BBR sends by timers, and these cost a tenth of a frame's processor time (docs/fleet.md).

    BBR gains on long paths with loss, so a connection with a longer round trip keeps the system's choice.
    """
    if _CONGESTION is None or _INFO is None:
        return
    with contextlib.suppress(OSError):  # not a Linux kernel
        if sock.getsockopt(socket.IPPROTO_TCP, _CONGESTION, 16).startswith(b"bbr"):
            if _ROUND_TRIP.unpack(sock.getsockopt(socket.IPPROTO_TCP, _INFO, _ROUND_TRIP.size))[0] >= NEARBY:
                return
            for name in (b"cubic", b"reno"):  # the administrator may allow reno only
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.IPPROTO_TCP, _CONGESTION, name)
                    return
