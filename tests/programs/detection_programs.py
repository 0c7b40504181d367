"""Detection and segmentation: SSD, EfficientDet, masks, boxes."""

from __future__ import annotations

import numpy as np
from user_programs import AMPLIFIED, FLOATS, batches, program

ANCHORS = np.float32(
    [[x, y, x + s, y + s] for s in (0.2, 0.4, 0.6) for y in np.arange(0, 1.01 - s, 0.2) for x in np.arange(0, 1.01 - s, 0.2)]
)


def _coco(dali, data, **options):
    return dali.fn.readers.coco(file_root=str(data / "coco"), annotations_file=str(data / "coco" / "annotations.json"), **options)


@program(atol=0.04, rtol=1e-5, why=f"{AMPLIFIED}: 2 of 255 are 0.036")
def ssd_training(dali, data):
    fn, types = dali.fn, dali.types

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=8)
    def training():
        encoded, boxes, labels = _coco(dali, data, ratio=True, ltrb=True, random_shuffle=True, skip_empty=True, name="Reader")
        images = fn.decoders.image(encoded, output_type=types.RGB)
        crop_begin, crop_size, boxes, labels = fn.random_bbox_crop(
            boxes, labels, aspect_ratio=[0.5, 2.0], thresholds=[0, 0.1, 0.3, 0.5, 0.7, 0.9], scaling=[0.3, 1.0], bbox_layout="xyXY",
            allow_no_crop=True, num_attempts=50,
        )
        images = fn.slice(images, crop_begin, crop_size, out_of_bounds_policy="trim_to_shape")
        images = fn.resize(images, resize_x=48, resize_y=48, min_filter=types.INTERP_TRIANGULAR)
        images = fn.hsv(images, saturation=fn.random.uniform(range=[0.5, 1.5]), hue=fn.random.uniform(range=[-18, 18]))
        flip = fn.random.coin_flip(probability=0.5)
        boxes = fn.bb_flip(boxes, ltrb=True, horizontal=flip)
        images = fn.crop_mirror_normalize(
            images, crop=(48, 48), mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.0], mirror=flip, dtype=types.FLOAT, output_layout="CHW"
        )
        boxes, labels = fn.box_encoder(boxes, labels, criteria=0.5, anchors=ANCHORS.ravel().tolist())
        return images, boxes, labels

    return batches(training(), 3)


@program(atol=2, rtol=1e-5, why=AMPLIFIED)
def efficientdet_augmentation(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=3, enable_conditionals=True)
    def pipeline():
        encoded, boxes, labels, ids = _coco(dali, data, ratio=True, ltrb=True, image_ids=True)
        images = fn.decoders.image(encoded)
        if fn.random.coin_flip(probability=0.5, dtype=dali.types.BOOL):
            images = fn.flip(images, horizontal=1)
            boxes = fn.bb_flip(boxes, horizontal=1, ltrb=True)
        ratio, x, y = fn.random.uniform(range=[1, 2]), fn.random.uniform(range=[0, 1]), fn.random.uniform(range=[0, 1])
        images = fn.paste(images, ratio=ratio, paste_x=x, paste_y=y, fill_value=(120, 110, 100))
        boxes = fn.bbox_paste(boxes, ratio=ratio, paste_x=x, paste_y=y, ltrb=True)
        images = fn.resize(images, size=[64, 64], mode="not_larger")
        images = fn.pad(fn.color_twist(images, brightness=1.1, saturation=0.8), axis_names="HW", shape=[64, 64])
        return images, fn.pad(boxes, fill_value=-1, shape=[4, 4]), fn.pad(labels, fill_value=-1, axes=[0], shape=[4]), ids

    return batches(pipeline(), 4)


@program()
def coco_with_masks(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def pipeline():
        encoded, boxes, labels, polygons, vertices = _coco(dali, data, polygon_masks=True, ratio=True)
        again, _, _, pixels = _coco(dali, data, pixelwise_masks=True)
        masks = fn.segmentation.select_masks(np.int32([0]), polygons, vertices, reindex_masks=True)
        return encoded, boxes, labels, *masks, again, pixels

    return batches(pipeline(), 2)


@program()
def crops_around_objects(dali, data):
    fn, types = dali.fn, dali.types

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=17)
    def pipeline():
        _, _, _, pixels = _coco(dali, data, pixelwise_masks=True)
        masks = fn.cast(pixels, dtype=types.INT32)
        anchor, shape = fn.segmentation.random_object_bbox(masks, foreground_prob=0.8, ignore_class=True)
        place = fn.segmentation.random_mask_pixel(masks, foreground=1)
        classes = fn.segmentation.random_object_bbox(masks, classes=[1, 2], format="box", output_class=True)
        sizes = fn.cast(masks.shape(), dtype=types.INT32)
        start = fn.roi_random_crop(crop_shape=[10, 12, 1], roi_start=anchor, roi_shape=shape, in_shape=sizes)
        return anchor, shape, place, *classes, start

    return batches(pipeline(), 2)


@program(rtol=1e-5, atol=1e-6, why=FLOATS)
def rotated_boxes(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=2)
    def pipeline():
        encoded, boxes, labels = _coco(dali, data, ratio=True, ltrb=True)
        angle = fn.random.uniform(range=[-40, 40])
        shape = fn.peek_image_shape(encoded)
        return tuple(fn.bbox_rotate(boxes, labels, angle=angle, input_shape=shape, bbox_layout="xyXY", keep_size=True))

    return batches(pipeline(), 3)
