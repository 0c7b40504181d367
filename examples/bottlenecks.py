"""Ten pipelines with one bottleneck each, and a version without it. docs/which_knob.md explains them:

    asyncdali bench examples/bottlenecks.py:slow_source
    asyncdali bench examples/bottlenecks.py:slow_source_mended
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import asyncdali
from asyncdali import fn, pipeline_def, types
from asyncdali.types import SampleInfo

PICTURES = os.environ.get("BOTTLENECKS_PICTURES") or str(Path(asyncdali.__file__).parent / "data" / "pictures")
CORES = len(os.sched_getaffinity(0))


def rows(count: int = 8) -> list[Any]:
    return [np.full(4, k, np.float32) for k in range(count)]


# --- a source that waits (for example for a server)


def fetch(iteration: int) -> list[Any]:
    time.sleep(0.02)
    return rows()


async def fetch_async(iteration: int) -> list[Any]:
    await asyncio.sleep(0.02)
    return rows()


@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def slow_source() -> Any:
    return fn.external_source(fetch, name="server")


@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def slow_source_mended() -> Any:
    return fn.external_source(fetch_async, name="server", prefetch_queue_depth=8)


class Fetched:
    """The same in worker processes: a task is a batch, because its first sample waits for all."""

    def __call__(self, info: SampleInfo) -> Any:
        if info.idx_in_batch == 0:
            time.sleep(0.02)
        return np.full(4, info.idx_in_batch, np.float32)


@pipeline_def(batch_size=8, num_threads=2, device_id=None, py_num_workers=2)
def slow_source_workers() -> Any:
    return fn.external_source(Fetched(), name="server", batch=False, parallel=True, prefetch_queue_depth=4)


# --- a source that computes in Python


def tokens(iteration: int) -> list[Any]:
    total = 0
    for k in range(200_000):
        total += k & 3
    return [np.array([total], np.float32)] * 8


class Tokens:
    def __call__(self, info: SampleInfo) -> Any:
        return tokens(info.iteration)[0] if info.idx_in_batch == 0 else np.array([0], np.float32)


@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def interpreter_bound() -> Any:
    return fn.external_source(tokens, name="tokens")


@pipeline_def(batch_size=8, num_threads=2, device_id=None, py_num_workers=2)
def interpreter_bound_mended() -> Any:
    return fn.external_source(Tokens(), name="tokens", batch=False, parallel=True, prefetch_queue_depth=4)


# --- decoding: whole pictures, because another operator stands between the decoder and the crop


@pipeline_def(batch_size=32, num_threads=1, device_id=None, seed=1)
def slow_decode() -> Any:
    jpegs, _ = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, output_type=types.RGB, name="decode")
    return fn.crop(fn.brightness_contrast(images, brightness=1.1), crop=[64, 64])


@pipeline_def(batch_size=32, num_threads=max(2, CORES), device_id=None, seed=1)
def slow_decode_mended() -> Any:
    jpegs, _ = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="reader")
    images = fn.decoders.image_crop(jpegs, output_type=types.RGB, crop=[64, 64], name="decode")
    return fn.brightness_contrast(images, brightness=1.1)


# --- a Python function in the graph


def blend(sample: np.ndarray) -> np.ndarray:
    time.sleep(0.002)
    return sample * np.float32(0.5)


@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def slow_python_function() -> Any:
    return fn.python_function(fn.external_source(lambda i: rows()), function=blend, name="blend")


@pipeline_def(batch_size=8, num_threads=2, device_id=None)
def slow_python_function_mended() -> Any:
    return fn.external_source(lambda i: rows()) * 0.5


# --- a queue of one iteration: pipeline and consumer take turns (measure with --consumer-ms 15)


@pipeline_def(batch_size=16, num_threads=2, device_id=None, prefetch_queue_depth=1, seed=1)
def small_queue() -> Any:
    jpegs, _ = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="reader")
    return fn.resize(fn.decoders.image(jpegs, output_type=types.RGB), size=[64, 64])


def small_queue_mended(**options: Any) -> asyncdali.Pipeline:
    return small_queue(**{"prefetch_queue_depth": 3, **options})


# --- the pipeline is not the limit: the training step is slower (measure with --consumer-ms 15)


@pipeline_def(batch_size=8, num_threads=2, device_id=None, seed=1)
def slow_consumer() -> Any:
    return fn.random.uniform(range=[0.0, 1.0], shape=[64, 64])


# --- one large sample among small ones


def one_large(iteration: int) -> tuple[list[Any], list[Any]]:
    return [np.full((16, 16, 3), k, np.uint8) for k in range(16)], [np.full(2, 2000 if k == 5 else 16, np.float32) for k in range(16)]


@pipeline_def(batch_size=16, num_threads=2, device_id=None, prefetch_queue_depth=1)
def slow_sample() -> Any:
    images, sizes = fn.external_source(one_large, num_outputs=2, layout=["HWC", ""])
    return fn.resize(images, size=sizes, name="resize")


def slow_sample_mended(**options: Any) -> asyncdali.Pipeline:
    return slow_sample(**{"prefetch_queue_depth": 4, **options})


# --- worker processes: one is not enough


class Remote:
    def __call__(self, info: SampleInfo) -> Any:
        time.sleep(0.004)
        return np.array([info.idx_in_epoch], np.float32)


@pipeline_def(batch_size=8, num_threads=2, device_id=None, py_num_workers=1)
def too_few_workers() -> Any:
    return fn.external_source(Remote(), name="remote", batch=False, parallel=True, prefetch_queue_depth=3)


def too_few_workers_mended(**options: Any) -> asyncdali.Pipeline:
    return too_few_workers(**{"py_num_workers": 4, **options})


# --- more threads than cores


@pipeline_def(batch_size=64, num_threads=8 * CORES, device_id=None, seed=1)
def too_many_threads() -> Any:
    jpegs, _ = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="reader")
    return fn.resize(fn.decoders.image(jpegs, output_type=types.RGB), size=[64, 64])


def too_many_threads_mended(**options: Any) -> asyncdali.Pipeline:
    return too_many_threads(**{"num_threads": CORES, **options})


# --- slow storage (tests set BOTTLENECKS_PICTURES to a folder on such storage)


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=1)
def slow_storage() -> Any:
    jpegs, _ = fn.readers.file(file_root=PICTURES, random_shuffle=True, name="reader")
    return fn.crop(fn.decoders.image(jpegs, output_type=types.RGB), crop=[64, 64])


def slow_storage_mended(**options: Any) -> asyncdali.Pipeline:
    return slow_storage(**{"num_threads": 16, **options})
