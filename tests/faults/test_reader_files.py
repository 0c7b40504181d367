"""Missing or unreadable files: every reader names the file, continues with the next iteration, and never hangs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.readers import EVERY_KIND, delivered, pipeline

from asyncdali.readers.containers import containers

HELPERS = Path(__file__).resolve().parent.parent / "helpers"


@pytest.mark.parametrize("name, mapped", [*((name, False) for name in sorted(EVERY_KIND)), ("webdataset", True), ("caffe", True)])
def test_removed_between_listing_and_reading(name, mapped, tmp_path, monkeypatch):
    kind = EVERY_KIND[name]
    if mapped:
        monkeypatch.setattr(containers, "WORTH_MAPPING", 0)
    folder, away = tmp_path / "data", tmp_path / "away"
    folder.mkdir()
    arguments = kind.write(folder)
    expected = delivered(kind, pipeline(kind, arguments), 2)
    # One iteration at a time: no file is read before the files are removed.
    pipe = pipeline(kind, arguments, exec_pipelined=False, exec_async=False)
    folder.rename(away)
    with pytest.raises(RuntimeError, match=r"(?s)in iteration 0, sample \d.*No such file or directory") as caught:
        pipe.run()
    assert f"{folder}/" in str(caught.value)
    shutil.copytree(away, folder)
    assert delivered(kind, pipe, 1) == expected[1:]


@pytest.mark.parametrize("name", sorted(EVERY_KIND))
def test_pipes_and_devices_in_place_of_files(name, tmp_path):
    """No reader waits for a writer of a pipe, or reads an endless file to its end."""
    kind = EVERY_KIND[name]
    folder = tmp_path / "data"
    folder.mkdir()
    arguments = kind.write(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]

    def fails(run):
        with pytest.raises(RuntimeError) as caught:
            run()
        assert f"{folder}/" in str(caught.value)

    def anew():
        return pipeline(kind, arguments, exec_pipelined=False, exec_async=False)

    made = anew()
    for path in files:
        path.unlink()
        os.mkfifo(path)
    fails(made.run)
    fails(lambda: anew().run())
    for path in files:
        path.unlink()
        path.symlink_to("/dev/zero")
    fails(lambda: anew().run())


@pytest.fixture(scope="module")
def denied():
    if os.geteuid() == 0 and sys.platform != "linux":
        pytest.skip("root may read all files")
    paths = os.pathsep.join([str(HELPERS.parent), str(HELPERS.parent.parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run([sys.executable, str(HELPERS / "denied_readers.py")], capture_output=True, text=True, timeout=300,
                         check=False, env={**os.environ, "PYTHONPATH": paths})  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", sorted(EVERY_KIND))
def test_permission_denied(name, denied):
    at_build, at_run = denied[name]
    for text in (at_build, at_run):
        assert text is not None and "Permission denied" in text, text
        assert f"/{name}/" in text  # the folder that contains the file
