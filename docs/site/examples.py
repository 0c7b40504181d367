"""The example of each operator, as the lines of a pipeline. `programs.py` makes programs of them, runs them, and draws their outputs."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """The lines of a pipeline that shows an operator."""

    results: tuple[str, ...]
    """Expressions; the pipeline returns their values."""
    before: str = ""
    """Lines in the pipeline, before the results."""
    imports: str = ""
    """Lines before the pipeline."""
    needs: tuple[str, ...] = ()
    """Modules without which the example cannot run."""
    kind: str = "picture"
    """"picture": settings beside `picture`; "sound": beside `sound`; "values": the outputs are printed; "shapes": only their shapes are."""
    file: str = "5_stars/1.jpg"
    batch: int = 1


def pictures(*results: str, **given: str) -> Example:
    return Example(results, **given)  # type: ignore[arg-type]


def sounds(*results: str, before: str = "") -> Example:
    return Example(results, before, kind="sound")


def values(*results: str, before: str = "", imports: str = "", batch: int = 1, needs: tuple[str, ...] = ()) -> Example:
    return Example(results, before, imports, needs, "values", batch=batch)


def shapes(*results: str, before: str = "", imports: str = "", needs: tuple[str, ...] = ()) -> Example:
    return Example(results, before, imports, needs, "shapes")


def settings(call: str, *given: str, **more: str) -> Example:
    """One call with several settings: ``call`` has ``...`` where the settings go."""
    return pictures(*(call.replace("...", text) for text in given), **more)


MATRIX = "[[1.0, {}, {}], [{}, 1.0, {}]]"
NUMBERS = 'numbers = types.Constant(np.float32([[3, 1, 2], [6, 5, 4]]), device="cpu")'
BOXES = 'boxes = types.Constant(np.float32([[0.1, 0.2, 0.5, 0.6], [0.4, 0.1, 0.9, 0.5]]), device="cpu")\n'
LABELS = 'labels = types.Constant(np.int32([1, 2]), device="cpu")\n'
MASK = """mask = np.zeros((6, 8), np.int32)
mask[1:3, 1:4] = 1
mask[4:6, 5:8] = 2"""
FRAMES = "frames = fn.stack(picture, fn.flip(picture), fn.rotate(picture, angle=20, keep_size=True))"
FOLDER = "folder = Path(tempfile.mkdtemp())"
SOUND_FILE = """folder = Path(tempfile.mkdtemp())
tone = (np.sin(np.arange(16000) / 10) * 20000).astype("<i2")
with wave.open(str(folder / "tone.wav"), "wb") as file:
    file.setparams((1, 2, 16000, 0, "NONE", ""))
    file.writeframes(tone.tobytes())"""
VIDEO = """folder = Path(tempfile.mkdtemp())
with av.open(str(folder / "clip.mp4"), "w") as video:
    stream = video.add_stream("mpeg4", rate=25)
    stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
    for k in range(20):
        picture = np.full((96, 128, 3), 40 + 10 * k, np.uint8)
        video.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
    video.mux(stream.encode())"""
PROTO = """def field(number, value):  # a field of a protocol buffer
    return bytes([number << 3]) + bytes([value]) if isinstance(value, int) else bytes([number << 3 | 2, len(value)]) + value"""

CHECKSUM = """def checksum(data):  # CRC-32C, masked as in TFRecord files
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)"""

EXAMPLES: dict[str, Example] = {
    # --- colours
    "brightness": settings("fn.brightness(picture, ...)", "brightness=0.5", "brightness=1.5", "brightness_shift=0.3"),
    "contrast": settings("fn.contrast(picture, ...)", "contrast=0.4", "contrast=1.8", "contrast=2.5, contrast_center=180"),
    "brightness_contrast": settings(
        "fn.brightness_contrast(picture, ...)", "brightness=1.3, contrast=0.6", "brightness=0.7, contrast=1.6", "brightness_shift=-0.2, contrast=1.4"),
    "saturation": settings("fn.saturation(picture, ...)", "saturation=0.0", "saturation=0.4", "saturation=2.5"),
    "hue": settings("fn.hue(picture, ...)", "hue=60", "hue=140", "hue=-90"),
    "hsv": settings("fn.hsv(picture, ...)", "hue=60", "saturation=0.3, value=1.2", "hue=-40, saturation=1.6, value=0.7"),
    "color_twist": settings(
        "fn.color_twist(picture, ...)", "hue=40, saturation=1.5", "brightness=1.3, contrast=0.7", "hue=-70, brightness=0.8, contrast=1.5"),
    "color_space_conversion": settings(
        "fn.color_space_conversion(picture, image_type=types.RGB, ...)",
        "output_type=types.GRAY", "output_type=types.BGR", "output_type=types.YCbCr"),
    "equalize": pictures("fn.equalize(picture)", "fn.equalize(fn.brightness(picture, brightness=0.3))", "fn.equalize(fn.contrast(picture, contrast=0.2))"),
    "clahe": settings("fn.clahe(picture, ...)", "tiles_x=4, tiles_y=4, clip_limit=2.0", "tiles_x=8, tiles_y=8, clip_limit=6.0", "tiles_x=2, tiles_y=2, clip_limit=10.0"),
    "jpeg_compression_distortion": settings("fn.jpeg_compression_distortion(picture, ...)", "quality=40", "quality=10", "quality=2"),
    "debayer": settings(
        "fn.debayer(grey, ...)", 'blue_position=[0, 0]', 'blue_position=[0, 1]', 'blue_position=[1, 1]',
        before="grey = fn.color_space_conversion(picture, image_type=types.RGB, output_type=types.GRAY)"),
    "lookup_table": settings(
        "fn.lookup_table(picture, dtype=types.UINT8, ...)",
        "keys=list(range(256)), values=[255 - k for k in range(256)]",
        "keys=list(range(256)), values=[k // 64 * 64 for k in range(256)]",
        "keys=list(range(128)), values=list(range(128)), default_value=255"),
    # --- sizes and places
    "resize": settings("fn.resize(picture, ...)", "size=[100, 100]", "resize_shorter=60", "resize_x=24, interp_type=types.INTERP_NN"),
    "experimental.resize": settings("fn.experimental.resize(picture, ...)", "size=[100, 100]", "resize_shorter=60", "resize_x=24, interp_type=types.INTERP_NN"),
    "tensor_resize": settings("fn.tensor_resize(picture, ...)", "sizes=[100, 100, 3]", "scales=[0.5, 0.25, 1.0]", 'sizes=[40, 40], axis_names="HW"'),
    "resize_crop_mirror": settings(
        "fn.resize_crop_mirror(picture, ...)", "resize_shorter=200, crop=[150, 150]", "resize_shorter=200, crop=[150, 150], mirror=1",
        "size=[120, 200], crop=[100, 100], crop_pos_x=1.0"),
    "random_resized_crop": pictures(*["fn.random_resized_crop(picture, size=[150, 150], random_area=[0.1, 0.5])"] * 3),
    "crop": settings("fn.crop(picture, ...)", "crop=[150, 150]", "crop=[150, 150], crop_pos_x=0.0, crop_pos_y=1.0",
                     'crop=[340, 440], out_of_bounds_policy="pad", fill_values=[255, 200, 0]'),
    "crop_mirror_normalize": settings(
        "fn.crop_mirror_normalize(picture, ...)", "crop=[200, 200], mirror=1, dtype=types.UINT8",
        'mean=[128.0], std=[50.0], output_layout="CHW"', 'mean=[120.0, 60.0, 0.0], std=[60.0], dtype=types.FLOAT'),
    "slice": settings(
        "fn.slice(picture, ...)", 'start=[50, 100], shape=[150, 200], axis_names="HW"', "rel_start=[0.5, 0.0], rel_shape=[0.5, 0.5], axis_names=\"HW\"",
        'start=[-40, -40], shape=[380, 480], axis_names="HW", out_of_bounds_policy="pad", fill_values=90'),
    "flip": settings("fn.flip(picture, ...)", "horizontal=1", "horizontal=0, vertical=1", "horizontal=1, vertical=1"),
    "rotate": settings("fn.rotate(picture, ...)", "angle=20", "angle=20, keep_size=True, fill_value=200", "angle=90"),
    "warp_affine": settings(
        "fn.warp_affine(picture, ...)", "matrix=[1, 0.3, 0, 0, 1, 0], fill_value=0", "matrix=[0.5, 0, 0, 0, 0.5, 0]",
        "matrix=fn.transforms.rotation(angle=30, center=[200, 150]), fill_value=255, inverse_map=False"),
    "experimental.warp_perspective": settings(
        "fn.experimental.warp_perspective(picture, ...)", "matrix=[1, 0.2, 0, 0, 1, 0, 0.001, 0, 1]",
        "matrix=[1, 0, 0, 0, 1, 0, 0, 0.002, 1], fill_value=[255]", "matrix=[0.7, 0, 30, 0.1, 0.7, 0, 0, 0, 1]"),
    "experimental.remap": settings(
        "fn.experimental.remap(picture, columns, rows, ...)", "", "interp=types.INTERP_NN", 'pixel_origin="center"',
        imports="Y, X = np.mgrid[0:300, 0:400].astype(np.float32)",
        before='columns = types.Constant(X + 20 * np.sin(Y / 15), device="cpu")\nrows = types.Constant(Y, device="cpu")'),
    "sphere": settings("fn.sphere(picture, ...)", "", "fill_value=255", "interp_type=types.INTERP_NN"),
    "water": settings(
        "fn.water(picture, ...)", "ampl_x=8.0, ampl_y=8.0", "ampl_x=20.0, freq_x=0.1", "ampl_y=15.0, freq_y=0.03, fill_value=255"),
    "jitter": settings("fn.jitter(picture, ...)", "nDegree=4", "nDegree=12", "nDegree=30"),
    "pad": settings("fn.pad(picture, ...)", 'axis_names="HW", shape=[340, 440], fill_value=255', 'axis_names="W", shape=[500]', 'axis_names="HW", align=[256, 256]'),
    "transpose": settings("fn.transpose(picture, ...)", "perm=[1, 0, 2]", "perm=[1, 0, 2], transpose_layout=False", "perm=[2, 0, 1]"),
    "cat": settings("fn.cat(picture, fn.flip(picture), ...)", 'axis_name="W"', 'axis_name="H"', "axis=1"),
    "copy": pictures("fn.copy(picture)"),
    # --- masks, pastes, filters
    "erase": settings(
        "fn.erase(picture, ...)", "anchor=[60, 40], shape=[120, 90]", "anchor=[0.1, 0.1, 0.6, 0.5], shape=[0.2, 0.4, 0.3, 0.3], normalized=True",
        'anchor=[150], shape=[60], axis_names="W", fill_value=[255, 200, 0]'),
    "grid_mask": settings("fn.grid_mask(picture, ...)", "tile=60, ratio=0.5", "tile=30, ratio=0.3", "tile=80, ratio=0.5, angle=0.6"),
    "paste": settings(
        "fn.paste(picture, ...)", "ratio=1.5, fill_value=[60, 60, 60]", "ratio=2.0, paste_x=0.0, paste_y=1.0, fill_value=[255, 255, 255]",
        "ratio=1.4, min_canvas_size=600.0, fill_value=[0, 90, 160]"),
    "multi_paste": settings(
        "fn.multi_paste(picture, fn.flip(picture, vertical=1), output_size=[300, 400], ...)",
        "shapes=np.int32([[150, 200], [150, 200]]), in_anchors=np.int32([[0, 0], [0, 0]]), out_anchors=np.int32([[0, 0], [150, 200]])",
        "shapes=np.int32([[300, 200], [300, 200]]), in_anchors=np.int32([[0, 0], [0, 200]]), out_anchors=np.int32([[0, 0], [0, 200]])",
        "shapes=np.int32([[100, 100], [80, 160]]), in_anchors=np.int32([[50, 50], [0, 0]]), out_anchors=np.int32([[20, 20], [180, 200]])"),
    "gaussian_blur": settings("fn.gaussian_blur(picture, ...)", "sigma=2.0", "sigma=8.0", "sigma=[0.5, 12.0]"),
    "laplacian": settings("fn.laplacian(picture, ...)", "window_size=3, dtype=types.UINT8", "window_size=5, dtype=types.UINT8, scale=0.5", "window_size=3, smoothing_size=5, dtype=types.UINT8, scale=0.5"),
    "filter": settings(
        "fn.filter(picture, kernel, ...)", "", 'border="wrap"', "anchor=[0, 0]",
        before='kernel = types.Constant(np.full((1, 15), 1 / 15, np.float32), device="cpu")'),
    "experimental.median_blur": settings("fn.experimental.median_blur(picture, ...)", "window_size=3", "window_size=7", "window_size=15"),
    "experimental.dilate": settings("fn.experimental.dilate(picture, ...)", "mask_size=[5, 5]", "mask_size=[15, 1]", "mask_size=[5, 5], iterations=3"),
    "experimental.erode": settings("fn.experimental.erode(picture, ...)", "mask_size=[5, 5]", "mask_size=[15, 1]", "mask_size=[5, 5], iterations=3"),
    "noise.gaussian": settings("fn.noise.gaussian(picture, ...)", "stddev=15.0", "stddev=50.0", "mean=40.0, stddev=20.0"),
    "noise.salt_and_pepper": settings("fn.noise.salt_and_pepper(picture, ...)", "prob=0.02", "prob=0.2", "prob=0.1, salt_vs_pepper=1.0, per_channel=True"),
    "noise.shot": settings("fn.noise.shot(picture, ...)", "factor=5.0", "factor=20.0", "factor=60.0"),
    "normalize": settings("fn.normalize(picture, ...)", "axes=[0, 1]", "mean=128.0, stddev=60.0", "axes=[0, 1, 2], scale=50.0, shift=100.0, dtype=types.UINT8"),
    # --- decoders
    "decoders.image": settings("fn.decoders.image(jpegs, ...)", "output_type=types.RGB", "output_type=types.GRAY", "output_type=types.BGR"),
    "decoders.image_crop": settings("fn.decoders.image_crop(jpegs, ...)", "crop=[150, 150]", "crop=[150, 150], crop_pos_x=0.0, crop_pos_y=1.0", "crop_w=300, crop_h=60"),
    "decoders.image_random_crop": pictures(*["fn.decoders.image_random_crop(jpegs, random_area=[0.1, 0.5])"] * 3),
    "decoders.image_slice": settings(
        "fn.decoders.image_slice(jpegs, ...)", 'start=[50, 100], shape=[150, 200], axis_names="HW"',
        'rel_start=[0.5, 0.0], rel_shape=[0.5, 0.5], axis_names="HW"', 'end=[100, 400], axis_names="HW"'),
    "peek_image_shape": values("fn.peek_image_shape(jpegs)"),
    "decoders.inflate": values(
        'fn.decoders.inflate(packed, shape=[4], dtype=types.INT32, algorithm="LZ4")',
        before='packed = types.Constant(np.frombuffer(bytes([240, 1]) + np.int32([1, 2, 3, 4]).tobytes(), np.uint8), device="cpu")'),
    "decoders.numpy": values(
        "fn.decoders.numpy(encoded)", imports='import io\n\nfile = io.BytesIO()\nnp.save(file, np.arange(6).reshape(2, 3))',
        before='encoded = types.Constant(np.frombuffer(file.getvalue(), np.uint8), device="cpu")'),
    "decoders.audio": Example(
        ("fn.decoders.audio(encoded, downmix=True)[0]", "fn.decoders.audio(encoded, sample_rate=8000, downmix=True)[0]", "fn.decoders.audio(encoded, dtype=types.INT16)[0]"),
        "encoded, _ = fn.readers.file(files=[str(folder / 'tone.wav')])", f"import tempfile\nimport wave\n\n{SOUND_FILE}", kind="shapes"),
    "decoders.video": shapes(
        "fn.decoders.video(encoded)", "fn.decoders.video(encoded, start_frame=2, sequence_length=5)", imports=f"import tempfile\n\nimport av\n\n{VIDEO}",
        before="encoded, _ = fn.readers.file(files=[str(folder / 'clip.mp4')])", needs=("av",)),
    # --- sound
    "audio_resample": sounds("fn.audio_resample(sound, in_rate=16000, out_rate=8000)", "fn.audio_resample(sound, scale=0.5)", "fn.audio_resample(sound, out_length=4000)"),
    "preemphasis_filter": sounds("fn.preemphasis_filter(sound)", "fn.preemphasis_filter(sound, preemph_coeff=0.5)", 'fn.preemphasis_filter(sound, border="zero")'),
    "spectrogram": sounds("fn.spectrogram(sound)", "fn.spectrogram(sound, nfft=256, window_length=256, window_step=64)", "fn.spectrogram(sound, nfft=1024, window_length=1024, power=1)"),
    "mel_filter_bank": sounds("fn.mel_filter_bank(spectrum)", "fn.mel_filter_bank(spectrum, nfilter=40, sample_rate=16000)", "fn.mel_filter_bank(spectrum, nfilter=80, sample_rate=16000, freq_low=300, freq_high=6000)",
                              before="spectrum = fn.spectrogram(sound)"),
    "to_decibels": sounds("fn.to_decibels(spectrum)", "fn.to_decibels(spectrum, cutoff_db=-40.0)", "fn.to_decibels(spectrum, multiplier=20.0, reference=1.0)",
                          before="spectrum = fn.spectrogram(sound)"),
    "mfcc": sounds("fn.mfcc(decibels)", "fn.mfcc(decibels, n_mfcc=13)", "fn.mfcc(decibels, n_mfcc=13, lifter=22.0)",
                   before="decibels = fn.to_decibels(fn.mel_filter_bank(fn.spectrogram(sound), nfilter=40, sample_rate=16000))"),
    "power_spectrum": values("fn.power_spectrum(numbers, axis=1)", before='numbers = types.Constant(np.float32([[0, 1, 0, -1], [1, 1, 1, 1]]), device="cpu")'),
    "nonsilent_region": values(
        "*fn.nonsilent_region(sound, cutoff_db=-30.0)",
        before='sound = types.Constant(np.float32([0] * 3000 + [0.5, -0.5] * 2000 + [0] * 3000), device="cpu")'),
    # --- random numbers
    "random.uniform": values("fn.random.uniform(range=[0.0, 1.0], shape=[3])", "fn.random.uniform(values=[2, 4, 8])", batch=3),
    "random.normal": values("fn.random.normal(mean=10.0, stddev=2.0, shape=[3])", batch=3),
    "random.coin_flip": values("fn.random.coin_flip(probability=0.25)", batch=6),
    "random.beta": values("fn.random.beta(alpha=2.0, beta=5.0, shape=[3])", batch=3),
    "random.choice": values("fn.random.choice(10, shape=[4])", "fn.random.choice([1, 5, 9], p=[0.8, 0.1, 0.1], shape=[4])", batch=3),
    "random_crop_generator": values("*fn.random_crop_generator(shape, random_area=[0.1, 0.5])", before="shape = fn.peek_image_shape(jpegs, dtype=types.INT64)", batch=2),
    "roi_random_crop": values(
        "fn.roi_random_crop(crop_shape=[100, 100], roi_start=[40, 60], roi_shape=[30, 30], in_shape=[300, 400])", batch=3),
    # --- boxes and masks
    "bb_flip": values("fn.bb_flip(boxes, ltrb=True, horizontal=1)", before=BOXES),
    "bbox_paste": values("fn.bbox_paste(boxes, ltrb=True, ratio=2.0, paste_x=0.0, paste_y=0.0)", before=BOXES),
    "bbox_rotate": values("fn.bbox_rotate(boxes, angle=90.0, input_shape=[300, 400])", before=BOXES),
    "box_encoder": values("*fn.box_encoder(boxes, labels, anchors=[0.1, 0.2, 0.5, 0.6, 0.0, 0.0, 1.0, 1.0])", before=BOXES + LABELS),
    "random_bbox_crop": values("*fn.random_bbox_crop(boxes, labels, bbox_layout=\"xyXY\", thresholds=[0.0, 0.3], scaling=[0.5, 1.0])", before=BOXES + LABELS),
    "ssd_random_crop": Example(("*fn.ssd_random_crop(picture, boxes, labels)",), BOXES + LABELS, kind="shapes"),
    "segmentation.random_mask_pixel": values("fn.segmentation.random_mask_pixel(types.Constant(mask, device=\"cpu\"), foreground=1)", imports=MASK, batch=3),
    "segmentation.random_object_bbox": values("*fn.segmentation.random_object_bbox(types.Constant(mask, device=\"cpu\"))", imports=MASK, batch=2),
    "segmentation.select_masks": values(
        "*fn.segmentation.select_masks(ids, polygons, vertices)",
        before='ids = types.Constant(np.int32([1]), device="cpu")\npolygons = types.Constant(np.int32([[0, 0, 3], [1, 3, 6]]), device="cpu")\n'
               'vertices = types.Constant(np.float32([[0, 0], [1, 0], [1, 1], [2, 2], [3, 2], [3, 3]]), device="cpu")'),
    # --- matrices of coordinates
    "transforms.rotation": values("fn.transforms.rotation(angle=30.0, center=[200, 150])"),
    "transforms.scale": values("fn.transforms.scale(scale=[2.0, 0.5])"),
    "transforms.shear": values("fn.transforms.shear(angles=[20.0, 0.0])"),
    "transforms.translation": values("fn.transforms.translation(offset=[10.0, -20.0])"),
    "transforms.crop": values("fn.transforms.crop(from_start=[0.0, 0.0], from_end=[1.0, 1.0], to_start=[0.0, 0.0], to_end=[400.0, 300.0])"),
    "transforms.combine": values("fn.transforms.combine(fn.transforms.scale(scale=[2.0, 2.0]), fn.transforms.translation(offset=[5.0, 5.0]))"),
    "coord_transform": values("fn.coord_transform(points, M=[2.0, 0.0, 0.0, 2.0], T=[1.0, 1.0])", before='points = types.Constant(np.float32([[0, 0], [1, 2]]), device="cpu")'),
    "coord_flip": values("fn.coord_flip(points, flip_x=1)", before='points = types.Constant(np.float32([[0.25, 0.5], [0.75, 0.1]]), device="cpu")'),
    # --- shapes, types, numbers
    "cast": values("fn.cast(numbers, dtype=types.INT32)", before=NUMBERS),
    "cast_like": values("fn.cast_like(numbers, types.Constant(np.int16([0]), device=\"cpu\"))", before=NUMBERS),
    "expand_dims": shapes("fn.expand_dims(picture, axes=[0])", 'fn.expand_dims(picture, axes=[0], new_axis_names="F")'),
    "squeeze": shapes("fn.squeeze(fn.expand_dims(picture, axes=[0]), axes=[0])"),
    "reshape": shapes("fn.reshape(picture, shape=[-1, 3])", "fn.reshape(picture, src_dims=[1, 0, 2])"),
    "reinterpret": values("fn.reinterpret(numbers, dtype=types.INT32)", before=NUMBERS),
    "shapes": values("fn.shapes(picture)"),
    "get_property": values('fn.get_property(picture, key="layout")', 'fn.get_property(jpegs, key="source_info")'),
    "stack": shapes("fn.stack(picture, fn.flip(picture))", "fn.stack(picture, fn.flip(picture), axis=-1)"),
    "one_hot": values("fn.one_hot(types.Constant(np.int32([0, 2, 1]), device=\"cpu\"), num_classes=4)"),
    "constant": values("fn.constant(idata=[1, 2, 3])", "fn.constant(fdata=[0.5], shape=[2, 2])"),
    "full": values("fn.full(7, shape=[2, 2])"),
    "full_like": values("fn.full_like(numbers, 7)", before=NUMBERS),
    "ones": values("fn.ones(shape=[2, 2])"),
    "ones_like": values("fn.ones_like(numbers)", before=NUMBERS),
    "zeros": values("fn.zeros(shape=[2, 2], dtype=types.FLOAT)"),
    "zeros_like": values("fn.zeros_like(numbers)", before=NUMBERS),
    **{f"reductions.{name}": values(f"fn.reductions.{name}(numbers)", f"fn.reductions.{name}(numbers, axes=[0])", before=NUMBERS)
       for name in ("max", "mean", "mean_square", "min", "rms", "sum")},
    **{f"reductions.{name}": values(f"fn.reductions.{name}(numbers, fn.reductions.mean(numbers))", before=NUMBERS) for name in ("std_dev", "variance")},
    # --- batches, sequences
    "experimental.mix": values(
        "fn.experimental.mix([(few, 0.75), (many, 0.25)], per=\"sample\", stop=\"never\")", batch=8,
        before='few = fn.readers.file(file_root=str(PICTURES), files=["0_circles/0.jpg", "0_circles/1.jpg"], labels=[0, 1])[1]\n'
               'many = fn.readers.file(file_root=str(PICTURES), files=[f"5_stars/{k}.jpg" for k in range(8)], labels=list(range(100, 108)))[1]'),
    "experimental.batch_by": values(
        "fn.experimental.batch_by(labels, length=labels[0] + 1, budget=24, window=64)", batch=8,
        before="_, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True)"),
    "experimental.ready": values(
        "fn.experimental.ready(labels, window=4)", batch=4,
        before="_, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True)"),
    "experimental.select": values(
        "fn.experimental.select(labels, where=labels[0] % 3 == 0)", batch=4,
        before="_, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True)"),
    "batch_permutation": values("fn.batch_permutation()", batch=4),
    "permute_batch": values("fn.permute_batch(draw, indices=[2, 1, 0])", "draw", before="draw = fn.random.uniform(range=[0.0, 1.0])", batch=3),
    "element_extract": shapes("*fn.element_extract(frames, element_map=[0, 2])", before=FRAMES),
    "sequence_rearrange": shapes("fn.sequence_rearrange(frames, new_order=[2, 0])", before=FRAMES),
    "per_frame": pictures(
        "fn.rotate(frames, angle=fn.per_frame(angles), keep_size=True)[0]", "fn.rotate(frames, angle=fn.per_frame(angles), keep_size=True)[1]",
        "fn.rotate(frames, angle=fn.per_frame(angles), keep_size=True)[2]",
        before='frames = fn.stack(picture, picture, picture)\nframes = fn.reinterpret(frames, layout="FHWC")\nangles = types.Constant(np.float32([0, 20, 40]), device="cpu")'),
    "optical_flow": shapes("fn.optical_flow(frames)", before=FRAMES.replace("frames =", "frames =", 1) + '\nframes = fn.reinterpret(frames, layout="FHWC")'),
    "dump_image": Example(('fn.dump_image(picture, suffix="stars")',), imports="import os\nimport tempfile\n\nos.chdir(tempfile.mkdtemp())  # the file 0-stars-0.ppm is written here", kind="shapes"),
    # --- data from Python
    "external_source": values(
        "fn.external_source(numbers, batch=False)",
        imports="def numbers(sample):\n    return np.int32([sample.idx_in_epoch, sample.iteration])", batch=3),
    "python_function": pictures(
        "fn.python_function(picture, function=lambda image: 255 - image)", "fn.python_function(picture, function=lambda image: image[::-1])",
        "fn.python_function(picture, function=lambda image: image // 64 * 64)"),
    "dl_tensor_python_function": values(
        "fn.dl_tensor_python_function(numbers, function=same, synchronize_stream=False)", imports="def same(capsules):\n    return capsules", before=NUMBERS),
    "experimental.numba_function": pictures(
        "fn.experimental.numba_function(picture, run_fn=invert, out_types=[types.UINT8], in_types=[types.UINT8], outs_ndim=[3], ins_ndim=[3])",
        imports="def invert(output, image):\n    output[:] = 255 - image"),
    # --- readers
    "readers.file": values("fn.readers.file(file_root=str(PICTURES), random_shuffle=True)[1]", batch=6),
    "io.file.read": shapes("fn.io.file.read(path)", before='path = types.Constant(np.frombuffer(str(PICTURES / "0_circles" / "0.jpg").encode(), np.uint8), device="cpu")'),
    "readers.numpy": values(
        "fn.readers.numpy(file_root=str(folder))", imports=f'import tempfile\n\n{FOLDER}\nnp.save(folder / "a.npy", np.arange(6).reshape(2, 3))'),
    "readers.webdataset": values(
        'fn.readers.webdataset(paths=str(folder / "a.tar"), ext=["txt"], missing_component_behavior="error")',
        imports=f'import io\nimport tarfile\nimport tempfile\n\n{FOLDER}\nwith tarfile.open(folder / "a.tar", "w") as tar:\n    for k in range(3):\n'
                '        entry = tarfile.TarInfo(f"{k}.txt")\n        entry.size = 1\n        tar.addfile(entry, io.BytesIO(str(k).encode()))', batch=3),
    "readers.tfrecord": values(
        'fn.readers.tfrecord(path=str(folder / "a.rec"), index_path=str(folder / "a.idx"), features={"label": tfrec.FixedLenFeature([1], tfrec.int64, -1)})["label"]',
        imports=f"import struct\nimport tempfile\n\nimport asyncdali.tfrecord as tfrec\n\n{PROTO}\n\n\n{CHECKSUM}\n\n\n"
                'label = field(1, field(1, field(1, b"label") + field(2, field(3, field(1, bytes([7]))))))\n'
                'length = struct.pack("<Q", len(label))\nrecord = length + checksum(length) + label + checksum(label)\n'
                f'{FOLDER}\n(folder / "a.rec").write_bytes(record)\n(folder / "a.idx").write_text(f"0 {{len(record)}}\\n")'),
    "readers.mxnet": Example(
        ('*fn.readers.mxnet(path=[str(folder / "a.rec")], index_path=[str(folder / "a.idx")])',),
        imports=f'import struct\nimport tempfile\n\njpeg = (PICTURES / "0_circles" / "0.jpg").read_bytes()\nrecord = struct.pack("<IfQQ", 0, 3.0, 0, 0) + jpeg\n'
                f'padding = bytes(-len(record) % 4)\n{FOLDER}\n(folder / "a.rec").write_bytes(struct.pack("<II", 0xCED7230A, len(record)) + record + padding)\n'
                '(folder / "a.idx").write_text("0\\t0\\n")', kind="shapes"),
    "readers.coco": values(
        '*fn.readers.coco(file_root=str(PICTURES), annotations_file=str(folder / "boxes.json"), ltrb=True)[1:]',
        imports=f'import json\nimport tempfile\n\n{FOLDER}\n(folder / "boxes.json").write_text(json.dumps({{\n'
                '    "images": [{"id": 1, "file_name": "5_stars/1.jpg", "width": 400, "height": 300}],\n'
                '    "categories": [{"id": 5, "name": "star"}],\n'
                '    "annotations": [{"id": 1, "image_id": 1, "category_id": 5, "bbox": [20, 60, 130, 140], "area": 18200, "iscrowd": 0}],\n}))'),
    "readers.nemo_asr": Example(
        ('*fn.readers.nemo_asr(manifest_filepaths=[str(folder / "manifest.json")], read_sample_rate=True, read_text=True)',),
        imports=f'import json\nimport tempfile\nimport wave\n\n{SOUND_FILE}\n'
                '(folder / "manifest.json").write_text(json.dumps({"audio_filepath": str(folder / "tone.wav"), "duration": 1.0, "text": "a tone"}) + "\\n")',
        kind="shapes"),
    "readers.sequence": Example(
        ("fn.readers.sequence(file_root=str(folder), sequence_length=3)",),
        imports=f'import shutil\nimport tempfile\n\n{FOLDER}\n(folder / "a").mkdir()\nfor k in range(3):\n    shutil.copy(PICTURES / "0_circles" / f"{{k}}.jpg", folder / "a")', kind="shapes"),
    "readers.video": shapes("fn.readers.video(filenames=[str(folder / 'clip.mp4')], sequence_length=4)", imports=f"import tempfile\n\nimport av\n\n{VIDEO}", needs=("av",)),
    "readers.video_resize": shapes(
        "fn.readers.video_resize(filenames=[str(folder / 'clip.mp4')], sequence_length=4, size=[48, 64])", imports=f"import tempfile\n\nimport av\n\n{VIDEO}", needs=("av",)),
    "experimental.readers.video": shapes(
        "fn.experimental.readers.video(filenames=[str(folder / 'clip.mp4')], sequence_length=4)", imports=f"import tempfile\n\nimport av\n\n{VIDEO}", needs=("av",)),
    "experimental.readers.fits": values(
        "fn.experimental.readers.fits(file_root=str(folder))",
        imports=f'import tempfile\n\nfrom astropy.io import fits\n\n{FOLDER}\npicture = fits.ImageHDU(np.arange(6, dtype=np.float32).reshape(2, 3))\nfits.HDUList([fits.PrimaryHDU(), picture]).writeto(folder / "a.fits")', needs=("astropy",)),
    "readers.caffe": shapes(
        '*fn.readers.caffe(path=str(folder / "a"))',
        imports=f'import tempfile\n\nimport lmdb\n\njpeg = (PICTURES / "0_circles" / "0.jpg").read_bytes()\n'
                'size = bytes([len(jpeg) & 127 | 128, len(jpeg) >> 7 & 127 | 128, len(jpeg) >> 14])\n'
                'datum = b"\\x22" + size + jpeg + b"\\x28\\x03\\x38\\x01"  # data, label 3, encoded\n'
                f'{FOLDER}\nwith lmdb.open(str(folder / "a")) as store, store.begin(write=True) as transaction:\n    transaction.put(b"0", datum)', needs=("lmdb",)),
}  # fmt: skip
"""Operator -> its example."""

WITHOUT = {
    "readers.caffe2": "the data are those of `readers.caffe` in Caffe2's format",
    "experimental.inputs.video": "fed from outside: `pipe.feed_input(name, encoded_video)`",
}
"""Operators without an example of their own, and the reason, which the page gives."""
