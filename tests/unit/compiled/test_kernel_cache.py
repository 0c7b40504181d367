"""The cache of compiled kernels: its folder, the files that it trusts, and when a kernel is compiled again."""

from __future__ import annotations

import collections
import contextlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from helpers.pipelines import run_script
from helpers.places import PROJECT as ROOT
from helpers.warm import run_warm
from numba import config

from asyncdali.__main__ import main
from asyncdali.compiled import cache, kernel_keys, kernel_store, step
from asyncdali.compiled.kernel_keys import kernel_digest, text_of


def made(number):
    def add(value):
        return value + number

    return add


@pytest.fixture
def root(monkeypatch, tmp_path):
    """The cache folder, empty."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_store, "_stores", {})
    monkeypatch.setattr(kernel_store, "_notified", False)
    return tmp_path / "cache"


def kernels(root):
    return sorted((root / "asyncdali" / "kernels").glob("*/*.kernel"))


def hit(variant):
    """Compile or load the kernel of a variant. Returns whether it was loaded."""
    compiled = step.Compiled(made(2), 1, variant)
    assert compiled(1) == 3
    return compiled._keep is None  # Numba has not compiled it


# --- files


def test_one_private_file_per_kernel(root):
    before = os.umask(0)  # the umask removes no permission
    try:
        assert not hit(("one",)) and hit(("one",)) and not hit(("another",))
    finally:
        os.umask(before)
    files = kernels(root)
    assert len(files) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = [files[0].parent, files[0].parent.parent, files[0].parent.parent.parent]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
    assert list(root.rglob("*.new")) == []


def truncated(data, size=30):
    return data[:size]


def one_bit(data):
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


DAMAGE = {
    "empty": lambda data: b"", "cut in the digest": truncated, "cut in the contents": lambda data: data[:-1], "one bit": one_bit,
    "longer": lambda data: data + b"\0", "something else": lambda data: b"\x80\x04N.",
    "another format": lambda data: b"asyncdali kernel 9\n" + data[19:],
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_not_linked_and_replaced(root, monkeypatch, kind):
    assert not hit((kind,))
    (path,) = kernels(root)
    good = path.read_bytes()
    path.write_bytes(DAMAGE[kind](good))
    with monkeypatch.context() as patch:
        patch.setattr(cache, "link", lambda code: pytest.fail("linked"))
        assert not hit((kind,))
    assert hit((kind,)) and path.stat().st_size > 1000


def test_a_file_of_another_kernel_is_not_taken(root):
    """A file with the name of another kernel is not loaded, for example a backup that was restored under a wrong name."""
    hit(("first",))
    (first,) = kernels(root)
    hit(("second",))
    (second,) = set(kernels(root)) - {first}
    shutil.copyfile(first, second)
    assert not hit(("second",)) and hit(("first",))


def test_whole_files_that_cannot_be_loaded_are_replaced(root):
    assert not hit(("contents",))
    (path,) = kernels(root)
    code = path.read_bytes()[51:]
    head, _, file = code.partition(b"\n")
    symbol, needs = json.loads(head)
    wrong = [b"", b"no json", b"\xff\n", b"[1, 2]\n", b"{}", json.dumps([symbol, needs]).encode()]
    wrong += [json.dumps([symbol, [*needs, "no_such_symbol"]]).encode() + b"\n" + file]
    for contents in wrong:
        _write_as(kernel_store.Store(path.parent.parent), contents)
        assert not hit(("contents",)) and hit(("contents",))


def _write_as(store, contents):
    """Replace the file of the kernel by `contents`, with the right key."""
    found = []
    original = kernel_store.Store.load

    def load(self, environment, name, key):
        found.append((environment, name, key))
        return original(self, environment, name, key)

    kernel_store.Store.load = load
    try:
        hit(("contents",))
    finally:
        kernel_store.Store.load = original
    store.save(*found[0], contents)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_files_that_others_can_write_are_not_taken(root, mode):
    assert not hit(("mode",))
    (path,) = kernels(root)
    path.chmod(mode)
    assert not hit(("mode",)) and hit(("mode",))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_other_users_are_not_taken(root):
    assert not hit(("owner",))
    (path,) = kernels(root)
    os.chown(path, 1234, -1)
    assert not hit(("owner",)) and hit(("owner",))


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_only_plain_files_are_read(root, tmp_path, kind):
    assert not hit(("plain",))
    (path,) = kernels(root)
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)  # opening this file would wait forever
    else:
        path.mkdir()
        (path / "file").touch()
    kernel_store._notified = True  # a folder cannot be replaced, so a warning is given
    assert not hit(("plain",))
    assert hit(("plain",)) == (kind != "folder")


# --- folders


@pytest.mark.parametrize("level", ["asyncdali", "asyncdali/kernels"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_refused(root, level, mode):
    (root / "asyncdali" / "kernels").mkdir(parents=True)
    (root / level).chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"{level} can be written by other users") as caught:
        assert not hit(("refused", level, mode))
        assert hit(("refused", level, mode))  # the kernel comes from a temporary folder of this process
    assert len(caught) == 1 and kernels(root) == []
    place = kernel_store._temporary_root()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700 and str(place) in str(caught[0].message)
    with pytest.raises(kernel_store.RefusedFolder, match="chmod go-w"):
        kernel_store.private(root / level)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_another_user_is_refused(root):
    (root / "asyncdali").mkdir(parents=True)
    os.chown(root / "asyncdali", 1234, -1)
    with pytest.warns(RuntimeWarning, match="belongs to user 1234, this process runs as user 0"):
        assert not hit(("foreign",))
    assert kernels(root) == []


COMPILES = """
import os, sys, warnings
warnings.simplefilter("always")
from asyncdali.compiled import cache, step
def add(value):
    return value + 2
