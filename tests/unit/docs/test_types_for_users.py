"""Type checkers of users accept the examples, infer what calls return, and find wrong choices."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from helpers.places import PROJECT as ROOT

from docs.site import tutorials

FRAMEWORKS = {"jax_loop": "jax", "jax_train": "jax"}
"""Programs whose decorators belong to a framework: they are untyped without it."""
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if importlib.util.find_spec(FRAMEWORKS.get(path.stem, "sys")))

PROGRAM = """
from __future__ import annotations

from asyncdali import DataNode, Pipeline, fn, pipeline_def, types


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def training(data: str) -> tuple[DataNode, DataNode]:
    jpegs, labels = fn.readers.file(file_root=data)
    one: DataNode = fn.external_source(len)
    several: list[DataNode] = fn.external_source(len, num_outputs=2)
    images: DataNode = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.crop(images, crop=[2, 2], rounding="truncate")
    resized: DataNode = fn.resize(images, size=[2, 2])
    both: list[DataNode] = fn.resize(images, size=[2, 2], save_attrs=True)
    bytes_of, boxes, classes = fn.readers.coco(file_root=data, annotations_file="a.json")
    coco: DataNode = bytes_of + boxes + classes
    encoded: DataNode = fn.readers.caffe(path=data, label_available=False)
    pair: list[DataNode] = fn.readers.caffe2(path=data)
    spoken: list[DataNode] = fn.readers.nemo_asr(manifest_filepaths=["a"], read_sample_rate=False)
    frames: DataNode = fn.readers.video(sequence_length=2, filenames=[data])
    labelled: list[DataNode] = fn.readers.video_resize(sequence_length=2, filenames=[data], labels=[1])
    member: DataNode = fn.readers.webdataset(paths=data, ext="jpg")
    members: list[DataNode] = fn.readers.webdataset(paths=data, ext=("jpg", "cls"))
    features: dict[str, DataNode] = fn.readers.tfrecord(path=data, features={})
    changed: DataNode = fn.python_function(coco, function=len)
    halves: list[DataNode] = fn.python_function(changed, encoded, function=len, num_outputs=2)
    first: DataNode = fn.element_extract(frames, element_map=0)
    anchors: list[DataNode] = fn.segmentation.random_object_bbox(first)
    box: DataNode = fn.segmentation.random_object_bbox(member, format="box")
    several += [*pair, *spoken, *labelled, *members, *halves, *anchors, *features.values(), box]
    mixed: DataNode = 2 * images + one[0] - several[1] / 3 // -abs(one)
    chosen: DataNode = (mixed > 1) & (mixed != one)
    return fn.rotate(mixed, angle=fn.random.uniform(range=(-1.0, 1.0)), fill_value=0.5), chosen


pipe: Pipeline = training("data", seed=3)
"""
WRONG = [
    ('device="mixed"', 'device="gpx"'), ('rounding="truncate"', 'rounding="floor"'), ("(len, num_outputs=2", "(len, batch=False"),
    ("fill_value=0.5", "fill_values=0.5"), ("size=[2, 2], save_attrs=True", "size=[2, 2]"),
    ("output_type=types.RGB", 'output_type="RGB"'), ("path=data, label_available=False", "path=data"),
    ('ext="jpg"', 'ext=("jpg", "cls")'), ("function=len, num_outputs=2", "function=len"), (", labels=[1]", ""),
    ('member, format="box"', "member"),
]  # fmt: skip
"""Text of PROGRAM, and a mistake in its place."""


def mypy(folder, cache, *files):
    """The output of mypy's strict mode, without what it says about asyncdali itself: users have the package in site-packages."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--ignore-missing-imports", "--follow-imports", "silent"]
    return subprocess.run(
        [*command, "--cache-dir", str(cache), *map(str, files)], cwd=folder, capture_output=True, text=True, timeout=500, check=False,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip


def of_tutorials() -> dict[str, str]:
    """The programs of the tutorials, by name of a module."""
    found = {}
    for path in tutorials.files():
        for name, text in tutorials.programs(path.read_text()).items():
            found[f"{path.stem}_{name.removesuffix('.py')}"] = text
    return found


def pyright(folder, **programs):
    """The result of pyright for a folder with these programs. basedpyright is pyright in a wheel that needs no network."""
    checker = next((name for name in ("basedpyright", "pyright") if importlib.util.find_spec(name) is not None), None)
    if checker is None:
        pytest.skip("neither basedpyright nor pyright is installed")
    folder.mkdir()
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    settings = {"extraPaths": [str(ROOT)], "reportMissingImports": False, "reportMissingModuleSource": False}
    settings["typeCheckingMode"] = "standard"
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", checker, "--pythonpath", sys.executable, "--project", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.slow  # 20 s of a processor
def test_mypy_accepts_the_examples(tmp_path, cache):
    done = mypy(tmp_path, cache, *EXAMPLES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_mypy_accepts_the_tutorials(tmp_path, cache):
    programs = {name: text for name, text in of_tutorials().items() if importlib.util.find_spec(FRAMEWORKS.get(name, "sys"))}
    assert len(programs) >= 10
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text)
    # torch's own `backward` has no types.
    done = mypy(tmp_path, cache, "--allow-untyped-calls", *(f"{name}.py" for name in programs))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_mypy_knows_results_and_finds_mistakes(tmp_path, cache):
    (tmp_path / "right.py").write_text(PROGRAM)
    done = mypy(tmp_path, cache, "right.py")
    assert done.returncode == 0, done.stdout + done.stderr
    for number, (right, wrong) in enumerate(WRONG):
        assert PROGRAM.count(right) == 1
        (tmp_path / f"wrong{number}.py").write_text(PROGRAM.replace(right, wrong))
    done = mypy(tmp_path, cache, *sorted(tmp_path.glob("wrong*.py")))
    assert all(f"wrong{number}.py:" in done.stdout for number in range(len(WRONG))), done.stdout


@pytest.mark.slow
def test_pyright_accepts_examples_and_tutorials_and_finds_mistakes(tmp_path):
    done = pyright(tmp_path / "right", program=PROGRAM, **{path.stem: path.read_text() for path in EXAMPLES})
    assert done.returncode == 0 and "0 errors" in done.stdout, done.stdout + done.stderr
    done = pyright(tmp_path / "tutorials", **of_tutorials())
    assert done.returncode == 0 and "0 errors" in done.stdout, done.stdout + done.stderr
    programs = {f"wrong{number}": PROGRAM.replace(*pair) for number, pair in enumerate(WRONG)}
    done = pyright(tmp_path / "wrong", **programs)
    assert all(f"{name}.py:" in done.stdout for name in programs), done.stdout
