"""A server of Postgres for a test, where one is installed."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SECONDS = 60


def _programs() -> Path | None:
    """The folder of initdb and pg_ctl; Debian does not put it on the path."""
    found = shutil.which("initdb") or next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)), None)
    return Path(found).resolve().parent if found else None


@contextlib.contextmanager
def server() -> Iterator[str | None]:
    """The address of a new server that listens at a socket in a new folder; None without Postgres or psycopg.

    Postgres refuses to run as root. A test that is root starts it as another user.
    """
    programs = _programs()
    if programs is None or importlib.util.find_spec("psycopg") is None:
        yield None
        return
    root = os.getuid() == 0
    with tempfile.TemporaryDirectory(prefix="postgres-", dir="/tmp") as folder:  # paths of sockets are short
        if root:
            other = pwd.getpwnam("nobody")
            os.chown(folder, other.pw_uid, other.pw_gid)

        def run(name: str, *options: str) -> None:
            user = {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []} if root else {}
            command = [str(programs / name), "-D", f"{folder}/data", *options]
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, timeout=SECONDS, check=True, **user)

        run("initdb", "--auth", "trust", "--username", "tester", "--no-sync", "--no-instructions")
        settings = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run("pg_ctl", "start", "--wait", "--timeout", str(SECONDS), "--log", f"{folder}/log", "--options", settings)
        try:
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            run("pg_ctl", "stop", "--wait", "--mode", "immediate")