compiled = step.Compiled(add, 1, ("here",))
assert compiled(1) == 3
print(int(compiled._keep is None), cache.folder()[0])
"""


def compiles(home, **environment):
    """Run a program that compiles a kernel. Returns (whether the cache had the kernel, the cache folder, the output)."""
    environment = {"HOME": str(home), "NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "", "ASYNCDALI_QUIET": "1", **environment}
    done = run_warm(COMPILES, compiler=True, **environment)
    assert done.returncode == 0, done.stderr
    hits, folder = done.stdout.split()
    return hits == "1", folder, done.stderr


def test_the_users_cache_folder(tmp_path):
    assert compiles(tmp_path) == (False, str(tmp_path / ".cache"), "")
    assert compiles(tmp_path) == (True, str(tmp_path / ".cache"), "")
    assert compiles(tmp_path, XDG_CACHE_HOME=str(tmp_path / "xdg"))[:2] == (False, str(tmp_path / "xdg"))
    assert compiles(tmp_path, XDG_CACHE_HOME="relative")[:2] == (True, str(tmp_path / ".cache"))  # as the XDG specification requires
    assert compiles(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "chosen"))[:2] == (False, str(tmp_path / "chosen"))
    assert stat.S_IMODE((tmp_path / ".cache").stat().st_mode) == 0o700


def test_a_home_that_cannot_be_written(tmp_path):
    for home in ("/proc/none", "/dev/null"):
        cached, folder, said = compiles(home, TMPDIR=str(tmp_path))
        assert not cached and Path(folder).parent == tmp_path and said.count("RuntimeWarning") == 1 and "NUMBA_CACHE_DIR" in said
    assert list(tmp_path.iterdir()) == []  # the process has removed its temporary folder


def test_a_user_without_a_home_folder(monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # no HOME, and a user without an entry in passwd
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(kernel_store.RefusedFolder, match="no home"):
        kernel_store.chosen_root("")


def test_temporary_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True).stdout
    for name in (f"{int(ended)}-abc", f"{os.getppid()}-abc", "notes"):
        (tmp_path / f"asyncdali-kernels-{name}").mkdir()
    kernel_store._remove_abandoned(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_read_only_cache_is_used_and_new_kernels_are_not_kept(root, monkeypatch):
    """Such a cache is part of a container image that was built with compiled kernels."""
    hit(("kept",))

    def read_only(*_args):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(kernel_store.Store, "_write", read_only)
    assert hit(("kept",))
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        assert not hit(("new",))


# --- several processes


def test_several_processes_may_compile_at_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([sys.executable, "-c", COMPILES], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 3, said
    assert len(kernels(tmp_path)) == 1 and not list(tmp_path.rglob("*.new"))


def test_a_forked_child(root):
    assert not hit(("before the fork",))
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if hit(("before the fork",)) and not hit(("in the child",)) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert hit(("in the child",))


def test_another_process_may_clear_the_cache(root):
    assert not hit(("first",))
    shutil.rmtree(root)
    assert not hit(("second",)) and hit(("second",))


# --- keys

MODULES = {
    "operator.py": "from .helpers import double\nfrom .limits import MOST\ndef kernel(value):\n    return min(double(value), MOST)\n",
    "helpers.py": "from asyncdali.compiled.step import inlined\n@inlined\ndef double(value):\n    return value * 2\n",
    "limits.py": "MOST = 100\n",
    "other.py": "def kernel(value):\n    return value + 1\n",
}
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from asyncdali.compiled.step import Compiled
for name in ("operator", "other"):
    module = __import__(f"kernelpackage.{name}", fromlist=["kernel"])
    compiled = Compiled(module.kernel, 1)
    print(compiled(40), int(compiled._keep is None))
"""


