"""Engines serve only trainers with the token. They refuse wrong tokens, cut connections, mutated handshakes and garbage."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import socket
import struct
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from helpers.between import Between
from helpers.fleets import TOKEN, batches_of

from asyncdali import fn, pipeline_def
from asyncdali.fleet import Actor, link, loader, read_token
from asyncdali.fleet.addresses import Address
from asyncdali.fleet.proof import CHALLENGE, GREETING, PLACE, REFUSAL, Unproven, challenge, proof, prove


@pipeline_def(batch_size=4, num_threads=1, seed=5)
def train():
    numbers = fn.external_source(source=lambda info: np.int32([info.idx_in_epoch]), batch=False)
    return fn.random.uniform(range=[0, 1], shape=[30_000]), numbers


@pytest.fixture(scope="module")
def actor():
    with Actor(train, token=TOKEN) as found:
        yield found


@pytest.fixture(scope="module")
def wanted():
    with loader(train) as batches:
        return batches_of(batches.pipeline, 20)


@contextlib.contextmanager
def bystander(actor, wanted):
    """The loader of another trainer, which attacks must not disturb."""
    with loader(train, engines=[actor.address], token=TOKEN) as batches:
        assert batches_of(batches.pipeline, 2) == wanted[:2]
        yield
        assert batches_of(batches.pipeline, 2) == wanted[2:4]
        assert batches.engines()[0]["restarts"] == 0


def connected(actor):
    return socket.create_connection(Address.parse(actor.address), 60)


def proven(actor):
    """A connection after both ends have proved the token and exchanged the description."""
    sock = connected(actor)
    prove(sock, TOKEN, 60)
    sock.settimeout(300)
    _, text, body, total = link.PREFIX.unpack(exactly(sock, link.PREFIX.size))
    exactly(sock, text + body + total)
    return sock


def exactly(sock, size):
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        assert part
        data += part
    return data


def is_closed(sock):
    """Whether the other end closes the connection without sending anything more."""
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


def is_refused(sock, whole=True):
    """Whether the other end sends the fixed refusal, if it has got a `whole` proof, and then closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionError):  # bytes behind the proof are never read, so the kernel may reset the connection
        while part := sock.recv(4096):
            data += part
        return data == (REFUSAL if whole else b"")
    return whole and REFUSAL.startswith(data)


def test_both_ends_prove_the_token(actor):
    for token in (b"another token of the tests", TOKEN + b"x"):
        with connected(actor) as sock, pytest.raises(Unproven, match="another token"):
            prove(sock, token, 60)
    with connected(actor) as sock:
        prove(sock, TOKEN, 60)


def test_a_wrong_token_is_named(actor):
    batches = loader(train, engines=[actor.address], token=b"another token of the tests")
    with pytest.raises(RuntimeError, match=f"engine {actor.address} cannot be used: .*another token"):
        batches.pipeline.build()
    batches.close()


def test_a_trainer_refuses_other_servers():
    """A server must answer the trainer's challenge. The trainer reads no more than the fixed size of an answer."""
    for greeting in (b"HTTP/1.1 400 Bad Request\r\n" + b"x" * 64, GREETING + b"c" * CHALLENGE + b"f" * (CHALLENGE + PLACE)):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(greeting)
            with pytest.raises(Unproven):
                prove(ours, TOKEN, 60)


@pytest.mark.parametrize("sent, text", [(b"", "did not greet as an engine"), (GREETING + b"c" * CHALLENGE, "did not prove the token")])
def test_a_server_that_stays_silent_is_named(sent, text):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        with pytest.raises(TimeoutError, match=f"the other end accepted the connection, but {text} in time"):
            prove(ours, TOKEN, 0.01)


def test_an_answer_cannot_be_reflected_or_replayed(actor):
    with connected(actor) as one, connected(actor) as two:
        of_one, of_two = (exactly(sock, len(GREETING) + CHALLENGE)[len(GREETING) :] for sock in (one, two))
        mine = challenge()
        one.sendall(mine + proof(TOKEN, "actor", of_one, mine))  # an answer for the other role
        assert is_refused(one)
        two.sendall(mine + proof(TOKEN, "trainer", of_one, mine))  # an answer of the other connection
        assert is_refused(two)
    assert of_one != of_two


