"""A program between trainers and an engine. It may change, drop and add frames, and break off handshakes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from asyncdali.fleet.addresses import Address
from asyncdali.fleet.link import PREFIX
from asyncdali.fleet.proof import CHALLENGE, GREETING, PLACE

Change = Callable[[str, bytes, bytes, bytes], Iterator[bytes]]
"""Called with the direction ("to engine", "to trainer"), the header, the body and the payloads of a frame. Returns the bytes to send."""


class Between:
    """Listens at `address` and connects to the engine at `target`.

    `handshakes`: for each connection, whether its handshake may complete; when the iterator ends, all may. `change`: see :data:`Change`.

    Attributes:
        cut: number of broken handshakes.
        frames: number of frames seen.
    """

    def __init__(self, target: str, *, handshakes: Iterator[bool] | None = None, change: Change | None = None):
        self._target, self._handshakes, self._change = target, handshakes or iter(()), change
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.cut = self.frames = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> Between:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        # Closing alone would leave the thread in `accept`, where it keeps a number of a descriptor that no listing of descriptors shows.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                trainer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(trainer,), daemon=True).start()

    def _connection(self, trainer: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(trainer)
            engine = stack.enter_context(socket.create_connection(Address.parse(self._target), 60))
            engine.settimeout(None)
            with self._lock:
                if self._closed:
                    return
                self._open |= {trainer, engine}
            try:
                trainer.sendall(_exactly(engine, len(GREETING) + CHALLENGE))
                proof = _exactly(trainer, 2 * CHALLENGE)
                if not next(self._handshakes, True):
                    self.cut += 1
                    return
                engine.sendall(proof)
                trainer.sendall(_exactly(engine, CHALLENGE + PLACE))
                back = threading.Thread(target=self._pass, args=(trainer, engine, "to engine"), daemon=True)
                back.start()
                self._pass(engine, trainer, "to trainer")
                back.join()
            finally:
                with self._lock:
                    self._open -= {trainer, engine}

    def _pass(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        try:
            while True:
                head = _exactly(source, PREFIX.size)
                _, text, body, total = PREFIX.unpack(head)
                data = _exactly(source, text + body + total)
                self.frames += 1
                if self._change is None:
                    target.sendall(head + data)
                    continue
                for piece in self._change(direction, data[:text], data[text : text + body], data[text + body :]):
                    target.sendall(piece)
        except OSError:
            pass
        finally:
            for sock in (source, target):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)


def framed(header: bytes, body: bytes, payloads: bytes, **other: Any) -> bytes:
    """A frame. `other` replaces fields of its prefix: magic, text, body, total."""
    fields = {"magic": b"adE1", "text": len(header), "size": len(body), "total": len(payloads), **other}
    return PREFIX.pack(*fields.values()) + header + body + payloads


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return bytes(data)