class Package:
    """A package of kernels on disk, whose files can be edited."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "kernelpackage").mkdir()
        (folder / "kernelpackage" / "__init__.py").touch()
        for name, text in MODULES.items():
            (folder / "kernelpackage" / name).write_text(text)

    def edit(self, name, old, new, keep_time=False):
        path = self.folder / "kernelpackage" / name
        before = path.stat()
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        if keep_time:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            os.utime(path, (before.st_atime, before.st_mtime + 10))

    def run(self, writes_byte_code=True):
        """Run both kernels in a new process. Returns their results, and whether the cache had them.

        It is a forked child of this process: to import Numba again takes longer than all the rest.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.write(writer, self._results(writes_byte_code).encode())
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        with open(reader) as file:
            said = file.read()
        assert os.waitpid(child, 0)[1] == 0
        return [tuple(map(int, line.split())) for line in said.splitlines()]

    def _results(self, writes_byte_code):
        """Runs in the forked child."""
        os.environ["NUMBA_CACHE_DIR"] = config.CACHE_DIR = str(self.folder / "cache")  # Numba reads changed environment variables again
        kernel_store._stores = {}
        sys.argv, sys.dont_write_bytecode = ["", str(self.folder)], not writes_byte_code
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(RUN, {"__name__": "__main__"})
        return said.getvalue()


@pytest.fixture
def package(tmp_path):
    made = Package(tmp_path)
    assert made.run() == [(80, 0), (41, 0)]
    return made


def test_an_edited_helper_in_another_file(package):
    """Numba's cache checks only the file of the kernel. It would run the old helper."""
    assert package.run() == [(80, 1), (41, 1)]
    package.edit("helpers.py", "value * 2", "value * 3")
    assert package.run() == [(100, 0), (41, 1)]
    package.edit("limits.py", "100", "110")
    assert package.run() == [(110, 0), (41, 1)]
    package.edit("limits.py", "110", "100")
    assert package.run() == [(100, 1), (41, 1)]  # if the edit is undone, the earlier kernels are found


def test_an_edited_kernel_is_compiled_again_and_no_other(package):
    package.edit("other.py", "value + 1", "value + 2")
    assert package.run() == [(80, 1), (42, 0)]


@pytest.mark.parametrize("writes_byte_code", [False, True])
def test_an_edit_that_keeps_size_and_time(package, writes_byte_code):
    """Python runs the old ``.pyc`` after such an edit. Kernels match the code that runs, before and after Python notices the edit."""
    package.edit("helpers.py", "value * 2", "value * 3", keep_time=True)
    first = package.run(writes_byte_code)
    assert [value for value, _ in first] in ([80, 41], [100, 41])
    shutil.rmtree(package.folder / "kernelpackage" / "__pycache__", ignore_errors=True)
    assert [value for value, _ in package.run()] == [100, 41]
    assert package.run() == [(100, 1), (41, 1)]


def test_an_edit_while_a_process_runs(package):
    script = RUN.replace("for name in", "import kernelpackage.operator, pathlib\nexec(sys.argv[2])\nfor name in")
    path = package.folder / "kernelpackage" / "helpers.py"
    edit = f"p = pathlib.Path({str(path)!r}); p.write_text(p.read_text().replace('value * 2', 'value * 3'))"
    shutil.rmtree(package.folder / "cache")
    done = run_warm(script, package.folder, edit, compiler=True, NUMBA_CACHE_DIR=str(package.folder / "cache"))
    assert done.stdout.splitlines()[0] == "80 0", done.stderr  # the process runs the code that it had loaded
    os.utime(path, (time.time() + 10,) * 2)
    assert package.run() == [(100, 0), (41, 1)]


