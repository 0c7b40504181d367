"""For every operator: a pipeline that was serialized and deserialized gives the same outputs and draws the same numbers."""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.guarded import calls, usual
from helpers.images import encode
from helpers.images import picture as picture_of
from helpers.mentions import mentions
from helpers.pipelines import pipeline_of, values
from helpers.readers import EVERY_KIND, delivered, pipeline

from asyncdali import Pipeline, fn, pipeline_def, tfrecord, types
from asyncdali.auto_aug import trivial_augment
from asyncdali.graph.serialize import decode_value, encode_value
from asyncdali.operators import load_registry
from asyncdali.operators.accepts import declared
from asyncdali.runtime.work import segments

pytestmark = pytest.mark.slow  # compiles nearly all kernels

SIZE = 3


def image():
    return fn.cast(fn.random.uniform(range=[0, 255], shape=[6, 5, 3], seed=1), dtype=types.UINT8)


def picture():
    return fn.reshape(image(), layout="HWC")


def numbers(*shape):
    return fn.random.uniform(range=[-1, 1], shape=list(shape), seed=2)


def scalar():
    return fn.random.uniform(range=[1, 3], seed=3)


def spectrogram():
    return fn.spectrogram(numbers(600), nfft=64, window_length=64, window_step=32)


def boxes():
    return fn.constant(fdata=[0.1, 0.1, 0.5, 0.6, 0.2, 0.3, 0.8, 0.9], shape=[2, 4])


def sound():
    """A WAV file of three samples."""
    wav = b"RIFF\x2a\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x06\0\0\0\0\x10\0\x20\0\x30"
    return fn.constant(idata=list(wav), dtype=types.UINT8, shape=[len(wav)])


