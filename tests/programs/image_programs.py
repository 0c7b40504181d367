"""Image classification: training and validation, augmentation policies, crops, colours, geometry, mixing."""

from __future__ import annotations

import importlib

import numpy as np
from user_programs import RESAMPLED, batches, program

MEAN, STD = [0.485 * 255, 0.456 * 255, 0.406 * 255], [0.229 * 255, 0.224 * 255, 0.225 * 255]


@program(atol=0.03, why=f"{RESAMPLED}; 1 of 255 is 0.018 after normalisation")
def resnet_training(dali, data):
    fn, types = dali.fn, dali.types

    @dali.pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=12)
    def training():
        jpegs, labels = fn.readers.file(
            file_root=data / "jpeg", random_shuffle=True, shard_id=0, num_shards=1, name="Reader", initial_fill=4
        )
        images = fn.decoders.image_random_crop(
            jpegs, output_type=types.RGB, random_aspect_ratio=[0.75, 4 / 3], random_area=[0.1, 1.0], num_attempts=100
        )
        images = fn.resize(images, size=[32, 32], interp_type=types.INTERP_TRIANGULAR)
        mirror = fn.random.coin_flip(probability=0.5)
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", crop=(28, 28), mean=MEAN, std=STD, mirror=mirror
        )
        return images, labels

    return batches(training(), 4)


@program(atol=0.03, why=f"{RESAMPLED}; 1 of 255 is 0.018 after normalisation")
def resnet_validation(dali, data):
    fn, types = dali.fn, dali.types

    @dali.pipeline_def
    def validation(size, crop):
        jpegs, labels = fn.readers.file(file_root=data / "jpeg", name="Reader", pad_last_batch=True)
        images = fn.decoders.image(jpegs)
        images = fn.resize(images, resize_shorter=size, interp_type=types.INTERP_TRIANGULAR)
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, crop=(crop, crop), mean=MEAN, std=STD)
        return images, labels

    return batches(validation(36, 32, batch_size=4, num_threads=2, device_id=None), 2)


@program()
def a_graph_in_the_old_style(dali, data):
    """A class derived from Pipeline, with operators as objects."""
    ops, types = dali.ops, dali.types

    class Training(dali.pipeline.Pipeline):
        def __init__(self):
            super().__init__(3, 2, None, seed=7)
            self.input = ops.readers.File(file_root=str(data / "png"), file_list=str(data / "list.txt"), random_shuffle=True)
            self.decode = ops.decoders.Image(output_type=types.RGB)
            self.flip = ops.Flip()
            self.coin = ops.random.CoinFlip(probability=0.4)

        def define_graph(self):
            images, labels = self.input(name="Reader")
            return self.flip(self.decode(images), horizontal=self.coin(), vertical=0), labels

    return batches(Training(), 4)


def _policy(dali, data, graph):
    fn, types = dali.fn, dali.types

    @dali.pipeline_def(batch_size=6, num_threads=2, device_id=None, seed=21, enable_conditionals=True)
    def pipeline():
        files, _ = fn.readers.file(files=[str(data / "png" / f"{k}.png") for k in range(6)])
        images = fn.decoders.image(files, output_type=types.RGB)
        return graph(importlib.import_module(dali.__name__ + ".auto_aug." + graph.__name__), fn, files, images)

    return batches(pipeline(), 4)


@program(atol=1, why=RESAMPLED)
def efficientnet_with_auto_augment(dali, data):
    def auto_augment(module, fn, files, images):
        shapes = fn.peek_image_shape(files)
        return module.auto_augment(images, shape=shapes)

    return _policy(dali, data, auto_augment)


@program(atol=1, why=RESAMPLED)
def rand_augment_of_three(dali, data):
    def rand_augment(module, fn, files, images):
        return module.rand_augment(images, n=3, m=17, monotonic_mag=True, excluded=["color"])

    return _policy(dali, data, rand_augment)


@program(atol=1, why=RESAMPLED)
def trivial_augment(dali, data):
    def trivial_augment(module, fn, files, images):
        return module.trivial_augment_wide(images, num_magnitude_bins=31)

    return _policy(dali, data, trivial_augment)