ALL_KEYS = """
import importlib, json, pkgutil, sys
import asyncdali
from asyncdali.compiled import kernel_keys
from asyncdali.compiled.kernel_keys import kernel_digest
from asyncdali.compiled.step import Compiled
found, asked = {}, []
for module in pkgutil.walk_packages(asyncdali.__path__, "asyncdali."):
    if "kernels" in module.name or module.name.startswith(("asyncdali.codecs.", "asyncdali.compiled.", "asyncdali.readers.")):
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            if isinstance(value, Compiled):
                kernel_keys._all_sources = lambda: asked.append(f"{module.name}.{name}") or ()
                found[f"{module.name}.{name}"] = kernel_digest(value._function).hex()
print(json.dumps(found))
print(json.dumps(asked))
"""


@pytest.fixture(scope="module")
def all_keys():
    """(keys of all kernels, kernels that depend on all sources) from two processes with different hash seeds."""
    said = [run_script(ALL_KEYS, PYTHONHASHSEED=seed) for seed in ("1", "2")]
    assert [done.returncode for done in said] == [0, 0], said[0].stderr + said[1].stderr
    return [[json.loads(line) for line in done.stdout.splitlines()] for done in said]


def test_keys_are_the_same_in_every_process(all_keys):
    (first, _), (second, _) = all_keys
    assert len(first) > 40
    assert first == second


def test_no_kernel_of_the_package_depends_on_all_sources(all_keys):
    assert [asked for _, asked in all_keys] == [[], []]


def test_the_digest_sees_constants_options_and_closures():
    digests = {kernel_digest(made(number)) for number in (1, 2, 1.0, True, np.float32(1), np.int64(1), "1", (1,), None)}
    assert len(digests) == 9
    assert kernel_digest(made(1)) == kernel_digest(made(1))
    assert kernel_digest(made(step.inlined(made(1)))) != kernel_digest(made(step.contracted(made(1))))
    assert kernel_digest(made(step.inlined(made(1)))) != kernel_digest(made(step.inlined(made(2))))
    assert len({text_of(variant) for variant in (None, (), (1,), ("1",), (np.float32,), (np.dtype("f4"),), ((1, 2),), (1, 2))}) == 8


WARM = """
import sys
import numpy as np
from asyncdali import fn, types
from asyncdali.compiled import cache
from asyncdali.demo import training_pipeline, _pictures
from helpers.pipelines import pipeline_of

def factories():
    data = fn.external_source(lambda k: [np.full((4, 5, 3), k, np.uint8)] * 3, layout="HWC")
    return fn.cast(fn.flip(data), dtype=types.FLOAT) * 2

missed = []
cache.missed.append(lambda: missed.append(1))
pipeline = training_pipeline(_pictures(None), 2) if sys.argv[1] == "training" else pipeline_of(factories)
pipeline.run()
pipeline.close()
print(len(missed))
"""


@pytest.mark.parametrize("graph", ["factories", pytest.param("training", marks=pytest.mark.slow)])
def test_the_second_process_compiles_nothing(graph, tmp_path):
    """Kernels that factories make are found again, too."""
    missed = []
    for seed in "12":
        done = run_script(WARM, graph, NUMBA_CACHE_DIR=str(tmp_path), PYTHONHASHSEED=seed, ASYNCDALI_COMPILE_AHEAD="0")
        assert done.returncode == 0, done.stderr
        missed.append(int(done.stdout))
    assert missed[0] > 3 and missed[1] == 0


class Opaque:
    """An object whose content is unknown to the digest."""


def test_unknown_values_make_a_kernel_depend_on_all_sources(monkeypatch):
    known, unknown = made((1, [2], {"three": {4}}, np.arange(3))), made(Opaque())
    before = kernel_digest(known), kernel_digest(unknown)
    monkeypatch.setattr(kernel_keys, "_all_sources", lambda: {Path(__file__)})
    assert kernel_digest(known) == before[0] and kernel_digest(unknown) != before[1]


def test_named_tuples_are_constants():
    """Kernels use named tuples as offsets of tables (``at.width``)."""
    at = collections.namedtuple("at", "width height")
    other = collections.namedtuple("at", "height width")
    assert len({kernel_digest(made(value)) for value in (at(0, 8), at(8, 0), other(0, 8))}) == 3