def array_file():
    """A NumPy file of three numbers."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"
    data = b"\x93NUMPY\x01\0" + bytes([len(text), 0]) + text + np.float32([1.5, -2.5, 7]).tobytes()
    return fn.constant(idata=list(data), dtype=types.UINT8, shape=[len(data)])


def video():
    """An uncompressed video of three grey frames."""
    data = b"YUV4MPEG2 W2 H2 F1:1 C444\n" + b"".join(b"FRAME\n" + bytes([grey] * 4 + [128] * 8) for grey in (40, 80, 120))
    return fn.constant(idata=list(data), dtype=types.UINT8, shape=[len(data)])


CALLS = {
    "arithmetic": lambda: (image() * 0.7 + 3) // 2 > scalar(),
    "infinite constant": lambda: numbers(3) < float("inf"),
    "subscript": lambda: image()[1:, ::-1, fn.cast(scalar(), dtype=types.INT32) - 1],
    "permute_batch": lambda: fn.permute_batch(image(), indices=fn.batch_permutation()),
    "tensor_resize": lambda: fn.tensor_resize(numbers(4, 5, 6), axes=[0, 2], scales=[1.5, 0.7], alignment=[0.25], size_rounding="ceil"),
    "audio_resample": lambda: fn.audio_resample(numbers(600), in_rate=scalar(), out_rate=2.0, quality=30.0, dtype=types.INT16),
    "decoders.numpy": lambda: fn.decoders.numpy(array_file(), dtype=types.INT16),
    "decoders.audio": lambda: fn.decoders.audio(sound(), sample_rate=16000.0, quality=20.0, dtype=types.INT16, downmix=True)[0],
    "bb_flip": lambda: fn.bb_flip(boxes(), horizontal=1),
    "bbox_paste": lambda: fn.bbox_paste(boxes(), paste_x=0.1, paste_y=0.2, ratio=2.0),
    "brightness_contrast": lambda: fn.brightness_contrast(picture(), brightness=0.8, contrast=scalar()),
    "cast_like": lambda: fn.cast_like(image(), scalar()),
    "decoders.inflate": lambda: fn.decoders.inflate(
        fn.constant(idata=[0x50, 1, 2, 3, 4, 5], dtype=types.UINT8, shape=[6]), shape=[5], chunk_sizes=[6], layout="X",
    ),
    "experimental.remap": lambda: fn.experimental.remap(picture()[:4, :4], numbers(4, 4) * 4.0, numbers(4, 4) * 4.0, pixel_origin="center"),
    "experimental.resize": lambda: fn.experimental.resize(picture(), size=[7, 5], antialias=False),
    "debayer": lambda: fn.debayer(picture()[:4, :4, :1], blue_position=[1, 0], algorithm="edgeaware_ocv"),
    "experimental.dilate": lambda: fn.experimental.dilate(picture(), mask_size=[5, 2], anchor=[1, 0], iterations=2, border_mode="wrap"),
    "experimental.erode": lambda: fn.experimental.erode(picture(), mask_size=[2, 3], border_mode="reflect"),
    "experimental.median_blur": lambda: fn.experimental.median_blur(picture(), window_size=[3, 5]),
    "jitter": lambda: fn.jitter(picture(), nDegree=5, seed=6),
    "cat": lambda: fn.cat(image(), image(), axis=1),
    "color_space_conversion": lambda: fn.color_space_conversion(picture(), image_type=types.RGB, output_type=types.GRAY),
    "color_twist": lambda: fn.color_twist(picture(), hue=20.0, saturation=0.5),
    "coord_transform": lambda: fn.coord_transform(numbers(4, 2), MT=fn.transforms.rotation(angle=30.0)),
    "crop_mirror_normalize": lambda: fn.crop_mirror_normalize(picture(), crop=[4, 4], mean=[1.0, 2.0, 3.0], std=[2.0], mirror=1),
    "element_extract": lambda: fn.element_extract(numbers(4, 2), element_map=[1, 3])[1],
    "erase": lambda: fn.erase(picture(), anchor=[1, 1], shape=[2, 2], axis_names="HW", fill_value=7.0),
    "filter": lambda: fn.filter(picture(), np.ones((3, 3), np.float32)),
    "flip": lambda: fn.flip(picture(), horizontal=fn.random.coin_flip()),
    "full_like": lambda: fn.full_like(image(), 3),
    "gaussian_blur": lambda: fn.gaussian_blur(picture(), window_size=3),
    "get_property": lambda: fn.get_property(picture(), key="layout"),
    "grid_mask": lambda: fn.grid_mask(picture(), tile=4, ratio=0.5, angle=0.1),
    "laplacian": lambda: fn.laplacian(picture(), dtype=types.FLOAT),
    "lookup_table": lambda: fn.lookup_table(image(), keys=[1, 2, 3], values=[5.0, 6.0, 7.0], default_value=1.5),
    "mfcc": lambda: fn.mfcc(fn.to_decibels(fn.mel_filter_bank(spectrogram(), nfilter=8)), n_mfcc=4),
    "multi_paste": lambda: fn.multi_paste(picture(), in_ids=[1, 0], out_anchors=np.int32([[0, 0], [2, 3]]), output_size=[9, 9]),
    "noise": lambda: fn.noise.gaussian(picture(), stddev=9.0),
    "nonsilent_region": lambda: fn.nonsilent_region(numbers(600), window_length=32)[0],
    "normalize": lambda: fn.normalize(numbers(4, 3), axes=[0], mean=np.zeros((1, 3), np.float32)),
    "one_hot": lambda: fn.one_hot(fn.cast(scalar(), dtype=types.INT32), num_classes=4, dtype=types.INT64),
    "pad": lambda: fn.pad(picture(), axis_names="HW", shape=[8, 8], fill_value=3),
    "paste": lambda: fn.paste(picture(), fill_value=[1, 2, 3], ratio=scalar()),
    "power_spectrum": lambda: fn.power_spectrum(numbers(64), nfft=64),
    "preemphasis_filter": lambda: fn.preemphasis_filter(numbers(64), border="reflect"),
    "random.beta": lambda: fn.random.beta(alpha=2.0),
    "random.choice": lambda: fn.random.choice([4, 5, 6], p=[0.2, 0.3, 0.5]),
    "random.normal": lambda: fn.random.normal(picture(), stddev=3.0),
    "random_bbox_crop": lambda: fn.random_bbox_crop(boxes(), thresholds=[0.0, 0.3], bbox_layout="xyXY")[0],
    "random_resized_crop": lambda: fn.random_resized_crop(picture(), size=[4, 4], interp_type=types.INTERP_CUBIC),
    "reductions": lambda: fn.reductions.std_dev(picture(), fn.reductions.mean(picture(), axis_names="HW"), axis_names="HW"),
    "reinterpret": lambda: fn.reinterpret(image(), dtype=types.INT8, rel_shape=[1, -1]),
    "resize": lambda: fn.resize(picture(), size=[9, 7], mode="not_smaller", max_size=[20, 20], roi_start=[0.1, 0.1], roi_end=[0.9, 0.9],
                                roi_relative=True),
    "rotate": lambda: fn.rotate(picture(), angle=numbers(), keep_size=True, fill_value=0.0),
    "slice": lambda: fn.slice(picture(), rel_start=[0.1, 0.2], rel_end=scalar() * [0.2, 0.3], axes=[0, 1]),
    "squeeze": lambda: fn.squeeze(fn.expand_dims(picture(), axes=[0], new_axis_names="F"), axis_names="F"),
    "stack": lambda: fn.stack(picture(), picture(), axis=0, axis_name="F"),
    "transforms": lambda: fn.transforms.combine(fn.transforms.scale(scale=[2.0, 3.0]), fn.transforms.shear(angles=[10.0, 5.0])),
    "transpose": lambda: fn.transpose(picture(), perm=[2, 0, 1]),
    "trivial_augment": lambda: trivial_augment.trivial_augment_wide(picture(), num_magnitude_bins=3),
    "warp_affine": lambda: fn.warp_affine(picture(), matrix=[1.0, 0.1, 2.0, 0.0, 1.0, 1.0], size=[5, 5]),
    "zeros_like": lambda: fn.zeros_like(image(), dtype=types.FLOAT16),
    "box_encoder": lambda: fn.box_encoder(boxes(), fn.constant(idata=[1, 2]), anchors=[0.1, 0.1, 0.5, 0.5, 0.4, 0.4, 0.9, 0.9])[0],
    "conditional": lambda: fn._conditional.merge(
        fn._conditional.split(scalar(), predicate=scalar() > 2)[0], fn._conditional.split(scalar() + 9, predicate=scalar() > 2)[1],
        predicate=fn._conditional.not_(fn._conditional.not_(fn._conditional.validate_logical(scalar() > 2))),
    ),
    "coord_flip": lambda: fn.coord_flip(numbers(4, 2), flip_x=1, center_x=0.25),
    "copy": lambda: fn.copy(image()),
    "crop": lambda: fn.crop(picture(), crop=[3, 4], crop_pos_x=0.3),
    "expand_dims": lambda: fn.expand_dims(picture(), axes=[0]),
    "full": lambda: fn.full(scalar(), shape=[2, 3]),
    "hsv": lambda: fn.hsv(fn.saturation(fn.hue(picture(), hue=30.0), saturation=0.5), value=0.7),
    "light": lambda: fn.brightness(fn.contrast(picture(), contrast=0.7), brightness_shift=0.1),
    "noise.salt_and_pepper": lambda: fn.noise.salt_and_pepper(picture(), prob=0.3, salt_val=200.0),
    "noise.shot": lambda: fn.noise.shot(picture(), factor=3.0),
    "ones": lambda: fn.ones(shape=[2], dtype=types.INT16) + fn.zeros(shape=[2], dtype=types.INT16) + fn.cast(fn.ones_like(numbers(2)),
                                                                                                         dtype=types.INT16),
    "per_frame": lambda: fn.brightness(fn.reshape(image(), layout="FHWC", shape=[6, 5, 1, 3]),
                                       brightness=fn.per_frame(fn.constant(fdata=[1.0, 2, 3, 4, 5, 6], shape=[6]))),
    "random_crop_generator": lambda: fn.random_crop_generator(fn.constant(idata=[40, 50]), random_area=[0.2, 0.5])[0],
    "reductions, the others": lambda: fn.stack(fn.reductions.variance(numbers(3, 4), 0.5, axes=[1]), *[
        getattr(fn.reductions, name)(numbers(3, 4), axes=[1]) for name in ("max", "mean_square", "min", "rms", "sum")]),
    "resize_crop_mirror": lambda: fn.resize_crop_mirror(picture(), size=[9, 7], crop=[4, 4], mirror=1),
    "roi_random_crop": lambda: fn.roi_random_crop(crop_shape=[3, 3], in_shape=[9, 9], roi_start=[2, 2], roi_shape=[4, 4]),
    "segmentation.random_mask_pixel": lambda: fn.segmentation.random_mask_pixel(fn.cast(numbers(5, 5), dtype=types.INT32)),
    "sequence_rearrange": lambda: fn.sequence_rearrange(fn.reshape(image(), layout="FHW"), new_order=[5, 0, 0, 2]),
    "shapes": lambda: fn.cat(fn.shapes(image()), image().shape()),
    "bbox_rotate": lambda: fn.bbox_rotate(boxes(), fn.constant(idata=[1, 2]), angle=scalar(), input_shape=[30, 40], keep_size=True)[0],
    "segmentation.select_masks": lambda: fn.segmentation.select_masks(
        fn.constant(idata=[2]), fn.constant(idata=[1, 0, 2, 2, 1, 3], shape=[2, 3]), numbers(3, 2), reindex_masks=True)[1],
    "segmentation.random_object_bbox": lambda: fn.segmentation.random_object_bbox(image(), output_class=True, class_weights=[1.0] * 200)[2],
    "jpeg_compression_distortion": lambda: fn.jpeg_compression_distortion(picture(), quality=20),
    "sphere": lambda: fn.sphere(fn.water(picture(), ampl_x=2.0, phase_y=1.0, mask=fn.random.coin_flip()), interp_type=types.INTERP_LINEAR),
    "ssd_random_crop": lambda: fn.ssd_random_crop(picture(), boxes(), fn.constant(idata=[1, 2]), num_attempts=3)[0],
    "equalize": lambda: fn.equalize(picture()),
    "clahe": lambda: fn.clahe(picture(), tiles_x=2, tiles_y=2, clip_limit=3.0),
    "experimental.warp_perspective": lambda: fn.experimental.warp_perspective(picture(), matrix=[1, 0.1, 2, 0, 1, 1, 0, 0, 1]),
    "there and back": lambda: image().gpu().cpu(),
    "transforms, the others": lambda: fn.transforms.translation(
        fn.transforms.crop(fn.transforms.rotation(angle=20.0), to_end=[2.0, 3.0]), offset=[1.0, 2.0]
    ),
}  # fmt: skip

DECODES = {
    "decoders.image": lambda data: fn.decoders.image(data, output_type=types.BGR),
    "decoders.image_crop": lambda data: fn.decoders.image_crop(data, crop=[9, 8], crop_pos_y=0.2),
    "decoders.image_random_crop": lambda data: fn.decoders.image_random_crop(data, random_area=[0.3, 0.9]),
    "decoders.image_slice": lambda data: fn.decoders.image_slice(data, rel_start=[0.1, 0.3], shape=[4, 5], axis_names="HW"),
    "peek_image_shape": lambda data: fn.peek_image_shape(data, dtype=types.INT32),
    "mixed": lambda data: fn.decoders.image(data, device="mixed", output_type=types.GRAY),
}

if importlib.util.find_spec("av"):
    CALLS["decoders.video"] = lambda: fn.decoders.video(video(), frames=[2, 0, 4], pad_mode="constant", fill_value=[7, 8, 9])

def as_declared(name):
    """The first output of an operator for inputs of the declared type, rank and layout, called as in helpers/guarded.py."""
    schema = load_registry()[name].schema
    call = calls(name, schema)[0]
    inputs = []
    for position in range(call.inputs):
        accepted = declared(schema.accepts, position)
        dtype, shape = usual(accepted, call, position)
        content = np.asarray(call.contents.get(position, np.arange(np.prod(shape, dtype=int)) % 7), np.float32).reshape(-1)
        layout = accepted.layouts.assumed(len(shape)) or ""
        inputs.append(fn.constant(fdata=content.tolist(), dtype=dtype, shape=list(shape), layout=layout))
    found = functools.reduce(getattr, name.split("."), fn)(*inputs, **call.constants)
    return found[0] if isinstance(found, list) else found


OF_PYTHON = {"dl_tensor_python_function", "experimental.numba_function", "jax_function", "python_function"}
"""Operators that hold Python objects; an `external_source` without `source` does not."""


_NAMED = Path(__file__).read_text()
CALLS |= {
    name: functools.partial(as_declared, name)
    for name, kind in load_registry().items()
    if kind.schema.inputs[1] and not name.startswith("_") and not mentions(name, _NAMED) and calls(name, kind.schema)
}


def stored(pipe):
    """The pipeline, serialized and deserialized."""
    text = pipe.serialize()
    again = Pipeline.deserialize(text)
    assert again.serialize() == text
    return again


def defined(graph, **options):
    return pipeline_def(**{"batch_size": SIZE, "num_threads": 2, "device_id": None, "seed": 5, **options})(graph)()


def operators_in(pipe):
    return {entry["op"] for entry in json.loads(pipe.serialize())["operators"]}


def both(graph, **options):
    """For each output: two iterations of a pipeline, and two of the deserialized pipeline."""
    made = defined(graph, **options)
    return zip(*[[*map(list, zip(*(values(pipe.run()) for _ in range(2))))] for pipe in (made, stored(made))])


@pytest.fixture(scope="module")
def outputs():
    return dict(zip(CALLS, both(lambda: tuple(call() for call in CALLS.values()), device_id=0), strict=True))


@pytest.mark.parametrize("name", CALLS)
def test_round_trip(name, outputs):
    ours, again = outputs[name]
    np.testing.assert_equal(again, ours)


@pytest.mark.parametrize("name", ["flip", "filter", "box_encoder", "reductions.sum"])
def test_operators_without_a_row(name):
    """A new operator needs no row in CALLS. This test calls the operators with a row in the way of operators without a row."""
    ((ours, again),) = both(lambda: (as_declared(name),))
    np.testing.assert_equal(again, ours)


def test_decoders(tmp_path):
    for k in range(7):
        (tmp_path / f"{k}.jpg").write_bytes(encode(picture_of(20 + k, 30 - k, seed=k), "JPEG"))

    def graph():
        data, label = fn.readers.file(file_root=str(tmp_path), files=[f"{k}.jpg" for k in range(7)], random_shuffle=True, name="R")
        return label, *[decode(data) for decode in DECODES.values()]

    names = ["readers.file", *DECODES]
    for name, (ours, again) in zip(names, both(graph, device_id=0), strict=True):
        np.testing.assert_equal(again, ours, err_msg=name)


@pytest.mark.parametrize("name", sorted(set(EVERY_KIND) - {"io.file.read"}))
def test_readers(name, tmp_path):
    kind = EVERY_KIND[name]
    files = kind.write(tmp_path)
    made = pipeline(kind, {**files, "random_shuffle": True, "num_shards": 2, "shard_id": 1, "pad_last_batch": True})
    again = stored(made)
    again.build()
    assert again.reader_meta() == made.reader_meta()
    assert delivered(kind, again, 5) == delivered(kind, made, 5)


@pytest.mark.parametrize(
    "feature",
    [
        tfrecord.FixedLenFeature((), tfrecord.string, b"\xff\0"),
        tfrecord.FixedLenFeature([2, 3], tfrecord.float32, np.ones((2, 3))),
        tfrecord.VarLenFeature(tfrecord.int64, None),
        tfrecord.VarLenFeature([4], tfrecord.float32, [1.0, 2.0, 3.0, 4.0][0]),
    ],
    ids=repr,
)
def test_features_of_tfrecord(feature):
    again = decode_value(json.loads(json.dumps(encode_value({"b": feature, "a": feature}))))
    assert list(again) == ["b", "a"] and repr(again["a"]) == repr(feature)
    for name, wrong in (("kind", 9), ("shape", [-1]), ("default", {"bytes": "AAAA"} if feature.kind != tfrecord.string else 5)):
        damaged = encode_value(feature)
        damaged["fields"]["dict"] = [[key, wrong if key == name else item] for key, item in damaged["fields"]["dict"]]
        with pytest.raises((TypeError, ValueError)):
            decode_value(damaged)
    with pytest.raises(KeyError):
        decode_value({"object": "Pipeline", "fields": {"dict": []}})


def test_names_of_files_that_are_fed(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")

    def graph():
        return fn.io.file.read(fn.external_source(name="names", dtype=types.UINT8, ndim=1))

    pipe = stored(defined(graph, batch_size=1))
    pipe.feed_input("names", [np.frombuffer(str(tmp_path / "a").encode(), np.uint8)])
    assert values(pipe.run()) == [[[97, 98, 99]]]


@pytest.mark.parametrize("name", sorted(OF_PYTHON & set(load_registry())))
def test_python_objects_are_refused(name):
    numba = {"in_types": [types.FLOAT], "out_types": [types.FLOAT], "ins_ndim": [0], "outs_ndim": [0], "run_fn": max}
    call, arguments = (fn.experimental.numba_function, numba) if "numba" in name else (getattr(fn, name), {"function": max})
    with pytest.raises(RuntimeError, match=f"Could not serialize the operator: `asyncdali.fn.{name}`"):
        defined(lambda: call(scalar(), **arguments)).serialize()


REGROUPED = {
    "experimental.select": lambda data: fn.experimental.select(data, where=data > 0),
    "experimental.mix": lambda data: fn.experimental.mix([(data, 1.0)]),
    "experimental.batch_by": lambda data: fn.experimental.batch_by(data, length=data, budget=4),
    "experimental.ready": lambda data: fn.experimental.ready(data),
}


@pytest.mark.parametrize("name", REGROUPED)
def test_regroupings_are_refused(name):
    pipe = defined(lambda: REGROUPED[name](fn.external_source(lambda info: np.float32(info.idx_in_epoch + 1), batch=False)))
    with pytest.raises(RuntimeError, match=f"Could not serialize the operator: `asyncdali.fn.{name}`"):
        pipe.serialize()


def test_every_operator_has_its_case(tmp_path):
    def rest():
        data = fn.external_source(name="data")
        others = fn.io.file.read(data), fn.dump_image(data, suffix="a"), fn.optical_flow(data, preset=0.5)
        return *[decode(data) for decode in DECODES.values()], *others

    found = operators_in(defined(lambda: tuple(call() for call in CALLS.values()))) | operators_in(defined(rest))
    for name in set(EVERY_KIND) - {"io.file.read"}:
        folder = tmp_path / name
        folder.mkdir()
        found |= operators_in(pipeline(EVERY_KIND[name], EVERY_KIND[name].write(folder)))
    videos = {"decoders.video", "experimental.readers.video", "readers.video"}  # if PyAV is not installed
    elsewhere = {"experimental.inputs.video", "readers.video_resize"}  # in test_video_input.py
    assert set(load_registry()) - OF_PYTHON - set(REGROUPED) - found <= {"_transfer", *videos, *elsewhere}


@pytest.mark.slow  # compiles nearly all kernels
def test_every_operator_computes_the_same_from_copied_plans(monkeypatch):
    def results(graph):
        pipeline = pipeline_of(graph, batch_size=4)
        try:
            return [values(pipeline.run()) for _ in range(6)]
        finally:
            pipeline.close()

    copied = {name: results(graph) for name, graph in CALLS.items()}
    monkeypatch.setattr(segments, "operator_templates", lambda built: None)
    monkeypatch.setattr(segments, "segment_templates", lambda *_: None)
    for name, graph in CALLS.items():
        np.testing.assert_equal(copied[name], results(graph), err_msg=name)