@program(atol=1, why=RESAMPLED)
def an_augmentation_policy_of_ones_own(dali, data):
    core = importlib.import_module(dali.__name__ + ".auto_aug.core")
    augmentations = importlib.import_module(dali.__name__ + ".auto_aug.augmentations")
    auto_augment = importlib.import_module(dali.__name__ + ".auto_aug.auto_augment")

    @core.augmentation(mag_range=(0, 60), randomly_negate=True)
    def tilt(images, angle, fill_value=0):
        return dali.fn.rotate(images, angle=angle, fill_value=fill_value, keep_size=True)

    policy = core.Policy("own", 11, [[(tilt, 0.8, 7), (augmentations.invert, 0.5, None)], [(augmentations.brightness, 0.9, 5)]])

    @dali.pipeline_def(batch_size=6, num_threads=1, device_id=None, seed=4, enable_conditionals=True)
    def pipeline():
        files, _ = dali.fn.readers.file(files=[str(data / "png" / f"{k}.png") for k in range(6)])
        return auto_augment.apply_auto_augment(policy, dali.fn.decoders.image(files), fill_value=3)

    return batches(pipeline(), 3)


def _images(dali, data, graph, count=2, **options):
    @dali.pipeline_def(batch_size=6, num_threads=2, device_id=None, **{"seed": 5, **options})
    def pipeline():
        files, _ = dali.fn.readers.file(files=[str(data / "png" / f"{k}.png") for k in range(6)])
        return graph(dali.fn, dali.types, dali.fn.decoders.image(files))

    return batches(pipeline(), count)


@program()
def crops(dali, data):
    def graph(fn, types, images):
        x, y = fn.random.uniform(range=[0, 1]), fn.random.uniform(range=[0, 1])
        return (
            fn.crop(images, crop=(30, 20), crop_pos_x=x, crop_pos_y=y), fn.crop(images, crop=(50, 70), out_of_bounds_policy="pad"),
            fn.slice(images, [0.1, 0.2], [0.5, 0.4], axis_names="WH"), fn.slice(images, rel_start=[0.2], rel_end=[0.9], axes=[0]),
            images[5:25, ::2, 0:2], fn.pad(images, axis_names="HW", align=16, fill_value=7), fn.slice(images, 3, 20, axes=[1]),
        )  # fmt: skip

    return _images(dali, data, graph)


@program(atol=1, why=RESAMPLED)
def resizing(dali, data):
    def graph(fn, types, images):
        side = fn.random.uniform(range=[20, 50])
        return (
            fn.resize(images, resize_x=side), fn.resize(images, size=[30, 40], mode="not_larger"),
            fn.resize(images, resize_longer=50, interp_type=types.INTERP_CUBIC), fn.random_resized_crop(images, size=[24, 24]),
            fn.resize(images, size=[20, 20], roi_start=[0.1, 0.1], roi_end=[0.7, 0.8], roi_relative=True),
            fn.resize(images, resize_shorter=26, interp_type=types.INTERP_LANCZOS3, antialias=False),
            fn.resize(images, size=[25, 33], interp_type=types.INTERP_NN),
        )  # fmt: skip

    return _images(dali, data, graph)


@program(atol=1, why=RESAMPLED)
def colours(dali, data):
    def graph(fn, types, images):
        factor = fn.random.uniform(range=[0.7, 1.3])
        return (
            fn.color_twist(images, brightness=factor, contrast=1.2, hue=20.0, saturation=factor), fn.hsv(images, hue=30.0, value=0.9),
            fn.brightness_contrast(images, brightness_shift=0.1, contrast=factor, contrast_center=100.0), fn.hue(images, hue=45.0),
            fn.color_space_conversion(images, image_type=types.RGB, output_type=types.YCbCr), fn.saturation(images, saturation=1.5),
            fn.color_space_conversion(images, image_type=types.RGB, output_type=types.GRAY), fn.equalize(images),
        )  # fmt: skip

    return _images(dali, data, graph)


