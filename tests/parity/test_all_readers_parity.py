"""Every reader beside DALI's: outputs, origins of samples, order over epochs, metadata, resumed positions and refusals."""

from __future__ import annotations

import json
import shutil
import warnings
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers import containers
from helpers.readers import COUNT, KINDS, delivered, pipeline
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("nvidia.dali", reason="parity with DALI needs DALI")

import nvidia.dali as dali

import asyncdali
import asyncdali.tfrecord

LIBRARIES = (asyncdali, dali)
FOREIGN = Path(__file__).resolve().parent.parent / "helpers/reader_files"
ORDERS = st.fixed_dictionaries(
    {"shards": st.tuples(st.integers(1, 6), st.integers(0, 5))},
    optional={"pad_last_batch": st.booleans(), "stick_to_shard": st.booleans(), "random_shuffle": st.booleans(),
              "initial_fill": st.integers(1, 12), "shuffle_after_epoch": st.booleans(), "prefetch_queue_depth": st.integers(1, 2)},
)  # fmt: skip
SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@pytest.fixture(scope="module", params=sorted(name for name, kind in KINDS.items() if kind.in_dali))
def data(request, tmp_path_factory):
    kind = KINDS[request.param]
    return kind, kind.write(tmp_path_factory.mktemp(kind.name.replace(".", "_")))


def ordered(kind, files, order):
    arguments = {**files, **order}
    shards, shard = arguments.pop("shards")
    if not kind.after_epoch:
        arguments.pop("shuffle_after_epoch", None)
    return {**arguments, "num_shards": shards, "shard_id": shard % shards}


def columns(outputs):
    """All visible properties of some outputs."""
    seen = []
    for column in outputs:
        info = [column[k].source_info() for k in range(len(column))]
        seen.append((int(column.dtype), column.layout(), [np.asarray(column[k]).tolist() for k in range(len(column))], info))
    return seen


def outcome(make, runs=3):
    """The results of some runs of the pipeline that `make()` returns, or the type of the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipe = make()
            pipe.build()
            return [columns(pipe.run()) for _ in range(runs)]
        except Exception as error:
            return type(error)


def same(ours, theirs):
    if isinstance(theirs, type):
        assert isinstance(ours, type), (ours, theirs)
        return
    assert not isinstance(ours, type), (ours, theirs)
    for our_run, their_run in zip(ours, theirs, strict=True):
        for our_column, their_column in zip(our_run, their_run, strict=True):
            assert our_column[:3] == their_column[:3]
            # Where DALI gives no origin (labels of some readers), asyncdali still does.
            told = [(mine, info) for mine, info in zip(our_column[3], their_column[3], strict=True) if info]
            assert all(mine == info for mine, info in told), told


def test_outputs(data):
    kind, files = data
    ours, theirs = (outcome(partial(pipeline, kind, files, lib), 4) for lib in LIBRARIES)
    assert not isinstance(theirs, type)
    same(ours, theirs)


@settings(max_examples=25, **SETTINGS)
@given(order=ORDERS, batch=st.integers(1, 7))
def test_orders(data, order, batch):
    kind, files = data
    arguments = ordered(kind, files, order)
    streams = []
    for lib in LIBRARIES:
        try:
            pipe = pipeline(kind, arguments, lib, batch)
            streams.append((pipe.reader_meta("R"), pipe.epoch_size("R"), delivered(kind, pipe, 9)))
        except Exception:
            streams.append("refused")
    assert streams[0] == streams[1]


@settings(max_examples=12, **SETTINGS)
@given(order=ORDERS, batch=st.integers(1, 7), steps=st.integers(0, 9))
def test_resumed_orders(data, order, batch, steps):
    """Both libraries are saved and resumed after the same batch. Their next batches are equal."""
    kind, files = data
    arguments = ordered(kind, files, order)
    streams = []
    for lib in LIBRARIES:
        try:
            first = pipeline(kind, arguments, lib, batch, enable_checkpointing=True)
        except Exception:
            streams.append("refused")
            continue
        delivered(kind, first, steps)
        second = pipeline(kind, arguments, lib, batch, enable_checkpointing=True, checkpoint=first.checkpoint())
        streams.append(delivered(kind, second, 5))
    assert streams[0] == streams[1]


def graph(lib, make, batch=4):
    """A pipeline of the outputs that `make` returns for the library: a node, a list or a dictionary of nodes."""
    pipe = lib.Pipeline(batch_size=batch, num_threads=2, device_id=None, seed=1)
    with pipe:
        made = make(lib)
        made = list(made.values()) if isinstance(made, dict) else list(made) if isinstance(made, (list, tuple)) else [made]
        pipe.set_outputs(*made)
    return pipe


def compare(make, batch=4, runs=3):
    ours, theirs = (outcome(partial(graph, lib, make, batch), runs) for lib in LIBRARIES)
    same(ours, theirs)
    return theirs


# --- tfrecord


def tfrecord(path, features, **arguments):
    """A function that makes the reader for a library. `features` is Python text in which `t` is the library's module of features."""


    def make(lib):
        declared = eval(features, {"t": lib.tfrecord})
        return lib.fn.readers.tfrecord(path=path, index_path=f"{path}.idx", features=declared, **arguments)

    return make


