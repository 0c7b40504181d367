"""readers.coco: images, boxes, labels, polygons, masks, preprocessed folders, and files that are not COCO."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.pipelines import values

from asyncdali import Pipeline, fn
from asyncdali.readers.coco.coco_annotations import decode_runs

CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}, {"id": 90, "name": "bus"}]
IMAGES = [
    {"id": 7, "width": 20, "height": 10, "file_name": "1.jpg"}, {"id": 3, "width": 10, "height": 20, "file_name": "0.jpg"},
    {"id": 9, "width": 30, "height": 15, "file_name": "2.jpg"}, {"id": 8, "width": 4, "height": 4, "file_name": "empty.jpg"},
]  # fmt: skip
ANNOTATIONS = [
    {"image_id": 3, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 0, "segmentation": [[1, 2, 4, 2, 4, 6, 1, 6], [5, 1, 9, 1, 9, 8.5]]},
    {"image_id": 3, "category_id": 18, "bbox": [2, 2, 2, 2], "iscrowd": 1, "segmentation": {"counts": [3, 5, 192], "size": [20, 10]}},
    {"image_id": 7, "category_id": 90, "bbox": [2, 2, 0.05, 2], "segmentation": [[0, 0, 1, 1, 2, 2]]},
    {"image_id": 9, "category_id": 55, "bbox": [2.5, 2, 7, 2], "segmentation": [[3, 3, 8, 3, 8, 9]]},
    {"image_id": 9, "category_id": 90, "bbox": [2.5, 2, 7, 2]}, {"image_id": 1000, "category_id": 3, "bbox": [0, 0, 9, 9]},
]  # fmt: skip


@pytest.fixture
def data(tmp_path):
    for image in IMAGES:
        (tmp_path / image["file_name"]).write_bytes(image["file_name"].encode())
    return tmp_path


def written(folder, images=IMAGES, annotations=ANNOTATIONS, categories=CATEGORIES, **more):
    path = folder / "annotations.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories, **more}))
    return {"file_root": str(folder), "annotations_file": str(path)}


def reader(batch=1, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        pipe.set_outputs(*fn.readers.coco(name="R", **arguments))
    pipe.build()
    return pipe


def names(pipe, runs=None):
    runs = runs or pipe.epoch_size("R")
    return [pipe.run()[0][0].source_info() for _ in range(runs)]


def test_the_golden_example(data):
    arguments = written(data)
    images, boxes, labels = reader(4, **arguments).run()
    assert [bytes(np.asarray(image)) for image in images] == [b"0.jpg", b"1.jpg", b"empty.jpg", b"2.jpg"]
    assert values([boxes]) == [[[[1, 2, 3, 4], [2, 2, 2, 2]], [], [], [[2.5, 2, 7, 2]] * 2]]
    assert values([labels]) == [[[2, 1], [], [], [0, 3]]]
    assert np.asarray(boxes[1]).shape == (0, 4) and np.asarray(labels[1]).shape == (0,) and boxes[0].source_info() == "0.jpg"
    _, boxes, _ = reader(1, **arguments, ltrb=True, ratio=True).run()
    np.testing.assert_allclose(np.asarray(boxes[0]), [[0.1, 0.1, 0.4, 0.3], [0.2, 0.1, 0.4, 0.2]], rtol=1e-6)
    *_, ids = reader(4, **arguments, image_ids=True).run()
    assert values([ids]) == [[[3], [7], [8], [9]]]
    assert values([reader(1, **arguments, avoid_class_remapping=True).run()[2]]) == [[[3, 18]]]
    assert values([reader(1, **arguments, include_iscrowd=False).run()[2]]) == [[[2]]]


def test_images_that_are_read(data):
    arguments = written(data)
    assert names(reader(**arguments, skip_empty=True)) == ["0.jpg", "2.jpg"]
    assert names(reader(**arguments, skip_empty=True, size_threshold=0.01)) == ["0.jpg", "1.jpg", "2.jpg"]
    assert names(reader(**arguments, images=["2.jpg", "none.jpg", "0.jpg", "2.jpg"])) == ["2.jpg", "0.jpg", "2.jpg"]
    with pytest.raises(RuntimeError, match="No files found"):
        reader(**arguments, images=["none.jpg"])


def test_polygons(data):
    _, _, _, polygons, vertices = reader(4, **written(data), polygon_masks=True).run()
    assert values([polygons]) == [[[[0, 0, 4], [0, 4, 7]], [], [], [[0, 0, 3]]]]
    assert values([vertices])[0][0] == [[1, 2], [4, 2], [4, 6], [1, 6], [5, 1], [9, 1], [9, 8.5]]
    assert np.asarray(polygons[1]).shape == (0, 3) and np.asarray(vertices[1]).shape == (0, 2)
    _, _, _, _, vertices = reader(1, **written(data), polygon_masks=True, ratio=True).run()
    np.testing.assert_allclose(np.asarray(vertices[0])[0], [0.1, 0.1])
    with pytest.warns(DeprecationWarning, match="polygon_masks"):
        _, _, _, polygons, _ = reader(1, **written(data), masks=True).run()
    assert values([polygons]) == [[[[0, 0, 8], [0, 8, 14]]]]


def random_segmentation(rng, height, width):
    """A random segmentation: polygons inside, across and outside of the image, or run lengths."""
    from pycocotools import mask as tools

    kind = rng.integers(3)
    if kind < 2:
        polygons = []
        for _ in range(rng.integers(1, 4)):
            corners = rng.uniform(-4, 1.2 * np.array([width, height]), (rng.integers(3, 9), 2))
            polygons.append([float(v) for v in (np.round(corners) if rng.random() < 0.3 else corners).astype(np.float32).ravel()])
        return polygons
    mask = np.asfortranarray(rng.random((height, width)) < 0.5, dtype=np.uint8)
    compressed = tools.encode(mask)["counts"].decode()
    return {"size": [height, width], "counts": compressed if rng.random() < 0.7 else decode_runs(compressed)}


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # warnings of pycocotools with NumPy 2
def test_pixelwise_masks_are_those_of_the_coco_tools(data):
    """Masks equal those of pycocotools: masks of a class are united, and larger labels are on top."""
    tools = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(4)
    annotations, images = [], []
    for k in range(60):
        height, width = (int(v) for v in rng.integers(1, 40, 2))
        images.append({"id": k, "width": width, "height": height, "file_name": "0.jpg"})
        for _ in range(rng.integers(0, 5)):
            entry = {"image_id": k, "category_id": int(rng.choice([18, 3, 90, 55])), "bbox": [0, 0, 5, 5]}
            annotations.append({**entry, "segmentation": random_segmentation(rng, height, width)})
    *_, masks = reader(60, **written(data, images, annotations), pixelwise_masks=True).run()
    assert masks.layout() == "HWC"
    for k, image in enumerate(images):
        height, width = image["height"], image["width"]
        wanted = np.zeros((height, width), np.int32)
        for label, category in ((1, 18), (2, 3), (3, 90)):
            for entry in annotations:
                if entry["image_id"] == k and entry["category_id"] == category:
                    shape = entry["segmentation"]
                    compressed = isinstance(shape, dict) and isinstance(shape["counts"], str)
                    made = shape if compressed else tools.frPyObjects(shape, height, width)
                    drawn = tools.decode(made if isinstance(made, dict) else tools.merge(made))
                    wanted[drawn > 0] = label
        np.testing.assert_array_equal(np.asarray(masks[k])[..., 0], wanted, err_msg=str(k))


def test_preprocessed_folders(data):
    arguments = written(data)
    for extra in ({}, {"polygon_masks": True, "image_ids": True}, {"pixelwise_masks": True, "image_ids": True}, {"ltrb": True}):
        folder = data / "saved" / "-".join(["x", *extra])
        folder.mkdir(parents=True)
        wanted = values(reader(4, **arguments, **extra, save_preprocessed_annotations=True,
                               save_preprocessed_annotations_dir=str(folder)).run())  # fmt: skip
        extra.pop("ltrb", None)
        again = reader(4, file_root=str(data), preprocessed_annotations=str(folder), **extra)
        assert values(again.run()) == wanted
    pixels = data / "saved/x-pixelwise_masks-image_ids"
    assert (pixels / "filenames.dat").read_text() == "0.jpg\n1.jpg\nempty.jpg\n2.jpg\n"
    for name in sorted(path.name for path in pixels.iterdir()):
        good = (pixels / name).read_bytes()
        for bad in (good[:-1], b"", good[:4] + b"\xff" * (len(good) - 4), b"\xff\xff\xff\x7f" + good[4:]):
            (pixels / name).write_bytes(bad)
            try:
                reader(4, file_root=str(data), preprocessed_annotations=str(pixels), pixelwise_masks=True, image_ids=True).run()
            except (RuntimeError, ValueError) as error:
                assert str(error)
        (pixels / name).write_bytes(good)


REFUSED = [
    ({"ratio": True}, '"ratio" is not supported'), ({"images": ["a"]}, '"images" is not supported'),
    ({"size_threshold": 0.5}, '"size_threshold" is not'),
]  # fmt: skip


@pytest.mark.parametrize("arguments, message", REFUSED)
def test_arguments_that_preprocessed_annotations_refuse(tmp_path, arguments, message):
    with pytest.raises(RuntimeError, match=message):
        reader(file_root=str(tmp_path), preprocessed_annotations=str(tmp_path), **arguments)


def test_arguments(data):
    arguments = written(data)
    cases = [
        ({"annotations_file": ""}, "must be provided"), ({"annotations_file": "/no/such"}, "Could not open JSON annotations file /no/such"),
        ({"polygon_masks": True, "pixelwise_masks": True}, "mutually exclusive"), ({"skip_cached_images": True}, "skip_cached_images"),
        ({"save_preprocessed_annotations": True}, "given together"), ({"file_root": None}, "file_root"),
        ({"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": "/no/such"}, "does not exist"),
        ({"preprocessed_annotations": str(data), "annotations_file": ""}, "Could not open preprocessed annotations"),
    ]  # fmt: skip
    for changed, message in cases:
        with pytest.raises(RuntimeError, match=message):
            reader(**{**arguments, **changed})
    with pytest.warns(DeprecationWarning, match="image_ids"):
        assert len(reader(**arguments, save_img_ids=True).run()) == 4


@pytest.mark.parametrize(
    "text, message",
    [("", "Error parsing JSON file"), ("{", "Error parsing JSON"), ("[]", "No files found"), ("{}", "No files found"),
     ("3", "No files found"),
     ('{"images": 3}', "No files found"), ('{"images": []}', "No files found"), ("[" * 100_000, "Error parsing JSON"),
     ('{"images": [3]}', "image 0 is malformed"), ('{"images": [{"id": 1}]}', "image 0 has no 'file_name'")],
)  # fmt: skip
def test_files_that_are_not_coco(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RuntimeError, match=message) as caught:
        reader(file_root=str(tmp_path), annotations_file=str(tmp_path / "a.json"))
    assert str(tmp_path / "a.json") in str(caught.value)


def image(**changed):
    return {"images": [{**IMAGES[0], **changed}]}


def annotation(**changed):
    entry = {"image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4], "segmentation": [[1, 2, 3, 4, 5, 6]], **changed}
    return {"annotations": [{name: value for name, value in entry.items() if value is not None}]}


@pytest.mark.parametrize(
    "changed, message",
    [(image(id="7"), "image 0 is malformed"), (image(id=2**40), "32-bit"), (image(id=1.5), "32-bit"), (image(height=-1), "has the size"),
     (image(file_name=5), "not a file name"), (image(file_name="a\nb"), "not a file name"),
     ({"images": [IMAGES[0], IMAGES[0]]}, "image 1.*id 7"),
     (annotation(bbox=None), "annotation 0 has no 'bbox'"), (annotation(bbox=[1, 2, 3]), "annotation 0 is malformed"),
     (annotation(bbox=["a", 2, 3, 4]), "annotation 0 is malformed"), (annotation(image_id=None), "has no 'image_id'"),
     (annotation(category_id=None), "has no 'category_id'"), (annotation(segmentation=[[1, 2, 3]]), "pairs of numbers"),
     (annotation(segmentation=[[float("nan")] * 6]), "pairs of numbers"), (annotation(segmentation=[5]), "malformed"),
     (annotation(segmentation={"size": [10, 20]}), "has no 'counts'"),
     (annotation(segmentation={"size": [5, 20], "counts": [5]}), "does not fit"),
     (annotation(segmentation={"size": [10, 20], "counts": [500]}), "do not fit"),
     (annotation(segmentation={"size": [10, 20], "counts": 5}), "neither"),
     (annotation(segmentation={"size": [10, 20], "counts": "PPP"}), "truncated"),
     (annotation(segmentation={"size": 5, "counts": []}), "malformed"),
     ({"categories": [{"name": "x"}]}, "Missing category ID"), ({"categories": 5}, "is not a list"), ({"annotations": {}}, "is not a list"),
     (image(height=2**20, width=2**20), "mask of this size cannot be drawn"),
    (annotation(segmentation=[[0, 0, 1e30, 0, 5, 5]]), "too long"),
     (annotation(segmentation=[[0, 0, 1e7, 0, 0, 1e7] * 9]), "outline of a polygon is too long")],
)  # fmt: skip
def test_malformed_entries_are_named(data, changed, message):
    arguments = {**written(data), **written(data, **{"images": IMAGES[:1], "annotations": [], **changed})}
    with pytest.raises(RuntimeError, match=message) as caught:
        reader(**arguments, pixelwise_masks=True).run()
    assert "annotations.json" in str(caught.value) or "1.jpg" in str(caught.value)


INFINITE = [float("nan"), float("inf"), -float("inf"), 1e39, -1e300, 10**400, "nan", "1", None, True, [1]]


@pytest.mark.parametrize("value", INFINITE, ids=lambda value: str(value)[:9])
@pytest.mark.parametrize("place", range(4))
def test_boxes_are_four_finite_numbers(data, value, place):
    """Python's JSON writer writes NaN and Infinity. A size that is not a number is not less than the threshold, so it was delivered."""
    box = [1, 2, 3, 4]
    box[place] = value
    with pytest.raises(RuntimeError, match=r"annotations.json: annotation 0 is malformed: .* is not a finite number"):
        reader(**{**written(data), **written(data, images=IMAGES[:1], **annotation(bbox=box))})