@program(atol=1, rtol=1e-5, why=RESAMPLED)
def geometric_transforms(dali, data):
    def graph(fn, types, images):
        angle = fn.random.uniform(range=[-30, 30])
        matrix = fn.transforms.rotation(angle=angle, center=[20, 20])
        matrix = fn.transforms.translation(matrix, offset=[3, -2])
        matrix = fn.transforms.scale(matrix, scale=[1.1, 0.9])
        matrix = fn.transforms.combine(matrix, fn.transforms.shear(shear=[0.1, 0.05]))
        points = fn.coord_transform(np.float32([[1, 2], [30, 20]]), MT=matrix)
        return (
            fn.warp_affine(images, matrix, fill_value=0, inverse_map=False), fn.rotate(images, angle=30.0, keep_size=True), matrix, points,
            fn.warp_affine(images, matrix=[1.0, 0.2, 0.0, 0.0, 1.0, 3.0], size=[40, 40], interp_type=types.INTERP_NN), fn.flip(images),
            fn.rotate(images, angle=90, fill_value=5),
        )  # fmt: skip

    return _images(dali, data, graph)


@program(atol=1, why=RESAMPLED)
def filters_and_distortions(dali, data):
    def graph(fn, types, images):
        return (
            fn.gaussian_blur(images, sigma=fn.random.uniform(range=[0.5, 2])), fn.laplacian(images, window_size=3, dtype=types.FLOAT),
            fn.water(images, ampl_x=4.0, ampl_y=3.0), fn.sphere(images),
            fn.filter(images, np.float32([[0, 0.25, 0], [0.25, 0, 0.25], [0, 0.25, 0]])),
        )  # fmt: skip

    return _images(dali, data, graph)


@program()
def erasing_and_masks(dali, data):
    def graph(fn, types, images):
        anchor = fn.random.uniform(range=[0, 0.6], shape=[2])
        shape = fn.random.uniform(range=[0.1, 0.3], shape=[2])
        return (
            fn.erase(images, anchor=anchor, shape=shape, axis_names="HW", fill_value=[100, 0, 50], normalized=True),
            fn.grid_mask(images, ratio=0.4, tile=12, angle=0.3), fn.paste(images, ratio=1.5, fill_value=(1, 2, 3)),
        )  # fmt: skip

    return _images(dali, data, graph)


@program(atol=1, rtol=1e-5, why=RESAMPLED)
def mixup_and_cutmix(dali, data):
    def graph(fn, types, images):
        images = fn.resize(images, size=[32, 32])
        other = fn.permute_batch(images, indices=fn.batch_permutation(no_fixed_points=True))
        share = fn.random.uniform(range=[0.2, 0.8])
        mixed = fn.cast_like(share * images + (1 - share) * other, images)
        pasted = fn.multi_paste(images, other, output_size=[32, 32], shapes=np.int32([[32, 32], [10, 12]]),
                                out_anchors=np.int32([[0, 0], [4, 6]]))  # fmt: skip
        stacked = fn.multi_paste(images, in_ids=fn.batch_permutation(), output_size=[32, 32])
        return mixed, pasted, fn.cat(images, other, axis_name="W"), fn.stack(images, other, axis_name="F"), stacked

    return _images(dali, data, graph)


@program(atol=1, rtol=1e-4, why="noise is rounded from floats that are computed in another order")
def noise(dali, data):
    def graph(fn, types, images):
        return (
            fn.noise.gaussian(images, stddev=10.0), fn.noise.salt_and_pepper(images, prob=0.1), fn.noise.shot(images, factor=5.0),
            fn.random.normal(mean=2.0, stddev=3.0, shape=[4]), fn.random.beta(alpha=0.4, beta=0.7), fn.random.choice([3, 5, 8], shape=[4]),
        )  # fmt: skip

    return _images(dali, data, graph)


@program(atol=2, why="JPEG's transform is computed with other roundings")
def compression_artefacts(dali, data):
    def graph(fn, types, images):
        quality = fn.cast(fn.random.uniform(range=[40, 90]), dtype=types.INT32)
        return fn.jpeg_compression_distortion(images, quality=quality)

    return _images(dali, data, graph)