@pytest.mark.parametrize(
    "features",
    ['{"image": t.FixedLenFeature((), t.string, "")}', '{"image": t.FixedLenFeature([1], t.string, "")}',
     '{"label": t.VarLenFeature(t.int64, 0), "image": t.FixedLenFeature((), t.string, "")}',
     '{"box": t.VarLenFeature([4], t.float32, 0.0)}', '{"box": t.VarLenFeature([2, 2], t.float32, 0.0)}',
     '{"box": t.VarLenFeature([3], t.float32, 0.0)}',
     '{"box": t.FixedLenFeature([2], t.float32, 0.0)}', '{"image": t.VarLenFeature(t.string, "")}',
     '{"image": t.FixedLenFeature([2], t.string, "")}', '{}'],
)  # fmt: skip
def test_tfrecord_features(tmp_path, features):
    """The file comes from TensorFlow's own writer. Every record has all features."""
    path = str(tmp_path / "data")
    shutil.copy(FOREIGN / "tensorflow.tfrecord", path)
    Path(f"{path}.idx").write_text("0 148\n148 107\n255 78\n")
    compare(tfrecord(path, features), 3)


@pytest.mark.parametrize("index", ["0 148\n255 78", "148 107\n0 148\n148 107", "0 149\n", "", "1 20\n", "0 5\n"])
def test_tfrecord_indices(tmp_path, index):
    path = str(tmp_path / "data")
    shutil.copy(FOREIGN / "tensorflow.tfrecord", path)
    Path(f"{path}.idx").write_text(index)
    compare(tfrecord(path, '{"image": t.FixedLenFeature((), t.string, "")}'), 2)


def test_both_libraries_write_the_same_tfrecord_index(tmp_path):
    """The index of our script equals that of DALI's script."""
    import subprocess
    import sys

    path = str(tmp_path / "data")
    shutil.copy(FOREIGN / "tensorflow.tfrecord", path)
    script = Path(sys.executable).parent / "tfrecord2idx"
    if not script.exists():
        pytest.skip("DALI's script is not installed")
    subprocess.run([sys.executable, str(script), path, f"{path}.theirs"], check=True, timeout=300)
    assert asyncdali_main(["tfrecord2idx", path, f"{path}.ours"]) == 0
    assert Path(f"{path}.ours").read_text().split() == Path(f"{path}.theirs").read_text().split()


def asyncdali_main(arguments):
    from asyncdali.__main__ import main

    return main(arguments)


def test_containers_helper_writes_what_tensorflow_writes(tmp_path):
    """Our own test writer agrees with TensorFlow's file, so other tests may use it."""
    data = (FOREIGN / "tensorflow.tfrecord").read_bytes()
    payload = data[12 : 148 - 4]
    assert containers.frame(payload) == data[:148]
    assert COUNT == 10


# --- caffe, caffe2: databases written by LMDB itself

