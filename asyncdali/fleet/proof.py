"""The proof that both ends of a connection know the fleet's token. Nothing else is read before the proof.

The problem. An engine listens on a port that others can reach. Its messages make it read files and allocate memory. A stranger must not be
able to send one, and a trainer must not take batches from a stranger.

What does not work:

- Sending the token: whoever listens, or answers in place of an actor, has it.
- A proof by the trainer alone: a stranger could give wrong batches.
- HMAC(token, challenge) from both ends: a peer without the token opens a second connection, and sends the answer that it receives there
  back as its own proof. So the text contains the role of the sender and both challenges.
- Length prefixes before the proof: a stranger could reserve memory.

The solution. The messages have fixed sizes, so no length is taken from an unknown peer:

1. actor to trainer: :data:`GREETING` and a random challenge
2. trainer to actor: a random challenge, and HMAC-SHA256(token, "trainer" and both challenges)
3. actor to trainer: HMAC-SHA256(token, "actor" and both challenges), and where it can be reached on the same machine (:data:`PLACE`); or
   :data:`REFUSAL`, if message 2 proves another token

Digests are compared in constant time. A connection that ends earlier proves nothing about the token: the actor may have died, or had too
many strangers. The trainer tries again. The proof does not encrypt: docs/fleet.md says when a tunnel is needed.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import stat
from time import monotonic

GREETING = b"asyncdali engine 1\n"
CHALLENGE = 32
"""Bytes of a challenge, and of a proof."""
PLACE = 48
"""Bytes that name the machine (32) and a local socket there (16); see ``asyncdali.fleet.near``."""
REFUSAL = bytes(CHALLENGE + PLACE)
"""The actor's answer to a trainer that has another token. No HMAC is zero."""
SHORTEST_TOKEN = 16


class Unproven(Exception):
    """The other end does not know the token, or is no engine."""


def challenge() -> bytes:
    """A new challenge."""
    return secrets.token_bytes(CHALLENGE)


def proof(token: bytes, role: str, of_actor: bytes, of_trainer: bytes) -> bytes:
    """The proof that the end `role` ("actor" or "trainer") sends: an HMAC over its role and both challenges."""
    return hmac.digest(token, b"asyncdali " + role.encode() + b"\0" + of_actor + of_trainer, "sha256")


def accepted(token: bytes, of_actor: bytes, answer: bytes) -> bytes | None:
    """The actor's proof, if message 2 proves that the trainer knows the token, else None."""
    of_trainer, given = answer[:CHALLENGE], answer[CHALLENGE:]
    if not hmac.compare_digest(given, proof(token, "trainer", of_actor, of_trainer)):
        return None
    return proof(token, "actor", of_actor, of_trainer)


def prove(sock: socket.socket, token: bytes, timeout: float) -> bytes:
    """The trainer's side, on a blocking socket. Returns the actor's :data:`PLACE`.

    Raises:
        Unproven: the other end is no engine, or has another token.
        OSError: the connection is lost, or `timeout` seconds are over.
    """
    ends = monotonic() + timeout
    greeting = _exactly(sock, len(GREETING) + CHALLENGE, ends, "did not greet as an engine")
    if greeting[: len(GREETING)] != GREETING:
        raise Unproven("the other end did not greet as an engine of this version of the protocol. Give the address of an engine")
    of_actor, of_trainer = greeting[len(GREETING) :], challenge()
    sock.sendall(of_trainer + proof(token, "trainer", of_actor, of_trainer))
    answer = _exactly(sock, CHALLENGE + PLACE, ends, "did not prove the token")
    if not hmac.compare_digest(answer[:CHALLENGE], proof(token, "actor", of_actor, of_trainer)):
        raise Unproven(f"the other end has another token. {_SAME_TOKEN}")
    return answer[CHALLENGE:]


_SAME_TOKEN = "Start engines and trainers with the same token file"


def _exactly(sock: socket.socket, size: int, ends: float, failing: str) -> bytes:
    """`size` bytes. `failing` says what the other end did not do, if they do not arrive in time."""
    data = b""
    while len(data) < size:
        sock.settimeout(max(ends - monotonic(), 0.001))
        try:
            part = sock.recv(size - len(data))
        except TimeoutError:
            raise TimeoutError(f"the other end accepted the connection, but {failing} in time. Is it an engine?") from None
        if not part:
            raise ConnectionResetError(f"the other end closed the connection, and {failing}. It may have ended, or be too busy")
        data += part
    return data


def as_token(token: bytes | str) -> bytes:
    """A token as bytes, without white space around it. ValueError for a short one."""
    data = (token.encode() if isinstance(token, str) else bytes(token)).strip()
    if len(data) < SHORTEST_TOKEN:
        raise ValueError(
            f"the token has {len(data)} bytes, at least {SHORTEST_TOKEN} are needed. Make one: python -c 'import secrets; "
            "print(secrets.token_hex())'"
        )
    return data


def read_token(path: str | os.PathLike[str], *, allow_shared: bool = False) -> bytes:
    """The token in a file. `allow_shared`: also if other users may read or write the file, or own it.

    Raises:
        OSError: the file cannot be read.
        PermissionError: other users have access to the file, or own it.
        ValueError: the token is short.
    """
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not allow_shared and stat.S_ISREG(status.st_mode):
            _check_private(os.fspath(path), status)
        return as_token(file.read(4096))


def _check_private(path: str, status: os.stat_result) -> None:
    """Refuse a token file that another user may know or choose, as ssh refuses such a key."""
    switch = "To accept the file as it is, pass --token-shared to the command, or allow_shared=True to read_token"
    if status.st_uid not in (os.geteuid(), 0):
        raise PermissionError(f"the token file {path} belongs to user {status.st_uid}, not to this user ({os.geteuid()}) or root. {switch}")
    others = stat.S_IMODE(status.st_mode) & 0o077
    if others:
        raise PermissionError(
            f"the token file {path} is open to other users: its mode is {stat.S_IMODE(status.st_mode):04o}, 0600 and 0400 are allowed. "
            f"Make a new token if others may have read this one, and run: chmod 600 {path}. {switch}"
        )
