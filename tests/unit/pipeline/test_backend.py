"""Further modules that programs for DALI import: backend, plugin_manager, sysconfig, triton, scripts, loader_evaluator and others."""

from __future__ import annotations

import importlib.util
import io
import json
import pickle
import struct
import sys
import tarfile
import types as python_types
from pathlib import Path

import numpy as np
import pytest

import asyncdali
from asyncdali import ops, pipeline_def, tensors, types
from asyncdali.compat import backend, internal, plugin_manager, reducers, sysconfig
from asyncdali.graph import dali_pipelines
from asyncdali.plugin import triton
from asyncdali.scripts import rec2idx, tfrecord2idx, wds2idx


def test_tensors_are_the_same_objects():
    for name in ("TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"):
        assert getattr(backend, name) is getattr(asyncdali.backend_impl, name) is getattr(tensors, name)


def test_memory():
    assert backend.ReleaseUnusedMemory() is None
    if not backend.GetCUDADeviceCount():
        for call in (lambda: backend.PreallocateDeviceMemory(1024, 0), lambda: backend.PreallocatePinnedMemory(1024)):
            with pytest.raises(RuntimeError, match="no CUDA driver"):
                call()
    with pytest.raises(ValueError, match="-1 bytes"):
        backend.PreallocatePinnedMemory(-1)


@pytest.mark.parametrize(("name", "default", "bad"), [
    ("DeviceBufferGrowthFactor", 1.1, 5), ("HostBufferGrowthFactor", 1.1, 0.5), ("HostBufferShrinkThreshold", 0.5, 2),
])  # fmt: skip
def test_factors(name, default, bad):
    get, put = getattr(backend, f"Get{name}"), getattr(backend, f"Set{name}")
    assert get() == default
    put(1.0)
    assert get() == 1.0
    put(default)
    with pytest.raises(ValueError, match="must be in"):
        put(bad)


def test_schemas():
    schema = backend.GetSchema("readers__File")
    assert schema is backend.GetSchema("FileReader") is ops.readers.File(file_root=".").schema
    assert backend.GetSchemaAndTarget("FileReader") == (schema, "readers__File")
    assert backend.TryGetSchema("Nothing") is None
    with pytest.raises(KeyError, match="Schema for operator 'Nothing' not registered"):
        backend.GetSchema("Nothing")
    assert "Resize" in backend.RegisteredCPUOps()
    assert "decoders__Image" in backend.RegisteredMixedOps()
    assert set(backend.RegisteredGPUOps()) < set(backend.RegisteredGPUOps(internal_ops=True))
    assert "random__Uniform" in ops.cpu_ops() & ops.gpu_ops()
    assert ops.Reload() is None


def test_objects_of_ops():
    resize = ops.Resize(device="gpu", size=[3, 4], preserve=True)
    assert (resize.device, resize.preserve, resize.schema_name) == ("gpu", True, "Resize")
    assert resize.spec.constants["size"] == [3, 4]
    assert resize.spec.schema is resize.schema
    reader = ops.readers.File(file_root=".")
    assert (reader.device, reader.preserve, reader.schema_name) == ("cpu", False, "readers__File")
    assert ops.random.Uniform.schema_name == "random__Uniform"
    with pytest.warns(DeprecationWarning):
        assert ops.FileReader(file_root=".").schema_name == "FileReader"
    source = ops.ExternalSource(device="gpu", name="fed", dtype=types.FLOAT)
    assert (source.device, source.preserve, source.spec.name) == ("gpu", False, "fed")
    with pytest.raises(AttributeError):
        resize.device = "cpu"


def test_libraries_cannot_be_loaded(tmp_path):
    library = tmp_path / "one" / "libdali_one.so"
    library.parent.mkdir()
    with pytest.raises(RuntimeError, match=r"Failed to load library.*no such file.*python_function"):
        plugin_manager.load_library(str(library))
    assert plugin_manager.load_directory(str(tmp_path)) is None
    assert plugin_manager.load_directory(str(tmp_path / "missing")) is None
    library.write_bytes(b"\x7fELF")
    for call in (plugin_manager.load_library, backend.LoadLibrary):
        with pytest.raises(RuntimeError, match=r"there are no C\+\+ operators.*numba_function.*own_operators"):
            call(library)
    with pytest.raises(RuntimeError, match="no C"):
        plugin_manager.load_directory(str(tmp_path))
    backend.LoadLibrary(str(library), allow_fail=True)
    with pytest.raises(TypeError):
        plugin_manager.load_library(None)


@pytest.mark.parametrize("name", ["get_include_dir", "get_lib_dir", "get_include_flags", "get_compile_flags", "get_link_flags"])
def test_sysconfig(name):
    with pytest.raises(RuntimeError, match=r"there are no C\+\+ operators"):
        getattr(sysconfig, name)()


def test_submodules():
    root = python_types.ModuleType("own_root")
    made = internal.get_submodule(root, "a.b")
    assert sys.modules["own_root.a.b"] is made is root.a.b
    assert internal.get_submodule(root, ["a", "b"]) is made
    assert internal.get_submodule(root, "") is root
    root.a.number = 3
    with pytest.raises(RuntimeError, match="a module is expected"):
        internal.get_submodule(root, "a.number")
    with pytest.raises(KeyError):
        internal.get_submodule("no_such_root", "a")
    for name in ("own_root.a", "own_root.a.b"):
        del sys.modules[name]