PICTURE = np.arange(24, dtype=np.uint8)
DATUM = containers.datum
RECORDS = {
    "encoded": [DATUM(b"a", 1), DATUM(b"bb" * 3000, -2, encoded=True), DATUM(b"", 3)],
    "unlabelled": [DATUM(b"a"), DATUM(b"bb", 2), DATUM(b"c")],
    "raw": [DATUM(bytes(24), 1, (2, 3, 4), False), DATUM(PICTURE[:6].tobytes(), 2, (1, 2, 3), False), DATUM(bytes(1), 2, (1, 1, 1), False)],
    "wrong size": [DATUM(PICTURE.tobytes(), 1, (2, 3, 5), False)] * 3,
    "mixed": [DATUM(PICTURE.tobytes(), 1, (2, 3, 4), False), DATUM(b"x", 1), DATUM(b"x", 1)],
    "broken": [b"\xff\xff\xff"] * 3,
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("arguments", [{}, {"image_available": False}, {"label_available": False}], ids=str)
def test_caffe(tmp_path, name, arguments):
    path = containers.write_lmdb(tmp_path / "db", RECORDS[name], [b"k3", b"k1", b"k2"])
    compare(lambda lib: lib.fn.readers.caffe(path=path, **arguments), 3)


T = containers.tensors
TENSORS = [
    ({}, [T(b"one", np.int32([5])), T(b"", np.int32([-6]))]),
    ({}, [T(b"one", np.float32([0.5]))] * 2), ({}, [T(b"one", np.int64([5]))] * 2),
    ({}, [T(PICTURE.reshape(2, 4, 3), np.int32([1])), T(PICTURE.reshape(6, 4), np.int32([1]))]), ({}, [T(b"x", np.int32([1, 2]))] * 2),
    ({}, [T(b"x")] * 2), ({"label_type": 4}, [T(b"x"), T(b"yy")]),
    ({"label_type": 2}, [T(b"x", np.int32([1, 2, 3])), T(b"yy", np.int32([]))]),
    ({"label_type": 2, "image_available": False}, [T(np.float32([1, 2, 3])), T(np.float32([4]))]),
    ({"additional_inputs": 2}, [T(b"x", np.int32([1]), np.int64([2**40]), np.float32([1, 2]))] * 2),
    ({"bbox": True}, [T(b"x", np.int32([1]), np.int32([1, 2, 3, -4]))] * 2),
    ({"bbox": True, "additional_inputs": 1, "label_type": 4}, [T(b"x", np.int32([9]), np.int32([1, 2, 3, -4]))] * 2),
    ({"bbox": True}, [T(b"x", np.int32([1]))] * 2), ({}, [b"\xff\xff"] * 2),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(TENSORS)))
def test_caffe2(tmp_path, case):
    arguments, records = TENSORS[case]
    path = containers.write_lmdb(tmp_path / "db", records)
    compare(lambda lib: lib.fn.readers.caffe2(path=path, **arguments), 2)


# --- webdataset


def webdataset(paths, ext, **arguments):
    return lambda lib: lib.fn.readers.webdataset(paths=paths, ext=ext, **arguments)


GROUPS = [
    ("a.x", b"1"), ("a.y", b"22"), ("b.x", b"333"), ("b.left.y", b"4444"), ("dir/b.Y", b"5"), ("dir/b.x", b"66"), ("a.x", b"again"),
    ("noext", b"77"), ("c.d.e.x", b"8"), ("dir.with.dots/z.x", b"99"), ("dir.with.dots/z.y", b""), ("z.x.", b"last"),
]  # fmt: skip


EXTENSIONS = [["x"], ["x", "y"], "x;y", ["y;left.y", "x"], ["Y", "x"], ["nothing"], ["noext", "x"], ["x", "x"], ["d.e.x"], []]


