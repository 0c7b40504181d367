"""Engines on the trainer's own machine: large contents stay in shared memory, and only their descriptors travel.

An actor also listens on a local socket with a random abstract name. A trainer that finds its own machine in the actor's proof connects
there, and proves the token again. If that fails (another network namespace), the trainer stays with TCP.
"""

from __future__ import annotations

import array
import hashlib
import os
import secrets
import socket
from collections import deque
from typing import Any

import numpy as np

from ..batch import AddressView
from ..device.buffers import BufferPool
from ..engines.wire.blocks import ForeignBlocks, Lease, OwnBlocks

NAME = 16
MOST_DESCRIPTORS = 64
MOST_LENT = 64
"""Payloads of one connection that are lent at a time. A block has a descriptor, so a trainer that keeps many batches gets bytes instead."""
_ANCILLARY = socket.CMSG_SPACE(4 * MOST_DESCRIPTORS)


def this_machine() -> bytes:
    """32 bytes that are equal for processes that can share local sockets: the boot and the network namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        space = os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return secrets.token_bytes(32)
    return hashlib.sha256(boot + str(space).encode()).digest()


def address_of_name(name: bytes) -> str:
    """The abstract address of a local socket."""
    return "\0asyncdali-engine-" + name.hex()


def connect(place: bytes, timeout: float) -> socket.socket | None:
    """A connection to the local socket of an actor, or None if the actor is on another machine or cannot be reached."""
    machine, name = place[:-NAME], place[-NAME:]
    if machine != this_machine():
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    try:
        sock.connect(address_of_name(name))
    except OSError:
        sock.close()
        return None
    return sock


class Shelf:
    """The shared memory of an actor, and the links over which its blocks are known."""

    def __init__(self) -> None:
        self.own = OwnBlocks()
        self.pool = BufferPool(self.own.make)
        self._lenders: list[Lender] = []

    def lender(self) -> Lender:
        """For a new connection."""
        made = Lender(self)
        self._lenders.append(made)
        return made

    def sweep(self) -> None:
        """Close the descriptors of freed blocks, and report them to the other ends with the next frames."""
        gone = self.own.take_gone()
        if gone:
            for lender in self._lenders:
                lender.gone += [number for number in gone if number in lender.announced]

    def leave(self, lender: Lender) -> None:
        """Handle the end of a connection. Memory that its trainer may still read is not used again here."""
        self._lenders.remove(lender)
        for owner in lender.lent.values():
            for memory in _arrays(owner):
                self.pool.forfeit(memory)
        lender.lent.clear()


def _arrays(owner: object) -> list[np.ndarray]:
    if isinstance(owner, (list, tuple)):
        return [memory for item in owner for memory in _arrays(item)]
    return [owner] if isinstance(owner, np.ndarray) else []


class Lender:
    """An actor's end of one local connection: payloads that lie in blocks are lent."""

    def __init__(self, shelf: Shelf):
        self._shelf = shelf
        self.announced: set[int] = set()
        self.gone: list[int] = []
        self.lent: dict[int, Any] = {}
        self._leases = 0

    def share(self, header: dict[str, Any], payloads: list[list[memoryview]], keep: list[Any]) -> list[int]:
        """Replace payloads by places in blocks. Returns descriptors to send with the header."""
        shared: dict[str, list[int]] = {}
        new: dict[int, int] = {}
        for k, payload in enumerate(payloads):
            if len(payload) != 1 or len(self.lent) >= MOST_LENT:
                continue
            piece = payload[0]
            address = np.frombuffer(piece, np.uint8).__array_interface__["data"][0]
            found = self._shelf.own.find(address, address + piece.nbytes)
            if found is None or (found[0] not in self.announced and len(new) == MOST_DESCRIPTORS):
                continue
            number, descriptor, start = found
            if number not in self.announced:
                new[number] = descriptor
                self.announced.add(number)
            self._leases += 1
            self.lent[self._leases] = keep[k]
            shared[str(k)] = [number, address - start, piece.nbytes, self._leases]
            payloads[k] = []
        if shared:
            header["shared"] = shared
        if new:
            header["new"] = list(new)
        if self.gone:
            self.announced.difference_update(self.gone)
            header["gone"], self.gone = self.gone, []
        return list(new.values())

    def back(self, header: dict[str, Any]) -> None:
        """Take back what the trainer has returned."""
        back = header.get("back", [])
        if not _are_numbers(back):
            raise ValueError("the leases that a frame returns are wrong")
        for number in back:
            self.lent.pop(number, None)

    def close(self) -> None:
        """The connection has ended."""
        self._shelf.leave(self)


class Borrower:
    """A trainer's end of one local connection."""

    def __init__(self) -> None:
        self._blocks = ForeignBlocks()
        self._returned: deque[int] = deque()

    def take(self, header: dict[str, Any], descriptors: list[int], payloads: list[np.ndarray]) -> int:
        """Fill in the payloads that are places in blocks. Returns their bytes. The descriptors that the header names are removed.

        ValueError for a place that is in no block, and for a header that names other descriptors or payloads than came.
        """
        new, gone, shared = header.get("new", []), header.get("gone", []), header.get("shared", {})
        if not (_are_numbers(new) and _are_numbers(gone) and isinstance(shared, dict)) or len(new) > len(descriptors):
            raise ValueError("the blocks of a frame are not those that came with it")
        places = {int(k): place for k, place in shared.items() if k.isdecimal()}
        if len(places) != len(shared) or not all(
            k < len(payloads) and not len(payloads[k]) and _are_numbers(place) and len(place) == 4 for k, place in places.items()
        ):
            raise ValueError("the places of payloads in blocks are wrong")
        while new:
            self._blocks.add(new.pop(0), descriptors.pop(0))
        found = {k: self._blocks.at(number, offset, size) for k, (number, offset, size, _) in places.items()}
        for k, (address, mapping) in found.items():
            _, _, size, lease = places[k]
            owner = Lease(mapping, lease, self._returned, size)
            payloads[k] = np.asarray(AddressView(address, (size,), np.dtype(np.uint8), owner))
        self._blocks.drop(gone)
        return sum(place[2] for place in places.values())

    def close(self) -> None:
        """The connection has ended. Views of blocks keep their memory."""
        self._blocks.close()

    def returned(self) -> list[int]:
        """Leases whose memory is no longer used here."""
        found = []
        while self._returned:
            found.append(self._returned.popleft())
        return found


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 62 for item in value)


def receive_near(sock: socket.socket, descriptors: list[int], target: memoryview) -> int:
    """Read bytes into `target` and return their number. Descriptors that come with them are appended.

    A descriptor may come before the frame that names it, never after it. ValueError if many are waiting for their frame.
    """
    count, ancillary, _, _ = sock.recvmsg_into([target], _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.extend(array.array("i", content[: len(content) // 4 * 4]))
    if len(descriptors) > 2 * MOST_DESCRIPTORS:
        raise ValueError("more descriptors than the frames name")
    return count
