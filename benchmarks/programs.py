"""The timed pipelines, written once for both libraries (`lib` is ``asyncdali`` or ``nvidia.dali``)."""

from __future__ import annotations

from typing import Any

import numpy as np

MEAN = [123.675, 116.28, 103.53]
STD = [58.395, 57.12, 57.375]


def training(lib: Any, folder: str, batch: int = 64, threads: int = 2, depth: int = 2, **options: Any) -> Any:
    """readers.file -> decoders.image_random_crop -> resize 224 -> crop_mirror_normalize."""
    fn, types = lib.fn, lib.types

    @lib.pipeline_def(batch_size=batch, num_threads=threads, device_id=None, seed=7, prefetch_queue_depth=depth)
    def graph() -> Any:
        jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
        images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
        images = fn.resize(images, size=[224, 224])
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, mirror=fn.random.coin_flip()
        )
        return images, labels

    pipeline = graph(**options)
    pipeline.build()
    return pipeline


def notebook(lib: Any, folder: str, batch: int = 8, threads: int = 2, device: str = "cpu", **options: Any) -> Any:
    """The checkpointing notebook: decode, rotate by a random angle."""
    fn, types = lib.fn, lib.types

    @lib.pipeline_def(batch_size=batch, num_threads=threads, device_id=None, seed=12)
    def graph() -> Any:
        jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="image_reader")
        images = fn.decoders.image(jpegs, device=device, output_type=types.RGB)
        angles = fn.random.uniform(range=(-30.0, 30.0))
        return fn.rotate(images, angle=angles, fill_value=0), labels, angles

    pipeline = graph(**options)
    pipeline.build()
    return pipeline


def decode(lib: Any, folder: str, batch: int = 64, threads: int = 2, depth: int = 2, **options: Any) -> Any:
    """Only reading and decoding."""
    fn, types = lib.fn, lib.types

    @lib.pipeline_def(batch_size=batch, num_threads=threads, device_id=None, seed=7, prefetch_queue_depth=depth)
    def graph() -> Any:
        jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
        return fn.decoders.image(jpegs, output_type=types.RGB), labels

    pipeline = graph(**options)
    pipeline.build()
    return pipeline


def empty(lib: Any, batch: int = 8, threads: int = 2, **options: Any) -> Any:
    """One random.uniform."""

    @lib.pipeline_def(batch_size=batch, num_threads=threads, device_id=None, seed=7)
    def graph() -> Any:
        return lib.fn.random.uniform()

    pipeline = graph(**options)
    pipeline.build()
    return pipeline


def samples_of(images: Any, copy: bool = True) -> list[np.ndarray]:
    """Every sample of a tensor list as a numpy array. GPU lists go through ``as_cpu()``, or without `copy` through DLPack."""
    if not copy and type(images).__name__ == "TensorListGPU":
        return [np.from_dlpack(images[k]) for k in range(len(images))]
    images = images.as_cpu() if hasattr(images, "as_cpu") else images
    return [np.asarray(images[k]) for k in range(len(images))]


def dense(images: Any) -> np.ndarray:
    """A dense batch as one array, without a copy."""
    return np.asarray(images.as_tensor())