@pytest.mark.parametrize("ext", EXTENSIONS, ids=str)
@pytest.mark.parametrize("behavior", [None, "Skip", "error", "empty", "what"])
def test_webdataset_grouping(tmp_path, ext, behavior):
    if behavior == "Skip" and ext == ["x", "x"]:
        return  # DALI skips everything then
    path = containers.write_tar(tmp_path / "a.tar", GROUPS)
    arguments = {} if behavior is None else {"missing_component_behavior": behavior}
    compare(webdataset(path, ext, **arguments), 5)
    compare(webdataset(path, ext, case_sensitive_extensions=False, **arguments), 5)


@pytest.mark.parametrize("index", [True, False])
def test_an_archive_of_webdatasets_own_writer(tmp_path, index):
    """Archives with pax headers, which DALI reads only with its script's index."""
    from asyncdali.readers.webdataset.webdataset_index import make_index

    path = str(FOREIGN / "webdataset.tar")
    make_index(path, str(tmp_path / "index"))
    arguments = {"index_paths": str(tmp_path / "index")} if index else {}
    compare(webdataset(path, ["txt", "bin", "cls"], **arguments), 4)


@pytest.mark.parametrize("format", [0, 1])
def test_webdataset_long_names(tmp_path, format):
    """ustar prefixes, GNU long names."""
    names = ["/".join(["folder" * 3] * 5) + "/file", "n" * 90, *(["m" * 300, "/".join(["q" * 60] * 9)] if format else [])]
    path = containers.write_tar(tmp_path / "a.tar", [(f"{name}.{ext}", name.encode()) for name in names for ext in "xy"], format)
    compare(webdataset(path, ["x", "y"]), len(names))


@pytest.mark.parametrize("dtypes", [["float"], ["int16", "uint8"], ["uint64", "float64"], ["float16", "int32"], ["bool", "uint8"]], ids=str)
def test_webdataset_types(tmp_path, dtypes):
    path = containers.write_tar(tmp_path / "a.tar", [(f"{k}.{ext}", bytes(range(8 * k))) for k in range(1, 4) for ext in "xy"])

    def make(lib):
        kinds = {"float": "FLOAT", "float64": "FLOAT64", "float16": "FLOAT16", "bool": "BOOL"}
        chosen = [getattr(lib.types, kinds.get(name, name.upper())) for name in dtypes]
        return lib.fn.readers.webdataset(paths=path, ext=["x", "y"], dtypes=chosen)

    compare(make, 3)


@pytest.mark.parametrize(
    "text", ["v1.2 2\nx 512 1 a.x y 1536 2 a.y\nx 2560 3 b.x\n", "v1.1 1\nx 512 1\nmore", "v1.1 2\nx 512 1\n", "v9.9 1\nx 512 1", "",
             "v1.2",
             "v1.2 0\n", "v1.2 -1\n", "v1.2 x\n", "v1.2 1\n\n", "v1.2 1\nx 512 1", "v1.2 1\nx 500 1 a.x", "v1.2 1\nx 51200000 1 a.x",
             "v1.2 1\nx a 1 a.x", "v1.2 1\nx 512 1 a.x extra"],
)  # fmt: skip
def test_webdataset_indices(tmp_path, text):
    """An index with a size beyond the end of the archive crashes DALI, so only the unit tests have such an index."""
    path = containers.write_tar(tmp_path / "a.tar", GROUPS)
    (tmp_path / "index").write_text(text)
    compare(webdataset(path, ["x", "y"], index_paths=str(tmp_path / "index")), 2)


def test_both_scripts_write_one_index(tmp_path):
    import subprocess
    import sys

    path = containers.write_tar(tmp_path / "a.tar", [*GROUPS[:7], ("dir/.hidden", b"h"), (".hidden.x", b"h"), *GROUPS[8:-1]])
    script = Path(sys.executable).parent / "wds2idx"
    if not script.exists():
        pytest.skip("DALI's script is not installed")
    subprocess.run([sys.executable, str(script), path, f"{path}.theirs"], check=True, timeout=300, capture_output=True)
    assert asyncdali_main(["wds2idx", path, f"{path}.ours"]) == 0
    assert Path(f"{path}.ours").read_text() == Path(f"{path}.theirs").read_text()


# --- mxnet


