"""Every public name of DALI 2.4 exists at the same place, or its error names an alternative.

``dali_names.json`` is recorded by ``helpers/dali_names.py``. Modules of frameworks that are not installed are read as text.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import re
import sys
import warnings
from pathlib import Path

import pytest
from helpers.dali_names import names_in_text
from helpers.places import TESTS

import asyncdali

RECORDED = json.loads((TESTS / "helpers" / "dali_names.json").read_text())
FRAMEWORKS = {"plugin.pytorch": "torch", "plugin.jax": "jax", "plugin.tf": "tensorflow", "plugin.paddle": "paddle"}
ABSENT = {
    "backend": {
        "CheckDLPackCapsule", "ExternalContextCheckpoint", "GetCUDAStreamDevice", "Pipeline", "PipelineDebug", "SharedMem", "Stream",
        "cuda_checked",
    },
    "backend_impl": {
        "CheckDLPackCapsule", "ExternalContextCheckpoint", "GetCUDAStreamDevice", "Pipeline", "PipelineDebug", "SharedMem", "Stream",
    },
    "data_node": {"not_iterable"},
    "ops": {"python_op_factory", "register_cpu_op", "register_gpu_op"},
    "pipeline": {"WorkerPool"},
    "plugin.jax.iterator": {"default_num_threads_value"},
    "plugin.numba": {"Pipeline", "address_as_void_pointer", "minimal_numba_version"},
    "reducers": {
        "cell_reducer", "cell_unpickle", "function_by_value_reducer", "function_unpickle", "get_global_references_from_nested_code",
        "module_reducer", "module_unpickle", "set_cell_state", "set_funcion_state",
    },
    "tensors": {"PipelineBatchAdapter", "PipelineTensorAdapter", "format_batch", "format_tensor"},
    "types": {"dali_type_converters"},
}  # fmt: skip
"""Internal names of DALI (C++ objects, helpers of its own modules). They raise the documented AttributeError."""

ELSEWHERE = ("experimental",)
"""tests/unit/vision/test_vision.py compares names of ``experimental.torchvision``, tests/unit/dynamic those of ``experimental.dynamic``."""


def is_elsewhere(module):
    return module.partition(".")[0] in ELSEWHERE


def framework_of(module):
    return next((package for prefix, package in FRAMEWORKS.items() if module == prefix or module.startswith(f"{prefix}.")), None)


def file_of(module):
    base = Path(asyncdali.__path__[0]).joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def found(module, name):
    """The attribute of a module, or its submodule of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        holder = importlib.import_module(f"asyncdali.{module}".rstrip("."))
        try:
            return getattr(holder, name)
        except AttributeError:
            if not hasattr(holder, "__path__") or importlib.util.find_spec(f"{holder.__name__}.{name}") is None:
                raise
            return importlib.import_module(f"{holder.__name__}.{name}")


@pytest.mark.parametrize("module", [name for name in RECORDED if not is_elsewhere(name)])
def test_public_names(module):
    package = framework_of(module)
    if package is not None and importlib.util.find_spec(package) is None:
        path = file_of(module)
        text = path.read_text()
        defined = set(names_in_text(path, "asyncdali"))
        missing = [name for name in RECORDED[module] if name not in defined and f'"{name}"' not in text]
        assert not missing
        return
    absent = ABSENT.get(module, set())
    for name in RECORDED[module]:
        if is_elsewhere(name) and not module:
            continue
        try:
            found(module, name)
        except (AttributeError, ModuleNotFoundError) as error:
            assert name in absent, (name, error)
            assert f"{name} is not in asyncdali: " in str(error)
            assert any(word in str(error) for word in ("use ", "see ", "give ", "Write "))
        else:
            assert name not in absent, f"{name} is here: take it off the list"


def test_modules_after_a_plain_import():
    """As in DALI, these modules are attributes of the package. `plugin`, `experimental` and `auto_aug` need a separate import."""
    from helpers.pipelines import run_script

    done = run_script("""
        import sys
        import asyncdali as dali
        for name in ("backend", "backend_impl", "reducers", "internal", "python_function_plugin", "pickling", "external_source",
                     "plugin_manager", "sysconfig", "fn", "ops", "types", "math", "pipeline", "tensors", "tfrecord", "data_node"):
            assert getattr(dali, name).__name__ == f"asyncdali.{name}", name
        assert dali.pipeline.experimental.pipeline_def is dali.pipeline_def
        assert not hasattr(dali, "auto_aug")
        import asyncdali.backend_impl.types
        from asyncdali.backend_impl.tfrecord import FixedLenFeature
        print("fine")
    """)
    assert done.stdout.strip() == "fine", done.stderr


@pytest.mark.parametrize(("plugin", "package", "extra"), [("pytorch", "torch", "torch"), ("jax", "jax", "jax"), ("tf", "tensorflow", "tf")])
def test_a_missing_framework_names_its_extra(plugin, package, extra):
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(ModuleNotFoundError, match=rf"asyncdali\.plugin\.{plugin} needs {package}.*pip install asyncdali\[{extra}\]"):
        importlib.import_module(f"asyncdali.plugin.{plugin}")


def test_all_extras():
    """``asyncdali[all]`` has every extra that runs on any machine. The metadata that pip reads has the same list."""
    text = (TESTS.parent / "pyproject.toml").read_text()
    line = next(line for line in text.splitlines() if line.startswith("all = "))
    assert "asyncdali[audio,video,remote]" in line
    told = importlib.metadata.metadata("asyncdali")
    extras = set(told.get_all("Provides-Extra"))
    assert {"all", "audio", "video", "remote", "torch", "jax", "tf", "cuda12", "cuda13", "numba-cuda12", "numba-cuda13"} <= extras
    everything = [line for line in told.get_all("Requires-Dist") if line.endswith('extra == "all"')]
    assert everything and all("asyncdali[audio,remote,video]" in line or "asyncdali[audio,video,remote]" in line for line in everything)


def test_extras_that_messages_name_exist():
    """Every ``asyncdali[...]`` in the sources is an extra of the package."""
    sources = [path.read_text() for path in Path(asyncdali.__path__[0]).rglob("*.py")]
    named = {extra for text in sources for extra in re.findall(r"asyncdali\[([a-z0-9,-]+)\]", text)}
    assert named and named <= set(importlib.metadata.metadata("asyncdali").get_all("Provides-Extra"))


@pytest.mark.parametrize(
    ("module", "call", "extra"), [
        ("av", "asyncdali.codecs.video.video_index.load_av()", "video"),
        ("fsspec", "asyncdali.readers.remote.remote._filesystem('s3://bucket/key')", "remote"),
        ("soundfile", "asyncdali.codecs.audio.audio_formats._other(None, 'a file of Opus')", "audio"),
    ],
)  # fmt: skip
def test_a_missing_library_names_its_extra(module, call, extra, monkeypatch):
    import asyncdali.codecs.audio.audio_formats
    import asyncdali.codecs.video.video_index
    import asyncdali.readers.remote.remote  # noqa: F401

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises((RuntimeError, ValueError), match=rf"pip install asyncdali\[{extra}\]"):
        eval(call)


def test_experimental_has_no_other_names():
    with pytest.raises(AttributeError, match="has no attribute 'dynamics'"):
        asyncdali.experimental.dynamics  # noqa: B018
