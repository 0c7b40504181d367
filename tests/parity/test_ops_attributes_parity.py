"""Every attribute of DALI's ``ops`` objects exists here, or is refused with an alternative."""

from __future__ import annotations

import types

import pytest

from asyncdali import ops, tfrecord

dali_ops = pytest.importorskip("nvidia.dali.ops")


def classes(module, path=""):
    for name in sorted(dir(module)):
        found = getattr(module, name)
        if isinstance(found, type) and hasattr(found, "schema_name") and not name.startswith("_"):
            yield path + name, found
        elif isinstance(found, types.ModuleType) and found.__name__ == f"{module.__name__}.{name}" and name != "hidden" and name[0] != "_":
            yield from classes(found, f"{path}{name}.")


CLASSES = dict(classes(dali_ops))
GIVEN = {name: {"function": abs} for name in ("PythonFunction", "DLTensorPythonFunction", "plugin.pytorch.TorchPythonFunction")}
_RECORDS = {"path": "x", "index_path": "x", "features": {"a": tfrecord.FixedLenFeature((), tfrecord.int64, 0)}}
NEEDS = {
    "ElementExtract": {"element_map": [0]}, "TFRecordReader": _RECORDS, "readers.TFRecord": _RECORDS,
    "readers.Webdataset": {"paths": "x", "ext": ["jpg"]},
}  # fmt: skip
"""Constructors that need arguments, with arguments for ours. For DALI the class suffices."""


def test_classes_are_found():
    assert len(CLASSES) > 150


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CLASSES)
def test_attributes(name):
    ours = ops
    for part in name.split("."):
        ours = getattr(ours, part)
    given = GIVEN.get(name, {})
    if name in NEEDS:
        theirs, made = CLASSES[name], ours(**NEEDS[name])
    else:
        theirs, made = CLASSES[name](**given), ours(**given)
    for attribute in dir(theirs):
        try:
            getattr(made, attribute)
        except AttributeError as error:
            assert "is not in asyncdali: " in str(error), attribute