def mutate_handshakes(actor, count):
    choose = random.Random(count)
    before = actor.statistics()
    for _ in range(count):
        with connected(actor) as sock:
            of_actor = exactly(sock, len(GREETING) + CHALLENGE)[len(GREETING) :]
            mine = challenge()
            right = mine + proof(TOKEN, "trainer", of_actor, mine)
            answer = bytearray(right)
            kind = choose.randrange(4)
            if kind == 0:
                answer[choose.randrange(len(answer))] ^= 1 << choose.randrange(8)
            elif kind == 1:
                del answer[choose.randrange(len(answer)) :]
            elif kind == 2:
                answer[:] = choose.randbytes(choose.randrange(1, 200))
            else:
                at = choose.randrange(len(answer))
                answer[at:at] = choose.randbytes(choose.randrange(1, 40))
            if answer[: len(right)] == right:  # the inserted bytes may equal the bytes that follow, so the answer stays right
                answer[0] ^= 1
            with contextlib.suppress(OSError):
                sock.sendall(answer)
                sock.shutdown(socket.SHUT_WR)
            assert is_refused(sock, len(answer) >= 2 * CHALLENGE)
    after = actor.statistics()
    assert after["refused"] - before["refused"] == count and after["ranks"] == before["ranks"]


def test_mutated_handshakes_are_refused(actor, wanted):
    with bystander(actor, wanted):
        pass
    mutate_handshakes(actor, 200)
    with bystander(actor, wanted):
        mutate_few(actor)


def mutate_few(actor):
    for answer in (b"", b"x", b"x" * 63, b"x" * 64, b"\0" * 10_000):
        with connected(actor) as sock:
            with contextlib.suppress(OSError):
                sock.sendall(answer)
                sock.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while sock.recv(4096):
                    pass


@pytest.mark.slow
def test_ten_thousand_mutated_handshakes(actor):
    mutate_handshakes(actor, 10_000)


def frame(header=b"{}", body=0, total=0, magic=link.MAGIC, text=None):
    return struct.pack("<4sIIQ", magic, len(header) if text is None else text, body, total) + header


def test_garbage_after_the_proof_ends_one_connection(actor, wanted):
    request = {"k": 0, "i": 0, "g": 0, "slice": [0, 4], "n": 4, "from": 0, "at": {}, "fed": {}}
    garbage = [
        frame(magic=b"none"), frame(b"[]"), frame(b"\xff\xff"), frame(b'{"k": 3}'), frame(b"[" * 100_000), random.Random(1).randbytes(500),
        frame(json.dumps({"payloads": [5]}).encode(), total=6), frame(json.dumps({"payloads": "abc"}).encode(), total=6),
        frame(json.dumps({"payloads": [-1, 7]}).encode(), total=6), frame(json.dumps({"payloads": [2.5, 3.5]}).encode(), total=6),
    ]  # fmt: skip
    with bystander(actor, wanted):
        for data in garbage:
            with proven(actor) as sock:
                sock.sendall(data)
                assert is_closed(sock), data[:80]
        with proven(actor) as sock:  # a valid frame with an impossible request gets an answer, and the connection stays open
            for _ in range(2):
                sock.sendall(frame(json.dumps(request).encode()))
                _, text, body, total = link.PREFIX.unpack(exactly(sock, link.PREFIX.size))
                assert "error" in json.loads(exactly(sock, text + body + total)[:text])
        with proven(actor) as sock:
            sock.sendall(frame()[:10])  # the connection is cut


def test_lengths_are_refused_before_memory_is_allocated():
    """Each end refuses headers, bodies and payloads that are too large, before it allocates memory."""
    reasons, sizes = [], []
    for data in (
        frame(text=link.HEADER + 1), frame(body=link.BODY + 1), frame(total=link.PAYLOADS + 1), frame(total=2**64 - 1), frame(text=0),
        frame(json.dumps({"payloads": [1] * 5000}).encode(), total=5000),
    ):  # fmt: skip
        ours, theirs = socket.socketpair()
        made = []

        def allocate(size):
            sizes.append(size)
            raise AssertionError

        loop = link.shared_loop()
        done = threading.Event()

        def lost(reason, done=done):
            reasons.append(reason)
            done.set()

        loop.call(lambda ours=ours, lost=lost, made=made: made.append(link.Link(ours, allocate, lambda *_: None, lost)))
        theirs.sendall(data)
        assert done.wait(300)
        theirs.close()
    assert sizes == [] and all("no frame of the protocol" in reason for reason in reasons), reasons


def test_tokens_come_from_files(tmp_path):
    path = tmp_path / "token"
    path.write_bytes(b"  " + TOKEN + b"\n")
    for mode in (0o600, 0o400):
        path.chmod(mode)
        assert read_token(path) == TOKEN
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="has 5 bytes, at least 16 are needed"):
        read_token(path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604, 0o606, 0o777])
