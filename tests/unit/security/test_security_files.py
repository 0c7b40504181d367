"""Replacing a file keeps its permissions, does not change the umask, and leaves the old file after a failure."""

from __future__ import annotations

import os
import stat
import threading

import pytest
from helpers.containers import write_tar
from helpers.pipelines import pipeline_of
from helpers.warm import run_warm

from asyncdali import fn
from asyncdali.readers.containers.indices import write_text
from asyncdali.readers.tfrecord import tfrecord_index
from asyncdali.readers.webdataset import webdataset_index
from asyncdali.system import files
from asyncdali.system.files import replace_file


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def opened(path):
    """The permissions that ``open()`` gives to a new file."""
    with open(path, "wb"):
        pass
    return mode(path)


@pytest.mark.parametrize("durable", [False, True])
def test_a_new_file_has_the_mode_that_open_gives(tmp_path, durable):
    replace_file(tmp_path / "new", b"content", durable)
    assert (tmp_path / "new").read_bytes() == b"content" and mode(tmp_path / "new") == opened(tmp_path / "other")


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o400, 0o664, 0o777])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, kept):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(kept)
    replace_file(path, b"new")
    assert mode(path) == kept and os.listdir(tmp_path) == ["file"]
    path.chmod(0o600)
    assert path.read_bytes() == b"new"


def test_a_private_checkpoint_stays_private(tmp_path):
    pipe = pipeline_of(fn.random.uniform, enable_checkpointing=True)
    path = tmp_path / "state"
    pipe.checkpoint(path)
    assert mode(path) == opened(tmp_path / "other")
    path.chmod(0o600)
    assert pipe.checkpoint(path) == path.read_bytes() and mode(path) == 0o600
    assert pipe.serialize(filename=path) == path.read_bytes() and mode(path) == 0o600


def test_a_private_file_is_private_at_every_moment(tmp_path, monkeypatch):
    """The temporary file is created as private, so no other user can open it while it is written."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    seen = []
    real = os.replace

    def replace(temporary, target):
        seen.append(mode(temporary))
        real(temporary, target)

    made = []
    real_open = os.open

    def open_(name, flags, mode=0o777, **more):
        descriptor = real_open(name, flags, mode, **more)
        if flags & os.O_CREAT:
            made.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(files.os, "replace", replace)
    monkeypatch.setattr(files.os, "open", open_)
    replace_file(path, b"new")
    assert seen == made == [0o600]


def test_the_umask_does_not_change(tmp_path, monkeypatch):
    """The umask belongs to the process. If it were changed, files of other threads could be writable by all users."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
    pipe = pipeline_of(fn.random.uniform, enable_checkpointing=True)
    pipe.checkpoint(tmp_path / "state")
    pipe.serialize(filename=tmp_path / "graph")
    write_text(str(tmp_path / "index"), "0 1\n")
    write_tar(tmp_path / "a.tar", [("a.jpg", b"1")])
    webdataset_index.make_index(str(tmp_path / "a.tar"), str(tmp_path / "a.idx"))
    assert (tmp_path / "a.idx").read_text().startswith("v1.2 1\n")


def test_indices_keep_their_permissions(tmp_path):
    from helpers.containers import example, write_tfrecord

    path = write_tfrecord(tmp_path / "a.tfrecord", [example(label=1)], index=False)
    index = tmp_path / "a.idx"
    index.write_text("")
    index.chmod(0o600)
    tfrecord_index.make_index(path, str(index))
    assert mode(index) == 0o600 and index.read_text().startswith("0 ")


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(files.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "no" / "file", b"new")


def test_temporary_names_cannot_be_foreseen(tmp_path, monkeypatch):
    """A link with the temporary name is not followed and not replaced."""
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "ab")
    target = tmp_path / "target"
    target.write_bytes(b"target")
    (tmp_path / "file.ab.part").symlink_to(target)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "file", b"new")
    assert target.read_bytes() == b"target"


INTERRUPTED = """
    import gc, os, sys
    from helpers.interrupted_places import PlacedInterrupts
    from asyncdali.system import files

    def opened():
        return {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}

    gc.disable()
    os.chdir(sys.argv[1])
    interrupts = PlacedInterrupts(files.replace_file)
    came, call = 0, lambda: files.replace_file("file", b"new", durable=True)
    for place in interrupts.chosen(call, 1):
        with open("file", "wb") as file:
            file.write(b"old")
        before = opened()
        try:
            interrupts.at(place, call)
            assert not interrupts.came, f"{place} lost the interrupt"
        except KeyboardInterrupt:
            came += 1
        assert opened() == before and os.listdir() == ["file"], (str(place), opened() - before, os.listdir())
        assert open("file", "rb").read() in (b"old", b"new"), str(place)
    print("nothing left" if came > 20 else came)
"""


def test_an_interrupt_leaves_nothing_open_and_no_temporary_file(tmp_path):
    done = run_warm(INTERRUPTED, tmp_path, timeout=120)
    assert done.stdout == "nothing left\n", (done.stdout, done.stderr)


def test_many_threads_replace_one_file(tmp_path):
    path = tmp_path / "file"
    contents = [b"%d" % k * 1000 for k in range(8)]
    threads = [threading.Thread(target=replace_file, args=(path, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents and os.listdir(tmp_path) == ["file"]