def test_files_of_mxnets_own_writer():
    compare(lambda lib: lib.fn.readers.mxnet(path=str(FOREIGN / "mxnet.rec"), index_path=str(FOREIGN / "mxnet.idx")), 1, 6)


MXNET_INDEX = "0\t0\n1\t40\n2\t72\n3\t128\n4\t184\n"
MXNET_INDICES = ["0\t0\n1\t40\n2\t72", "5 72\n5 0\n5 40\n5 40\n", "0 0\n1 41\n", "0 128", "0 400", ""]


@pytest.mark.parametrize("index, several", [*((text, False) for text in MXNET_INDICES), (MXNET_INDEX, True)])
def test_mxnet_indices(tmp_path, index, several):
    """Some files end within a record. Only cuts that DALI survives are compared."""
    data = (FOREIGN / "mxnet.rec").read_bytes()
    cuts = [0, 60, len(data)] if several else [0, len(data)]
    paths = []
    for k, (start, end) in enumerate(pairwise(cuts)):
        (tmp_path / f"{k}").write_bytes(data[start:end])
        paths.append(str(tmp_path / f"{k}"))
    (tmp_path / "index").write_text(index)
    compare(lambda lib: lib.fn.readers.mxnet(path=paths, index_path=str(tmp_path / "index")), 1, 3)


@pytest.mark.parametrize("damage", [(0, 0), (7, 0x40), (7, 0x20), (4, 0xFF), (8, 9), (11, 1)])
def test_mxnet_damage(tmp_path, damage):
    data = bytearray((FOREIGN / "mxnet.rec").read_bytes())
    data[damage[0]] = damage[1]
    (tmp_path / "a.rec").write_bytes(data)
    compare(lambda lib: lib.fn.readers.mxnet(path=str(tmp_path / "a.rec"), index_path=str(FOREIGN / "mxnet.idx")), 1, 2)


# --- numpy