def test_a_token_file_that_others_may_open_is_refused(tmp_path, mode):
    path, link_to = tmp_path / "token", tmp_path / "link"
    path.write_bytes(TOKEN)
    path.chmod(mode)
    link_to.symlink_to(path)
    for name in (path, link_to):
        with pytest.raises(PermissionError, match=rf"is open to other users: its mode is {mode:04o}, .*chmod 600"):
            read_token(name)
        assert read_token(name, allow_shared=True) == TOKEN


def test_a_token_file_of_another_user_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_bytes(TOKEN)
    path.chmod(0o600)
    owner = os.stat(path).st_uid
    if owner == 0:
        os.chown(path, 4321, -1)
    else:
        monkeypatch.setattr("asyncdali.fleet.proof.os.geteuid", lambda: owner + 1)
    with pytest.raises(PermissionError, match=r"belongs to user \d+, not to this user .*--token-shared"):
        read_token(path)
    assert read_token(path, allow_shared=True) == TOKEN


def test_a_token_may_come_through_a_pipe():
    """As from a password manager: ``--token-file <(command)``."""
    here, there = os.pipe()
    os.write(there, TOKEN)
    os.close(there)
    assert read_token(f"/dev/fd/{here}") == TOKEN
    os.close(here)


def test_an_engine_without_free_descriptors_waits(actor, caplog, monkeypatch):
    """The kernel calls again at once while a connection waits. The engine looks twice a second, and logs once a minute."""
    monkeypatch.setattr("asyncdali.fleet.actor.REST", 0.02)
    monkeypatch.setattr(actor, "_quiet_until", 0.0)
    ours, theirs = socket.socketpair()
    loop, calls, turns, done, accepted = actor._loop, [], [], threading.Event(), threading.Event()

    class Full:
        """A listening socket with a connection that cannot be accepted."""

        def fileno(self):
            return ours.fileno()

        def accept(self):
            calls.append(len(turns))
            if len(calls) < 4:
                raise OSError(errno.EMFILE, "Too many open files")
            loop.loop.remove_reader(ours.fileno())
            accepted.set()
            raise BlockingIOError

    def turn():
        turns.append(1)
        if calls:
            done.set()
        else:
            loop.loop.call_soon(turn)

    with ours, theirs:
        theirs.send(b"x")  # readable from now on
        loop.call(actor._accept, Full())
        loop.call(turn)
        assert done.wait(300) and accepted.wait(300)
    assert len(calls) == 4 and not actor._resting
    assert caplog.text.count("an engine cannot accept a connection: Too many open files") == 1


def closing(address, times):
    """A port before an actor. The first `times` connections are closed after the challenge, as by an engine that dies."""
    return Between(address, handshakes=iter([False] * times))


@pytest.mark.parametrize("times, others", [(1, 0), (3, 0), (1000, 1)])
def test_an_engine_that_ends_during_the_handshake_is_no_wrong_token(actor, wanted, monkeypatch, times, others):
    monkeypatch.setattr("asyncdali.fleet.near.connect", lambda *_: None)
    with closing(actor.address, times) as between:
        addresses = [between.address, actor.address][: 1 + others]
        with loader(train, engines=addresses, token=TOKEN) as batches:
            assert batches_of(batches.pipeline, 3) == wanted[:3]
            assert between.cut >= 1 and "token" not in batches.engines()[0]["reason"].replace("did not prove the token", "")


def test_strangers_do_not_stop_a_loader(actor, wanted):
    """More strangers than an actor keeps push out the trainer, whose next attempt succeeds."""
    strangers = contextlib.ExitStack()
    stop = threading.Event()

    def flood():
        while not stop.is_set():
            with contextlib.suppress(OSError), connected(actor) as sock:
                sock.send(b"x" * 64)

    threads = [threading.Thread(target=flood, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with strangers:
            for _ in range(200):
                strangers.enter_context(connected(actor))
            for _ in range(3):
                with loader(train, engines=[actor.address], token=TOKEN) as batches:
                    assert batches_of(batches.pipeline, 2) == wanted[:2]
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


FLOOD = """
    import contextlib, socket, sys
    host, port = sys.argv[1].rsplit(":", 1)
    print("begins", flush=True)
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as sock:
            sock.send(b"x" * 64)
"""


@pytest.mark.slow
def test_a_hundred_starts_under_a_flood_from_four_processes(actor, wanted):
    command = [sys.executable, "-c", textwrap.dedent(FLOOD), actor.address]
    with contextlib.ExitStack() as strangers:
        for _ in range(4):
            process = strangers.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            strangers.callback(process.kill)
            assert process.stdout.readline() == b"begins\n"
        for _ in range(100):
            with loader(train, engines=[actor.address], token=TOKEN) as batches:
                assert batches_of(batches.pipeline, 2) == wanted[:2]