def test_pickling_by_value():
    factor = 3
    assert pickle.loads(reducers.DaliCallbackPickler.dumps(lambda x: x * factor))(5) == 15


def test_dlpack_of_callbacks():
    from asyncdali.compat import python_function_plugin as plugin

    array = np.arange(6).reshape(2, 3)
    view = plugin.DLTensorToArray(plugin.ArrayToDLTensor(array))
    array[0, 0] = 9
    assert view[0, 0] == 9
    assert np.shares_memory(np.from_dlpack(plugin.DLTensorObj(array)), array)
    assert plugin.current_dali_stream() == 0 or "cupy" in sys.modules


def test_triton(tmp_path):
    @triton.autoserialize
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def served():
        return asyncdali.fn.external_source(name="data")

    assert served._is_autoserialize
    with pytest.raises(TypeError, match="pipeline_def"):
        triton.autoserialize(lambda: 0)
    module = python_types.ModuleType("own_model")
    with pytest.raises(RuntimeError, match="Precisely one"):
        triton.write_marked(module, str(tmp_path / "model"))
    module.served = module.again = served
    triton.write_marked(module, str(tmp_path / "model"))
    pipe = asyncdali.Pipeline.deserialize(filename=str(tmp_path / "model"))
    assert pipe.max_batch_size == 2
    assert dali_pipelines.is_pipeline((tmp_path / "model").read_bytes())


# ---------------------------------------------------------------------------------------------------------------------- scripts


def framed(payload):
    return struct.pack("<Q", len(payload)) + b"cccc" + payload + b"cccc"


def test_tfrecord2idx(tmp_path, capsys):
    data, index = tmp_path / "data", tmp_path / "index"
    data.write_bytes(framed(b"abc") + framed(b"") + framed(b"wxyz")[:-3])
    assert tfrecord2idx.main([str(data), str(index), "ignored"]) == 0
    assert index.read_text() == "0 19\n19 16\n35 17\n"
    data.write_bytes(b"1234")
    tfrecord2idx.main([str(data), str(index)])
    assert (index.read_text(), capsys.readouterr().out) == ("", "Not a valid TFRecord file\n")
    assert tfrecord2idx.main([]) == 0
    with pytest.raises(FileNotFoundError):
        tfrecord2idx.main([str(tmp_path / "none"), str(tmp_path / "other")])
    assert not (tmp_path / "other").exists()


def test_rec2idx(tmp_path):
    def part(flag, payload):
        return struct.pack("<II", 0xCED7230A, flag << 29 | len(payload)) + payload + b"\0" * (-len(payload) % 4)

    data, index = tmp_path / "data", tmp_path / "index"
    data.write_bytes(part(0, b"abc") + part(1, b"x") + part(2, b"y") + part(3, b"z") + part(0, b"12345"))
    assert rec2idx.main([str(data), str(index)]) == 0
    assert index.read_text() == "0\t0\n1\t12\n2\t48\n"
    data.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="at byte 0"):
        rec2idx.main([str(data), str(index)])


def archive(path, names):
    with tarfile.open(path, "w") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))


def test_wds2idx(tmp_path):
    path = tmp_path / "set.a.tar"
    archive(path, ["d/a.jpg", "d/a.cls.txt", "d/.hidden", "b.jpg", "d/a.png"])
    assert wds2idx.main([str(path)]) == 0
    assert (tmp_path / "set.idx").read_text() == (
        "v1.2 3\njpg 512 7 d/a.jpg cls.txt 1536 11 d/a.cls.txt\njpg 3584 5 b.jpg\npng 4608 7 d/a.png\n"
    )
    assert wds2idx.default_index("x/a.b.tar") == "x/a.idx"
    archive(path, [])
    with wds2idx.IndexCreator(str(path), str(tmp_path / "i"), verbose=False) as creator, pytest.raises(ValueError, match="Tar File empty"):
        creator.create_index()


# ------------------------------------------------------------------------------------------------------------- loader evaluator


@pytest.fixture
def evaluator():
    """The evaluator's class. The module can be imported without torch."""
    path = Path(asyncdali.__file__).parent / "plugin" / "pytorch" / "loader_evaluator" / "loader.py"
    spec = importlib.util.spec_from_file_location("own_loader_evaluator", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LoaderEvaluator


def test_loader_evaluator(evaluator, tmp_path, capsys):
    logged = evaluator([1, 2, 3], metrics_file=str(tmp_path / "m.json"))
    assert logged.get_metrics() == {}
    assert (list(logged), len(logged)) == ([1, 2, 3], 3)
    logged.save_metrics()
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert (metrics["mode"], metrics["total_batches"], metrics["cached_batches"]) == ("log", 3, 0)
    replayed = evaluator([1, 2, 3, 4, 5], mode="replay", num_cached_batches=2)
    assert list(replayed) == list(replayed) == [4, 5, 4, 5, 4]
    replayed.print_summary()
    assert "5 batches" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="so no batch can be replayed"):
        list(evaluator([], mode="replay"))
