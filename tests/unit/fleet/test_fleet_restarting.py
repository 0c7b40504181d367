"""``asyncdali engine --restart``: a killed engine is started again, and the batches do not change."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time

import pytest
from helpers import fleet_program
from helpers.fleets import PROGRAM, TOKEN, batches_of, processes

from asyncdali.fleet import loader

pytestmark = pytest.mark.slow  # starts processes

ENDLESS = f"{PROGRAM}:endless"


def test_a_killed_engine_is_replaced_at_its_address(tmp_path):
    with (
        loader(fleet_program.endless) as alone,
        processes(tmp_path, 1, ENDLESS, ("--restart",)) as addresses,
        loader(fleet_program.endless, engines=addresses, token=TOKEN) as batches,
    ):
        pids = set()
        for number in range(3):
            assert batches_of(batches.pipeline, 10) == batches_of(alone.pipeline, 10)
            (item,) = batches.engines()
            assert item["restarts"] == number
            pids.add(item["pid"])
            os.kill(item["pid"], signal.SIGKILL)
        assert batches_of(batches.pipeline, 10) == batches_of(alone.pipeline, 10)
        assert len(pids) == 3


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_engine_with_processes_prints_its_address(tmp_path, method):
    """The processes of the engine are forked while the command waits for the address."""
    more = ("--restart", "--engines", "1", "--set", f"engine_start_method={method}")
    with (
        processes(tmp_path, 1, ENDLESS, more) as addresses,
        loader(fleet_program.endless, engines=addresses, token=TOKEN) as batches,
        loader(fleet_program.endless) as alone,
    ):
        assert batches_of(batches.pipeline, 3) == batches_of(alone.pipeline, 3)


def test_engines_end_with_the_command(tmp_path):
    with (
        processes(tmp_path, 1, ENDLESS, ("--restart",)) as addresses,
        loader(fleet_program.endless, engines=addresses, token=TOKEN) as batches,
    ):
        batches.pipeline.run()
        engine = os.pidfd_open(batches.engines()[0]["pid"])
    with os.fdopen(engine):  # at its end `processes` has killed the command
        assert select.select([engine], [], [], 300)[0], "the engine lives longer than the command"


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 0), (signal.SIGINT, 0)])
def test_the_command_can_be_ended(tmp_path, number, status):
    token = tmp_path / "token"
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    words = ["--restart", "--listen", "127.0.0.1:0", "--token-file", os.fspath(token), ENDLESS]
    command = subprocess.Popen([sys.executable, "-m", "asyncdali", "engine", *words], stdout=subprocess.PIPE, text=True)
    assert command.stdout.readline().startswith("listening on 127.0.0.1:")
    command.send_signal(number)
    command.communicate(timeout=300)
    assert command.returncode == status


def test_an_error_is_not_repeated(tmp_path):
    token = tmp_path / "token"
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    words = ["--restart", "--listen", "127.0.0.1:0", "--token-file", os.fspath(token), f"{PROGRAM}:nothing"]
    found = subprocess.run([sys.executable, "-m", "asyncdali", "engine", *words], check=False, capture_output=True, text=True)
    assert found.returncode == 1 and found.stdout == "" and found.stderr.count("defines no 'nothing'") == 1


def test_a_random_engine_is_killed_every_two_seconds(tmp_path):
    """The test takes three minutes, or ASYNCDALI_KILLING_SECONDS. While another engine lives, no batch takes longer than a second."""
    seconds = float(os.environ.get("ASYNCDALI_KILLING_SECONDS", "180"))
    choose, slowest, killed, count = random.Random(1), 0.0, 0, 0
    with (
        loader(fleet_program.endless) as alone,
        processes(tmp_path, 3, ENDLESS, ("--restart",), SLOW="20") as addresses,
        loader(fleet_program.endless, engines=addresses, token=TOKEN) as batches,
    ):
        assert batches_of(batches.pipeline, 10) == batches_of(alone.pipeline, 10)
        began = due = time.monotonic()
        while time.monotonic() < began + seconds:
            asked = time.monotonic()
            got = batches_of(batches.pipeline, 1)
            slowest = max(slowest, time.monotonic() - asked)
            assert got == batches_of(alone.pipeline, 1), count
            count += 1
            if time.monotonic() >= due:
                living = [item["pid"] for item in batches.engines() if item["connected"]]
                if len(living) > 1:  # kill only if another engine lives, else wait for the next batch
                    os.kill(choose.choice(living), signal.SIGKILL)
                    killed += 1
                    due += 2
    print(f"{killed} engines killed, {count} batches, the slowest after {slowest:.2f} s")
    assert killed >= 0.9 * seconds / 2 and slowest < 1
