"""Too little memory, too few files or descriptors: the affected batch raises an error that says so."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from helpers.warm import run_warm

COMMON = """
import os, resource, sys
import numpy as np
from asyncdali_workers import Source, WorkerPool, WorkerError

def size(iteration):
    return 200_000_000 if iteration == 2 else 1000

def source(iteration):
    return [np.zeros(size(iteration), np.uint8)]

def attempt(action):
    try:
        return action()
    except Exception as error:
        print(type(error).__name__, isinstance(error, MemoryError), isinstance(error, OSError), str(error).partition("\\n")[0], flush=True)
"""


def run(code):
    done = run_warm(COMMON + textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_FSIZE"])
def test_results_larger_than_the_limit(limit):
    """The worker's copy, or its part of the shared file, is too large. The batch raises an error, and the pool continues."""
    out = run(
        f"""
        pool = WorkerPool([Source(source, "batch", 4, name="huge")], num_workers=2)
        now = int(open("/proc/self/statm").read().split()[0]) * 4096
        resource.setrlimit(resource.{limit}, (now + 300_000_000 if "{limit}" == "RLIMIT_AS" else 100_000_000,) * 2)
        pool.start()
        for iteration in range(5):
            batch = attempt(lambda: pool.receive(pool.submit(0, iteration, 0), timeout=300))
            if batch is not None:
                print(batch.count, batch.outputs[0].sample(0).shape)
        print(pool.statistics()["restarts"])
        """
    ).splitlines()
    assert out[0] == out[1] == out[3] == out[4] == "1 (1000,)"
    assert "True" in out[2] and "huge" in out[2]
    assert out[5] == "0"


def test_huge_results_without_a_limit():
    out = run(
        """
        pool = WorkerPool([Source(source, "batch", 4)], num_workers=1)
        pool.start()
        for iteration in (1, 2, 2, 1):
            batch = pool.receive(pool.submit(0, iteration, 0), timeout=300)
            print(batch.outputs[0].sample(0).nbytes)
            del batch
        """
    )
    assert out.split() == ["1000", "200000000", "200000000", "1000"]


@pytest.mark.parametrize("room", [0, 4, 10, 14, 20])
def test_few_descriptors(room):
    """The pool works, or reports missing descriptors. It never hangs and leaves nothing open."""
    out = run(
        f"""
        base = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (base + {room},) * 2)
        pool = WorkerPool([Source(source, "batch", 4)], num_workers=3)
        if attempt(lambda: pool.start() or True):
            for iteration in (0, 1):
                print(pool.receive(pool.submit(0, iteration, 0), timeout=300).count)
        pool.close()
        print(len(os.listdir("/proc/self/fd")) - base)
        """
    ).splitlines()
    assert out[-1] == "0"
    if room >= 20:
        assert out == ["1", "1", "0"]
    else:
        assert out[:-1] in (["1", "1"], out[:1]) and ("1" in out or "ulimit -n" in out[0] or "descriptor" in out[0])


def test_shared_memory_has_no_names():
    out = run(
        """
        pool = WorkerPool([Source(source, "batch", 4)], num_workers=2)
        pool.start()
        pool.receive(pool.submit(0, 0, 0), timeout=300)
        print([line for line in open("/proc/self/maps") if "/dev/shm/" in line])
        files = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
        print(sum("memfd:" in file for file in files), sum("/dev/shm" in file for file in files))
        """
    )
    assert out.splitlines() == ["[]", "1 0"]


def test_a_tiny_dev_shm_does_not_matter(tmp_path):
    """In a separate mount namespace, if the system allows it."""
    script = tmp_path / "script.py"
    script.write_text(
        COMMON
        + textwrap.dedent(
            """
            pool = WorkerPool([Source(source, "batch", 4)], num_workers=2)
            pool.start()
            stat = os.statvfs("/dev/shm")
            print(stat.f_blocks * stat.f_frsize, pool.receive(pool.submit(0, 2, 0), timeout=300).outputs[0].sample(0).nbytes)
            """
        )
    )
    command = f"mount -t tmpfs -o size=1m tmpfs /dev/shm && exec {sys.executable} {script}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no mount namespaces here: " + done.stderr.strip())
    assert done.stdout.split() == ["1048576", "200000000"], done.stderr