@pytest.fixture(scope="module")
def numpy_tree(tmp_path_factory):
    """Arrays of numpy.save in the root and below."""
    root = tmp_path_factory.mktemp("npy")
    rng = np.random.default_rng(1)
    for k, name in enumerate(("c", "a", "s1/x", "s0/h", "s0/g", "s0/deep/no", "s0/.hidden")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        item = rng.integers(0, 100, (3 + k, 7, 5)).astype(np.int32)
        np.save(root / f"{name}.npy", item.T.copy().T if k % 2 else item)
    (root / "list").write_text("c.npy\n\ns0/h.npy\n")
    with open(root / "UPPER.NPY", "wb") as file:
        np.save(file, np.zeros((1, 1, 1), np.int32))
    return root


NUMPY_LISTINGS = [
    {"file_root": ""}, {"file_root": "", "file_filter": "*.NPY"}, {"file_root": "", "file_filter": "[ac]*"}, {"file_list": "/list"},
    {"file_root": "", "files": ["s0/h.npy", "./a.npy"], "rooted": True}, {"file_root": "/none"}, {},
    {"file_root": "", "file_filter": "*.x"},
    {"file_root": "", "random_shuffle": True}, {"file_root": "", "shuffle_after_epoch": True}, {"file_list": "/none"},
]  # fmt: skip


@pytest.mark.parametrize("arguments", NUMPY_LISTINGS, ids=str)
@pytest.mark.parametrize("extra", [{}, {"cache_header_information": True}, {"dont_use_mmap": True, "use_o_direct": True}], ids=str)
def test_numpy_listings(numpy_tree, arguments, extra):
    arguments = {**arguments, **extra}
    rooted = arguments.pop("rooted", False)
    for name in ("file_root", "file_list"):
        if name in arguments:
            arguments[name] = str(numpy_tree) + arguments[name]
    assert rooted or "files" not in arguments
    compare(lambda lib: lib.fn.readers.numpy(**arguments), 5)


def fractions(low, high):
    """Whole numbers, and fractions whose products with the extents never end in a half."""
    return st.integers(low * 97, high * 97).map(lambda k: k / 97)


@st.composite
def numpy_regions(draw):
    axes = draw(st.sampled_from([[], [0], [1, 2], [-1, 0], [2, 0, 1]]))
    length = len(axes) or 3
    policy = draw(st.sampled_from(["error", "pad", "trim_to_shape"]))
    low = 0 if policy == "error" else -1
    region = {}
    match draw(st.integers(0, 2)):
        case 0:
            region["roi_start"] = draw(st.lists(st.integers(low * 2, 4), min_size=length, max_size=length))
        case 1:
            region["rel_roi_start"] = draw(st.lists(fractions(low, 1), min_size=length, max_size=length))
    match draw(st.integers(0, 4)):
        case 0:
            region["roi_end"] = draw(st.lists(st.integers(2, 8), min_size=length, max_size=length))
        case 1:
            region["rel_roi_end"] = draw(st.lists(fractions(0, 2), min_size=length, max_size=length))
        case 2:
            region["roi_shape"] = draw(st.lists(st.integers(0, 6), min_size=length, max_size=length))
        case 3:
            region["rel_roi_shape"] = draw(st.lists(fractions(0, 1), min_size=length, max_size=length))
    return {**region, "roi_axes": axes, "out_of_bounds_policy": policy, "fill_value": draw(st.sampled_from([0, 3.5, -2.5, 30000]))}


@settings(max_examples=150, **SETTINGS)
@given(region=numpy_regions())
def test_numpy_regions(numpy_tree, region):
    region = {name: value for name, value in region.items() if not (name == "roi_axes" and not value)}
    compare(lambda lib: lib.fn.readers.numpy(file_root=str(numpy_tree), **region), 3, 1)


ITEMS = [
    np.float16([1.5]), np.array(3.0), np.zeros((0, 3)), np.array([True, False]), np.zeros(2, "c8"), np.zeros(2, ">f4"), np.zeros(2, "S3"),
    np.arange(6, dtype="u2").reshape(1, 1, 1, 1, 2, 3),
]  # fmt: skip


@pytest.mark.parametrize("item", ITEMS, ids=repr)
def test_numpy_types(tmp_path, item):
    np.save(tmp_path / "a.npy", item)
    compare(lambda lib: lib.fn.readers.numpy(files=[str(tmp_path / "a.npy")]), 1, 1)


# --- coco


@pytest.fixture(scope="module")
def coco_data(tmp_path_factory):
    """Images with all kinds of annotations. The masks come from the COCO tools."""
    tools = pytest.importorskip("pycocotools.mask")
    root = tmp_path_factory.mktemp("coco")
    rng = np.random.default_rng(2)
    images, annotations = [], []
    for k in range(12):
        height, width = (int(v) for v in rng.integers(8, 60, 2))
        (root / f"{k}.jpg").write_bytes(b"%d" % k)
        images.append({"id": 50 - 3 * k, "width": width, "height": height, "file_name": f"{k}.jpg"})
        categories = rng.permutation([18, 3, 90, 55])
        for m in range(rng.integers(0, 4)):
            box = [float(v) for v in rng.uniform(0, 9, 4).astype(np.float32)]
            if m == 2:
                box[2] = 0.05
            entry = {"image_id": 50 - 3 * k, "category_id": int(categories[m]), "bbox": box, "iscrowd": int(rng.random() < 0.2)}
            if m != 1:  # DALI gets some pixels wrong if an image has two run-length masks; the COCO tools give other pixels.
                entry["segmentation"] = [[float(v) for v in rng.uniform(0, min(height, width), 8).astype(np.float32)] for _ in range(2)]
            else:
                mask = np.asfortranarray(rng.random((height, width)) < 0.5, dtype=np.uint8)
                entry["segmentation"] = {"size": [height, width], "counts": tools.encode(mask)["counts"].decode()}
            annotations.append(entry)
    categories = [{"id": 18}, {"id": 3}, {"id": 90}]
    (root / "a.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return root


COCO = [
    {}, {"ltrb": True}, {"ratio": True}, {"ltrb": True, "ratio": True}, {"skip_empty": True}, {"include_iscrowd": False},
    {"size_threshold": 4.0}, {"image_ids": True}, {"avoid_class_remapping": True}, {"images": ["5.jpg", "1.jpg", "none.jpg", "5.jpg"]},
    {"polygon_masks": True}, {"polygon_masks": True, "ratio": True, "image_ids": True}, {"masks": True},
    {"pixelwise_masks": True}, {"pixelwise_masks": True, "image_ids": True, "include_iscrowd": False},
    {"polygon_masks": True, "pixelwise_masks": True}, {"annotations_file": ""}, {"annotations_file": "/no/such"}, {"images": ["none.jpg"]},
    {"skip_cached_images": True}, {"random_shuffle": True}, {"shuffle_after_epoch": True},
]  # fmt: skip


@pytest.mark.parametrize("arguments", COCO, ids=str)
def test_coco(coco_data, arguments):
    arguments = {"file_root": str(coco_data), "annotations_file": str(coco_data / "a.json"), **arguments}
    compare(lambda lib: lib.fn.readers.coco(**arguments), 5, 4)


@pytest.mark.parametrize("extra", [{}, {"polygon_masks": True}, {"pixelwise_masks": True}, {"image_ids": True}], ids=str)
def test_coco_folders_of_the_other_library(coco_data, tmp_path, extra):
    """Both libraries save the same preprocessed files, and each library reads the files of the other."""
    folders = []
    for lib in LIBRARIES:
        folder = tmp_path / lib.__name__
        folder.mkdir()
        folders.append(folder)
        saving = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(folder)}
        arguments = {"file_root": str(coco_data), "annotations_file": str(coco_data / "a.json"), **extra, **saving}
        outcome(partial(graph, lib, lambda lib, arguments=arguments: lib.fn.readers.coco(**arguments), 5), 1)
    ours, theirs = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert ours == theirs
    for folder in folders:
        arguments = {"file_root": str(coco_data), "preprocessed_annotations": str(folder), **extra}
        assert not isinstance(compare(lambda lib, arguments=arguments: lib.fn.readers.coco(**arguments), 5, 4), type)


# --- sequence, io.file.read


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    """Losslessly stored streams of 3, 7 and 5 frames. One folder is hidden, and one has another file among its frames."""
    from PIL import Image

    root = tmp_path_factory.mktemp("streams")
    rng = np.random.default_rng(1)
    for name, count in (("a", 3), ("b b", 7), ("c", 5), (".hidden", 4)):
        (root / name).mkdir()
        for k in range(count):
            Image.fromarray(rng.integers(0, 256, (6, 8, 3)).astype(np.uint8)).save(root / name / f"{k}.{'PNG' if k % 2 else 'png'}")
    (root / "a/notes.txt").write_text("no image")
    return root


@pytest.mark.parametrize(
    "arguments", [{}, {"step": 3, "stride": 2}, {"sequence_length": 1}, {"stride": 3, "sequence_length": 2},
                  {"sequence_length": 8}, {"sequence_length": 0}, {"image_type": "BGR"}, {"image_type": "GRAY"}, {"random_shuffle": True}],
    ids=str,
)  # fmt: skip
def test_sequences(streams, arguments):
    arguments = {"sequence_length": 3, **arguments}

    def make(lib):
        kind = {"image_type": getattr(lib.types, arguments["image_type"])} if "image_type" in arguments else {}
        return lib.fn.readers.sequence(file_root=str(streams), **{**arguments, **kind})

    compare(make, 2, 6)


FILE_PATHS = [[b"a", b"b"], [b"a\0more", b"b"], [b"empty", b"a"], [b"gone", b"a"], [b"", b"a"], [b".", b"a"]]


@pytest.mark.parametrize("paths", FILE_PATHS, ids=str)
@pytest.mark.parametrize("arguments", [{}, {"dont_use_mmap": True}, {"use_o_direct": True}], ids=str)
def test_io_file_read(tmp_path, monkeypatch, paths, arguments):
    for name, data in ((b"a", b"first"), (b"b", b"second" * 999), (b"empty", b"")):
        (tmp_path / name.decode()).write_bytes(data)
    monkeypatch.chdir(tmp_path)

    def make(lib):
        names = lib.fn.external_source(lambda: [np.frombuffer(path, np.uint8) for path in paths])
        return lib.fn.io.file.read(names, **arguments)

    compare(make, 2, 2)


# --- nemo_asr


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """WAV files of Python's own writer."""
    import wave

    root = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(1)
    for name, shape in (("mono", (8000, 1)), ("stereo", (4000, 2)), ("short", (100, 1))):
        with wave.open(str(root / f"{name}.wav"), "wb") as file:
            file.setparams((shape[1], 2, 8000, 0, "NONE", ""))
            file.writeframes(rng.integers(-32768, 32768, shape).astype("<i2").tobytes())
    entries = [
        {"audio_filepath": f"{root}/mono.wav", "duration": 1.0, "text": "größer"},
        {"audio_filepath": f"{root}/mono.wav", "offset": 0.10019, "duration": 0.25019, "text": ""},
        {"audio_filepath": f"{root}/short.wav"}, {"audio_filepath": f"{root}/mono.wav", "offset": 0.9999, "duration": 9, "text": "x"},
        {"audio_filepath": f"{root}/mono.wav", "duration": -1, "offset": -3},
    ]  # fmt: skip
    lines = [json.dumps(entry, ensure_ascii=False) for entry in entries]
    (root / "a.json").write_text("\n".join([lines[0], "no json", *lines[1:], '{"text": "no path"}']))
    (root / "b.json").write_text("\n".join(lines[:2]))
    (root / "stereo.json").write_text(json.dumps({"audio_filepath": f"{root}/stereo.wav", "duration": 0.25}))
    (root / "late.json").write_text(json.dumps({"audio_filepath": f"{root}/mono.wav", "offset": 1.5}))
    (root / "gone.json").write_text(json.dumps({"audio_filepath": f"{root}/gone.wav"}))
    return root


SPEECH = [
    {}, {"read_sample_rate": False}, {"read_text": False, "read_idxs": True}, {"min_duration": 0.5},
    {"max_duration": 0.5, "read_idxs": True},
    {"dtype": "INT16"}, {"dtype": "INT32"}, {"dtype": "UINT8"}, {"quality": 101.0}, {"random_shuffle": True}, {"min_duration": 99.0},
    {"files": ["stereo"]}, {"files": ["stereo"], "downmix": False}, {"files": ["a", "b"], "downmix": False}, {"files": ["late"]},
    {"files": ["gone"]}, {"files": ["none"]}, {"files": []},
]  # fmt: skip


@pytest.mark.parametrize("arguments", SPEECH, ids=str)
def test_nemo_asr(speech, arguments):
    arguments = dict(arguments)
    paths = [f"{speech}/{name}.json" for name in arguments.pop("files", ["a", "b"])]

    def make(lib):
        dtype = {"dtype": getattr(lib.types, arguments["dtype"])} if "dtype" in arguments else {}
        return lib.fn.readers.nemo_asr(manifest_filepaths=paths, **{**arguments, **dtype})

    compare(make, 1, 8)


@pytest.mark.parametrize("rate, quality", [(5000, 50), (11025, 80), (16000, 0), (8000, 50), (12345.6, 100)])
def test_resampled_speech(speech, rate, quality):
    """Both libraries use the same filter, but DALI's positions drift with the length of the sound."""
    columns = []
    for lib in LIBRARIES:
        arguments = {"manifest_filepaths": [f"{speech}/b.json"], "sample_rate": rate, "quality": quality}
        columns.append(graph(lib, lambda lib, arguments=arguments: lib.fn.readers.nemo_asr(**arguments), 2).run())
    for ours, theirs in zip(*(column[0] for column in columns), strict=True):
        assert np.asarray(ours).shape == np.array(theirs).shape
        np.testing.assert_allclose(np.asarray(ours), np.array(theirs), atol=5e-3)
    assert np.asarray(columns[0][1][0]) == np.array(columns[1][1][0]) == 8000