@pytest.mark.parametrize("box", [[], [1, 2, 3], [1, 2, 3, 4, 5], "1234", {"x": 1}, 5], ids=str)
def test_boxes_with_other_values(data, box):
    with pytest.raises(RuntimeError, match=r"annotation 0 is malformed: `bbox` must contain exactly 4 values \(x, y, width, height\), got"):
        reader(**{**written(data), **written(data, images=IMAGES[:1], **annotation(bbox=box))})


def test_boxes_that_do_not_fit_after_arithmetic(data):
    large = 3e38
    arguments = {**written(data), **written(data, images=IMAGES[:1], **annotation(bbox=[large, 0, large, 4]))}
    assert np.asarray(reader(**arguments).run()[1][0]).tolist() == [[np.float32(large), 0, np.float32(large), 4]]
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match=r"annotation 0 is malformed: the box .* does not fit 32-bit floats"):
        warnings.simplefilter("error")
        reader(**arguments, ltrb=True)
    arguments = {**written(data), **written(data, **image(height=0), **annotation())}
    with pytest.raises(RuntimeError, match=r"the image has the size 20 x 0, so there are no fractions of it \(`ratio`\)"):
        reader(**arguments, ratio=True)


@pytest.mark.parametrize("missing", ["absent", "null"])
def test_images_without_sizes(data, missing):
    """Only fractions and masks of pixels need sizes."""
    entry = {key: value for key, value in IMAGES[0].items() if key not in ("height", "width")}
    entry |= {"height": None, "width": None} if missing == "null" else {}
    arguments = {**written(data), **written(data, images=[entry], **annotation())}
    outputs = reader(**arguments, polygon_masks=True, image_ids=True, ltrb=True).run()
    assert np.asarray(outputs[1][0]).tolist() == [[1, 2, 4, 6]] and np.asarray(outputs[4][0]).tolist() == [[1, 2], [3, 4], [5, 6]]
    for name in ("ratio", "pixelwise_masks"):
        with pytest.raises(RuntimeError, match=rf"image 0 is malformed: the entry has no 'height', which `{name}` needs"):
            reader(**arguments, **{name: True})


