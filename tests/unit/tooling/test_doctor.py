"""``asyncdali doctor``: sixteen broken set-ups and missing kernels. One message explains each of them and how to repair it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, run_script
from helpers.places import PROJECT as ROOT
from helpers.slow_files import compiler, slow_files
from helpers.warm import run_warm

from asyncdali import Pipeline, fn
from asyncdali.__main__ import main
from asyncdali.tooling import doctor, doctor_checks, machine, quick_checks
from asyncdali.tooling.doctor import setup_of
from asyncdali.tooling.doctor_checks import Finding
from asyncdali.tooling.doctor_setup import MachineSetup

PICTURES = ROOT / "asyncdali" / "data" / "pictures"
LIMIT = 5.0
"""Longest time in seconds that the command may wait for storage and for the CUDA driver."""

EXAMINE = """
import json
from asyncdali.tooling import doctor_checks
from asyncdali.tooling.doctor_setup import MachineSetup
from pathlib import Path
found = doctor_checks.{check}(MachineSetup({setup}))
print(json.dumps({{"check": found and found.check, "message": found and found.message}}))
"""


def elsewhere(check, setup="", before="", **environment):
    """The finding of a check in a separate process."""
    run = run_script if environment else run_warm  # the loader and libraries read variables when a process starts
    done = run(before + EXAMINE.format(check=check, setup=setup), **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def expect(finding, check, *words):
    """One message: the problem and, in a second sentence, the fix."""
    message = finding["message"] if isinstance(finding, dict) else finding.message
    name = finding["check"] if isinstance(finding, dict) else finding.check
    assert name == check
    assert "\n" not in message and message.endswith(".") and ". " in message
    for word in words:
        assert word in message, message


# ------------------------------------------------------------------------------------------------------------------- 1, 2: processors


def cgroup(tmp_path, **files):
    """A simulated system in which this process is in the control group /jobs/one. `files` are the files of the groups."""
    (tmp_path / "proc/self").mkdir(parents=True)
    version_two = "cpu.max" in "".join(files)
    (tmp_path / "proc/self/cgroup").write_text("0::/jobs/one\n" if version_two else "4:cpu,cpuacct:/jobs/one\n0::/\n")
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"proc": tmp_path / "proc", "cgroups": tmp_path / "groups"}


@pytest.mark.parametrize(
    "files, quota",
    [
        ({"jobs/one/cpu.max": "150000 100000\n"}, 1.5),
        ({"jobs/one/cpu.max": "max 100000\n", "jobs/cpu.max": "300000 100000\n"}, 3.0),  # the parent group has the limit
        ({"jobs/one/cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "200000 100000"}, 2.0),  # in a container, where the group is mounted as the root
        ({"cpu,cpuacct/jobs/one/cpu.cfs_quota_us": "50000", "cpu,cpuacct/jobs/one/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_smallest_quota_of_all_groups_counts(tmp_path, files, quota):
    assert machine.quota(**cgroup(tmp_path, **files)) == quota


def test_a_quota_below_the_threads(tmp_path):
    setup = MachineSetup(num_threads=8, **cgroup(tmp_path, **{"jobs/one/cpu.max": "200000 100000"}))
    expect(doctor_checks.cpu_quota(setup), "cpu_quota", "2 CPUs", "num_threads=8", "Use num_threads=2", "docker --cpus")
    assert doctor_checks.cpu_quota(replace(setup, num_threads=2)) is None


def test_an_affinity_below_the_threads():
    found = elsewhere("affinity", "num_threads=3", "import os\nos.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n")
    expect(found, "affinity", "1 CPU", "num_threads=3", "Use num_threads=1")
    assert doctor_checks.affinity(MachineSetup(num_threads=1)) is None


# ----------------------------------------------------------------------------------------------------------- 3, 4: threads in threads


def test_thread_pools_in_worker_processes(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    setup = MachineSetup(num_threads=2, py_num_workers=4)
    found = doctor_checks.nested_in_workers(setup)
    expect(found, "nested_in_workers", "OMP_NUM_THREADS=8", "32 threads", "4 CPUs", "Unset OMP_NUM_THREADS")
    assert doctor_checks.nested_in_workers(replace(setup, py_num_workers=0)) is None
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert doctor_checks.nested_in_workers(setup) is None


def test_opencv_threads_in_python_functions():
    before = "import cv2\ncv2.setNumThreads(64)\n"
    setup = "num_threads=2, operators={'python_function'}"
    found = elsewhere("nested_in_process", setup, before)
    expect(found, "nested_in_process", "OpenCV has", "threads of its own", "cv2.setNumThreads(1)")
    assert elsewhere("nested_in_process", setup, "import cv2\ncv2.setNumThreads(1)\n")["check"] is None
    assert elsewhere("nested_in_process", "num_threads=2, operators={'resize'}", before)["check"] is None


def test_opencv_threads_in_functions_of_other_packages():
    before = """