# --- size


def test_the_least_recently_used_kernels_are_removed_first(tmp_path, monkeypatch):
    store = kernel_store.store_in(tmp_path)
    monkeypatch.setattr(kernel_store, "MOST_BYTES", 2500)
    for age, name in enumerate("abcd"):
        store.save("environment", name, b"key", bytes(1000))
        os.utime(store.folder / "environment" / f"{name}.kernel", (time.time() - 86400 * (age + 2),) * 2)
    assert bytes(store.load("environment", "c", b"key")) == bytes(1000)  # this kernel was used last
    store.prune()
    assert sorted(path.stem for path in store.folder.rglob("*.kernel")) == ["a", "c"]
    assert store.usage().files == 2 and 2000 < store.usage().size < 2500 and store.usage().keys == 1


def test_old_keys_and_unfinished_files_are_removed(tmp_path):
    store = kernel_store.store_in(tmp_path)
    store.save("old", "kernel", b"", b"data")
    store.save("new", "kernel", b"", b"data")
    (store.folder / "new" / "killed.new").touch()
    (store.folder / "new" / "written.new").touch()
    os.utime(store.folder / "old" / "kernel.kernel", (time.time() - 86400 * 61,) * 2)
    os.utime(store.folder / "new" / "killed.new", (time.time() - 7200,) * 2)
    other = kernel_store.store_in(tmp_path)
    other.save("new", "another", b"", b"data")  # cleaning runs with the first kernel of a process
    assert [path.name for path in store.folder.iterdir()] == ["new"]
    assert sorted(path.name for path in (store.folder / "new").iterdir()) == ["another.kernel", "kernel.kernel", "written.new"]


def test_files_that_0_1_0_left_in_the_package_are_removed(tmp_path, monkeypatch):
    """The uninstaller does not remove these files. The folder of the package would remain and hide an editable install."""
    (tmp_path / "package/operators/__pycache__").mkdir(parents=True)
    for name in ("a.nbi", "a.1.nbc", "a.pyc"):
        (tmp_path / "package/operators/__pycache__" / name).touch()
    (tmp_path / "package/operators/data.nbi").touch()
    monkeypatch.setattr(kernel_store, "_PACKAGE", tmp_path / "package")
    kernel_store.store_in(tmp_path / "cache").save("environment", "kernel", b"", b"data")
    assert sorted(path.name for path in tmp_path.rglob("*.*") if path.is_file()) == ["a.pyc", "data.nbi", "kernel.kernel"]


# --- the command


def test_the_command(root, capsys):
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith(f"{root}/asyncdali/kernels: 0 kernels, 0.0 MiB, for 0 combinations of versions\n")
    hit(("command",))
    (root / "asyncdali" / "notes").touch()  # a file of another program
    assert main(["cache"]) == 0
    assert "1 kernel, 0.0 MiB, for 1 combination of versions\n" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 kernel, ")
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["notes"]
    (root / "asyncdali" / "notes").unlink()
    assert main(["cache", "--clear"]) == 0 and list(root.iterdir()) == []
    assert not hit(("command",)) and hit(("command",))


def test_the_command_explains_a_refused_folder(root, capsys):
    (root / "asyncdali" / "kernels").mkdir(parents=True)
    (root / "asyncdali").chmod(0o777)
    assert main(["cache"]) == 1
    assert "can be written by other users" in capsys.readouterr().err


# --- nothing in the package


def test_no_file_is_written_into_the_package(tmp_path):
    """A pipeline runs from a copy of the package, as an installer would make it."""
    shutil.copytree(ROOT / "asyncdali", tmp_path / "asyncdali")  # with byte code, as installers write it
    before = set(tmp_path.rglob("*"))
    done = run_script(
        "import sys; sys.path.insert(0, sys.argv[1])\nimport asyncdali\nassert asyncdali.__file__.startswith(sys.argv[1])\n"
        "from asyncdali import fn\nfrom helpers.pipelines import pipeline_of\n"
        "pipeline_of(lambda: fn.constant(idata=[3])).run()",
        tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1", ASYNCDALI_COMPILE_AHEAD="0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {path for path in tmp_path.rglob("*") if tmp_path / "cache" not in (path, *path.parents)} == before
    assert kernels(tmp_path / "cache")