def test_flags_of_crowds(data):
    def count(flag):
        arguments = {**written(data), **written(data, images=IMAGES[:1], **annotation(iscrowd=flag))}
        return len(np.asarray(reader(**arguments, include_iscrowd=False).run()[2][0]))

    assert [count(flag) for flag in (0, 1, None)] == [1, 0, 1]
    with pytest.raises(RuntimeError, match=r"annotation 0 is malformed: '0' is not a 32-bit integer"):
        count("0")


def test_names_that_no_file_can_have(data):
    with pytest.raises(RuntimeError, match=r"entry 0 of .*annotations.json is not a file name: '\\ud800.jpg' has a character that no file"):
        reader(**{**written(data), **written(data, **image(file_name="\ud800.jpg"), annotations=[])})


@pytest.mark.parametrize("counts", ["\n", "\x7f1", "é", "日"])
def test_characters_of_run_lengths(data, counts):
    shape = {"size": [10, 20], "counts": counts}
    with pytest.raises(RuntimeError, match=r"annotation 0 is malformed"):
        reader(**{**written(data), **written(data, images=IMAGES[:1], **annotation(segmentation=shape))}, polygon_masks=True)


@pytest.mark.parametrize("name, options", [("boxes", {}), ("vertices", {"polygon_masks": True}), ("vertices", {"pixelwise_masks": True})])
def test_infinite_numbers_in_saved_annotations(data, tmp_path, name, options):
    saving = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(tmp_path)}
    reader(**written(data), **saving, **options).run()
    content = bytearray((tmp_path / f"{name}.dat").read_bytes())
    content[-4:] = np.float32(np.nan).tobytes()
    (tmp_path / f"{name}.dat").write_bytes(content)
    with pytest.raises(RuntimeError, match=rf"{name}.dat is damaged: row \d+ is not finite"):
        reader(file_root=str(data), preprocessed_annotations=str(tmp_path), **options)


def test_missing_images_fail_alone(data):
    pipe = reader(**written(data))
    (Path(data) / "1.jpg").unlink()
    for k in range(4):
        if k == 1:
            with pytest.raises(RuntimeError, match=r"File mapping failed: .*/1.jpg"):
                pipe.run()
        else:
            pipe.run()