import cv2
from dataclasses import replace
from asyncdali.operators import load_registry
from asyncdali.operators.python.python_function import PythonFunction
cv2.setNumThreads(64)
load_registry()["other.mix"] = type("Mix", (PythonFunction,), {"schema": replace(PythonFunction.schema, name="other.mix")})
"""
    found = elsewhere("nested_in_process", "num_threads=2, operators={'other.mix'}", before)
    expect(found, "nested_in_process", "OpenCV has", "cv2.setNumThreads(1)")


# ------------------------------------------------------------------------------------------------------- 5, 6, 7: processes and limits

DRIVER = """
static int ready = 0;
int cuInit(unsigned flags) { ready = 1; return STATUS; }
int cuDeviceGetCount(int *count) { *count = 1; return ready ? 0 : 3; }
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
"""

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler to build a stand-in for the CUDA driver")


def driver(tmp_path, status=0, version=12040):
    """A simulated CUDA driver; returns its path."""
    source, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    source.write_text(DRIVER.replace("STATUS", str(status)).replace("VERSION", str(version)))
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(source)], check=True)
    return library


@needs_compiler
def test_cuda_before_fork(tmp_path):
    library = driver(tmp_path)
    start = f"import ctypes\ndriver = ctypes.CDLL({str(library)!r})\n"
    found = elsewhere("cuda_before_fork", "py_num_workers=2", start + "driver.cuInit(0)\n")
    expect(found, "cuda_before_fork", "CUDA is initialised", "start_py_workers()", "py_start_method='spawn'")
    assert elsewhere("cuda_before_fork", "py_num_workers=2", start)["check"] is None
    assert elsewhere("cuda_before_fork", "py_num_workers=2, py_start_method='spawn'", start + "driver.cuInit(0)\n")["check"] is None


class Shared:
    def __init__(self):
        self.cache = {"index": threading.Lock()}

    def __call__(self, info):
        return np.float32([0])


def parallel(source, **options):
    made = pipeline_of(
        lambda: fn.external_source(source, batch=False, parallel=True, name="files"), py_num_workers=2, **options
    )
    return setup_of(made)


def test_a_source_that_cannot_be_pickled():
    source = Shared()
    found = doctor_checks.unpicklable_source(parallel(source, py_start_method="spawn"))
    expect(found, "unpicklable_source", "files.cache['index']", "cannot pickle", "__setstate__", "py_start_method='fork'")
    assert found.fatal
    assert doctor_checks.unpicklable_source(parallel(source, py_start_method="fork")) is None
    source.cache.clear()
    assert doctor_checks.unpicklable_source(parallel(source, py_start_method="spawn")) is None


def test_too_few_descriptors():
    before = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
    found = elsewhere("descriptor_limit", "py_num_workers=8", before)
    expect(found, "descriptor_limit", "may open 100 files", "py_num_workers=8", "ulimit -n")
    assert doctor_checks.descriptor_limit(MachineSetup(py_num_workers=2)) is None


# ------------------------------------------------------------------------------------------------------------------- 8, 9: storage


@pytest.mark.skipif(compiler() is None, reason="no C compiler to build a stand-in for slow storage")
def test_slow_storage(tmp_path):
    pictures = tmp_path / "slow"
    shutil.copytree(PICTURES, pictures)
    patience = "from asyncdali.tooling import doctor_checks\ndoctor_checks._PATIENCE = {}\n"
    place = f"places=[Path({str(pictures)!r})]"
    found = elsewhere("slow_storage", place, patience.format(300), **slow_files(tmp_path, pictures, 10_000))
    expect(found, "slow_storage", str(pictures), "first 4 KB takes ", " at /", "Copy the data to a local disk")
    found = elsewhere("slow_storage", place, patience.format(0.1), **slow_files(tmp_path, pictures, 400_000))
    expect(found, "slow_storage", "is very slow", "Look at the mount")


@pytest.mark.parametrize("places", [1, 3, 9])
def test_waits_for_storage_and_for_the_driver_stay_within_the_limit(places, tmp_path, monkeypatch):
    """The waits add up to less than LIMIT, however many places there are, and whether or not the driver answers."""
    waits = []

    def probe(command, timeout, **options):
        waits.append(timeout)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(doctor_checks, "_in_time", lambda work, seconds: waits.append(seconds) or [])
    assert doctor_checks.slow_storage(MachineSetup(places=[tmp_path] * places)) is None
    monkeypatch.setattr(subprocess, "run", probe)
    assert doctor_checks.driver_mismatch(MachineSetup(gpu=True)) is None
    assert len(waits) == min(places, 4) + 1 and sum(waits) < LIMIT


def test_storage_that_does_not_answer(tmp_path):
    os.mkfifo(tmp_path / "file.bin")  # opening it waits forever
    expect(doctor_checks.slow_storage(MachineSetup(places=[tmp_path])), "slow_storage", "is very slow", str(tmp_path))
    with open(tmp_path / "file.bin", "wb", buffering=0):
        pass  # lets the waiting thread continue


@pytest.mark.slow  # measures how quickly this machine reads files
def test_quick_storage_is_not_mentioned(tmp_path):
    assert doctor_checks.slow_storage(MachineSetup(places=[PICTURES, tmp_path / "missing", tmp_path])) is None


def test_a_kernel_cache_that_cannot_be_written():
    found = elsewhere("kernel_cache", NUMBA_CACHE_DIR="/proc/none/kernels")
    expect(found, "kernel_cache", "/proc/none/kernels cannot be written", "Set NUMBA_CACHE_DIR")
    assert elsewhere("kernel_cache")["check"] is None


def test_a_kernel_folder_that_others_can_write(tmp_path):
    (tmp_path / "asyncdali" / "kernels").mkdir(parents=True)
    (tmp_path / "asyncdali").chmod(0o775)
    found = elsewhere("kernel_cache", NUMBA_CACHE_DIR=str(tmp_path))
    expect(found, "kernel_cache", f"{tmp_path}/asyncdali can be written by other users (mode 0775; `chmod go-w` repairs the mode)")


# ------------------------------------------------------------------------------------------------------------------ 10, 11, 12: libraries


def test_a_missing_codec():
    before = "import sys\nsys.modules['soundfile'] = None\n"
    found = elsewhere("missing_codec", "operators={'readers.nemo_asr', 'random.uniform'}", before)
    expect(found, "missing_codec", "readers.nemo_asr", "soundfile", "Opus", "FLAC and Ogg Vorbis can", "pip install asyncdali[audio]")
    assert elsewhere("missing_codec", "operators={'random.uniform'}", before)["check"] is None
    found = elsewhere("missing_codec", "operators={'decoders.image_crop'}", "import sys\nsys.modules['cv2'] = None\n")
    expect(found, "missing_codec", "decoders.image_crop", "PNG", "opencv-python-headless")


@needs_compiler
@pytest.mark.parametrize(
    "status, version, before, words",
    [
        (803, 12040, "", ["error 803", "different versions", "Restart the machine"]),
        (0, 11080, "doctor_checks._installed = lambda package: package == 'cupy-cuda12x'\n", ["supports CUDA 11.8", "made for CUDA 12"]),
    ],
)
def test_a_driver_that_is_too_old_or_does_not_start(tmp_path, status, version, before, words):
    driver(tmp_path, status, version)
    before = f"from asyncdali.tooling import doctor_checks\n{before}"
    found = elsewhere("driver_mismatch", "gpu=True", before, LD_LIBRARY_PATH=str(tmp_path))
    expect(found, "driver_mismatch", *words)
    assert elsewhere("driver_mismatch", "gpu=False", before, LD_LIBRARY_PATH=str(tmp_path))["check"] is None
    driver(tmp_path, 0, 13000)
    assert elsewhere("driver_mismatch", "gpu=True", before, LD_LIBRARY_PATH=str(tmp_path))["check"] is None


def test_a_missing_driver_where_cuda_is_required(monkeypatch):
    monkeypatch.setattr(doctor_checks, "_probe", lambda: {"missing": "libcuda.so.1: cannot open shared object file"})
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    found = doctor_checks.no_driver(MachineSetup())
    expect(found, "no_driver", "ASYNCDALI_DEVICE=cuda", "libcuda.so.1", "--gpus all", "unset ASYNCDALI_DEVICE")
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    assert doctor_checks.no_driver(MachineSetup()) is None


def test_a_long_switch_interval(monkeypatch):
    monkeypatch.setattr(doctor_checks.sys, "getswitchinterval", lambda: 0.02)
    found = doctor_checks.switch_interval(MachineSetup(gpu=True))
    expect(found, "switch_interval", "20 ms", "sys.setswitchinterval(0.005)", "a quarter of their speed")
    assert doctor_checks.switch_interval(MachineSetup(gpu=False)) is None
    monkeypatch.setattr(doctor_checks.sys, "getswitchinterval", lambda: 0.005)
    assert doctor_checks.switch_interval(MachineSetup(gpu=True)) is None


# ------------------------------------------------------------------------------------------------------------------- the command


def test_threads_of_engines(monkeypatch):
    monkeypatch.setattr(doctor_checks.machine, "cores", lambda: 4)
    found = doctor_checks.engine_threads(MachineSetup(engines=4, num_threads=4))
    assert found.message == (
        "engines=4 with num_threads=4 each are 16 threads on 4 CPUs. Use num_threads=1: each engine has this number of threads."
    )
    found = doctor_checks.engine_threads(MachineSetup(engines=9, num_threads=1))
    assert found.message.endswith(" 4 CPUs. Use engines=4, unless a Python function in them waits for something else than the processor.")
    assert doctor_checks.engine_threads(MachineSetup(engines=2, num_threads=2)) is None
    assert doctor_checks.engine_threads(MachineSetup(num_threads=4)) is None


def test_every_check_has_a_name_and_says_what_it_looks_at():
    assert len(doctor_checks.ALL) == len({check.__name__ for check in doctor_checks.ALL})
    assert all(check.__doc__ for check in doctor_checks.ALL)


def test_the_setup_of_a_pipeline():
    pipe = Pipeline(batch_size=4, num_threads=3, device_id=None, py_num_workers=5)
    with pipe:
        jpegs, _ = fn.readers.file(file_root=str(PICTURES))
        listed, _ = fn.readers.file(file_root="/data", files=["a.jpg", "b.jpg"], name="listed")
        pipe.set_outputs(fn.decoders.image(jpegs, device="mixed"), listed)
    setup = setup_of(pipe)
    assert setup.num_threads == 3 and setup.gpu and setup.py_num_workers == 0  # without a parallel source there are no workers
    assert {"readers.file", "decoders.image"} <= setup.operators
    assert setup.places == [PICTURES, Path("/data"), Path("/data/a.jpg"), Path("/data/b.jpg")]
    assert pipe._core.session is None  # the pipeline was not built


def test_the_command(capsys, tmp_path, monkeypatch):
    file = tmp_path / "program.py"
    file.write_text(
        "import numpy as np\nfrom asyncdali import fn, pipeline_def\n@pipeline_def(batch_size=2, num_threads=4096, device_id=None)\n"
        "def many():\n    return fn.random.uniform()\n"
    )
    assert main(["doctor", f"{file}:many"]) == 1
    out = capsys.readouterr().out
    assert "warning (affinity): this process may run on" in out and f"{len(doctor_checks.ALL)} checks, " in out and "usable CPUs" in out
    assert main(["doctor", f"{file}:many", "--json"]) == 1
    (found,) = [item for item in json.loads(capsys.readouterr().out) if item["check"] == "affinity"]
    assert found["message"] == f"{found['problem']}. {found['fix']}." and not found["fatal"]
    assert main(["doctor", f"{file}:none"]) == 2
    assert "defines no 'none'" in capsys.readouterr().err
    monkeypatch.setattr(doctor_checks, "ALL", ())
    monkeypatch.setattr(doctor, "examine", lambda what: [])
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "nothing found" in out and "JPEG decoding: asyncdali's own decoder, libjpeg-turbo for the files that it hands over" in out


def test_an_error_in_a_check_does_not_stop_the_others():
    def broken(setup):
        raise OSError("cannot look")

    def found(setup):
        return Finding("found", "a", "b")

    assert quick_checks.examine(MachineSetup(), [broken, found]) == [Finding("found", "a", "b")]


# ------------------------------------------------------------------------------------------------------------------------ in build()


@pytest.fixture
def told(monkeypatch, caplog):
    monkeypatch.setattr(quick_checks, "_logged", set())
    caplog.set_level(logging.WARNING, "asyncdali")
    return lambda: [record.getMessage() for record in caplog.records]


def test_build_reports_a_problem_once(told):
    for _ in range(2):
        pipe = pipeline_of(lambda: fn.random.uniform(), num_threads=machine.allowed_cores() + 1)
        pipe.build()
        pipe.close()
    (message,) = told()
    assert f"num_threads={machine.allowed_cores() + 1}" in message and f"Use num_threads={machine.allowed_cores()}" in message


def test_building_reports_no_problem_of_a_sound_setup(told, monkeypatch):
    monkeypatch.setattr(machine, "quota", lambda *places: None)
    pipe = pipeline_of(lambda: fn.random.uniform(), num_threads=1)
    pipe.build()
    pipe.close()
    assert told() == []


def test_checks_can_be_turned_off(told, monkeypatch):
    monkeypatch.setenv("ASYNCDALI_DOCTOR", "0")
    pipe = pipeline_of(lambda: fn.random.uniform(), num_threads=machine.allowed_cores() + 1)
    pipe.build()
    pipe.close()
    assert told() == []


@pytest.mark.slow  # measures processor time
def test_the_check_in_build_is_cheap():
    options = pipeline_of(lambda: fn.random.uniform(), num_threads=1)._core.options
    quick_checks.at_build(options, {"external_source"}, True)
    used = []
    for _ in range(20):
        start = time.thread_time()
        quick_checks.at_build(options, {"external_source"}, True)
        used.append(time.thread_time() - start)
    assert min(used) < 0.005, min(used)


def test_few_connections_to_the_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8")
    found = doctor_checks.few_connections(MachineSetup(gpu=True))
    expect(found, "few_connections", "8 connections", "0.82", "CUDA_DEVICE_MAX_CONNECTIONS=32")
    assert doctor_checks.few_connections(MachineSetup(gpu=False)) is None
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    assert doctor_checks.few_connections(MachineSetup(gpu=True)) is None


@needs_compiler
@pytest.mark.parametrize(
    ("before", "given", "expected"),
    [("", None, "32"), ("", "1", "1"), ("driver.cuInit(0)", None, "None"), ("driver.cuInit(0)", "4", "4")],
    ids=["unset", "given", "in use", "in use and given"],
)
def test_connections_are_requested_at_import(tmp_path, before, given, expected):
    """A value that the user has set stays. If CUDA already runs, the variable stays unset, because the driver would not read it."""
    code = f"import ctypes, os\ndriver = ctypes.CDLL({str(driver(tmp_path))!r})\n{before}\nimport asyncdali\n"
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_DEVICE_MAX_CONNECTIONS"}
    if given is not None:
        environment["CUDA_DEVICE_MAX_CONNECTIONS"] = given
    report = "print(os.environ.get('CUDA_DEVICE_MAX_CONNECTIONS'))"
    done = subprocess.run([sys.executable, "-c", code + report], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [expected], done.stderr
