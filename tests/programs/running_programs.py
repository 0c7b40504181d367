"""Ways to run pipelines: conditions, callbacks, parallel sources, checkpoints, storing, feeding, several at the same time, debug mode."""

from __future__ import annotations

import importlib
import os
import tempfile

import numpy as np
import pytest
from user_programs import RESAMPLED, batches, program


class Samples:
    """A picklable source of single samples, of which there are ten."""

    def __call__(self, info):
        if info.iteration >= 4:
            raise StopIteration
        return np.full((2, 3), info.idx_in_epoch, np.int32), np.int32([info.iteration, info.idx_in_batch, info.epoch_idx])


@program()
def a_parallel_source(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=1, device_id=None, py_num_workers=2, py_start_method="spawn")
    def pipeline():
        return tuple(fn.external_source(Samples(), num_outputs=2, parallel=True, batch=False))

    made = pipeline()
    made.build()
    collected = []
    for _ in range(2):
        while True:
            try:
                collected += [np.array(output.at(i)) for output in made.run() for i in range(3)]
            except StopIteration:
                break
        made.reset()
    if hasattr(made, "close"):
        made.close()
    return collected


class Batches:
    """An iterable of batches of different sizes."""

    def __iter__(self):
        return iter([[np.full((2,), k * 10 + j, np.float32) for j in range(2 + k % 2)] for k in range(6)])


@program()
def an_iterable_source_with_epochs(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def pipeline():
        return fn.external_source(Batches(), cycle="quiet") * 2, fn.external_source(lambda k: np.full((2 + k % 2, 1), k, np.int32))

    return batches(pipeline(), 6)


@program()
def a_fed_input(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        return fn.external_source(name="numbers", layout="HW") + 1

    made = pipeline()
    made.build()
    collected = []
    for k in range(3):
        made.feed_input("numbers", [np.full((2, k + 1), k, np.int32), np.full((1, 1), -k, np.int32)])
        (output,) = made.run()
        collected += [np.array(output.at(i)) for i in range(2)]
    collected += [np.array(made.run(numbers=np.ones((2, 2, 2), np.int32))[0].as_array())]
    return collected


@program(atol=1, why=RESAMPLED)
def conditions(dali, data):
    fn = dali.fn

    def brighter(images):
        return fn.brightness(images, brightness=1.3)

    @dali.pipeline_def(batch_size=6, num_threads=2, device_id=None, seed=31, enable_conditionals=True)
    def pipeline():
        files, _ = fn.readers.file(files=[str(data / "png" / f"{k}.png") for k in range(6)])
        images = fn.decoders.image(files)
        shape = images.shape()
        wide = shape[1] > shape[0]
        draw = fn.random.uniform(range=[0, 1])
        if wide and draw < 0.7:
            images, kind = fn.rotate(images, angle=90), 1
        elif draw < 0.5 or not wide:
            images, kind = brighter(images), 2
        else:
            kind = 3
        return images, kind, draw

    return batches(pipeline(), 4)


@program()
def resuming_from_a_checkpoint(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=3, enable_checkpointing=True)
    def pipeline():
        _, labels = fn.readers.file(file_root=str(data / "png"), file_list=str(data / "list.txt"), random_shuffle=True, name="Reader")
        return labels, fn.random.uniform(range=[0, 1]), fn.random.coin_flip()

    first = pipeline()
    first.build()
    for _ in range(4):
        first.run()
    saved = first.checkpoint()
    rest = batches(first, 4)
    again = batches(pipeline(checkpoint=saved), 4)
    for a, b in zip(rest, again, strict=True):
        np.testing.assert_array_equal(a, b)
    return again


@program()
def storing_and_restoring(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=3)
    def pipeline():
        files, labels = fn.readers.file(file_root=str(data / "png"), file_list=str(data / "list.txt"), random_shuffle=True)
        images = fn.decoders.image(files)
        return fn.flip(images, horizontal=fn.random.coin_flip()), labels * 2 + 1

    made = pipeline()
    made.build()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pipeline.dali")
        made.serialize(filename=path)
        from_file = dali.Pipeline.deserialize(filename=path)
        from_bytes = dali.Pipeline(2, 1, None)
        from_bytes.deserialize_and_build(made.serialize())
        collected = batches(from_file, 3)
        for a, b in zip(collected, batches(from_bytes, 3), strict=True):
            np.testing.assert_array_equal(a, b)
    return collected


@program()
def several_pipelines_at_once(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline(seed_of_draws):
        return fn.random.uniform(range=[0, 1], seed=seed_of_draws), fn.random.choice(10, shape=[2], seed=seed_of_draws)

    made = [pipeline(seed) for seed in (1, 2, 3)]
    for one in made:
        one.build()
    collected = []
    for _ in range(3):
        for one in made:
            one.schedule_run()
        for one in made:
            for output in one.share_outputs():
                collected += [np.array(output.at(i)) for i in range(2)]
            one.release_outputs()
    for one in made:
        if hasattr(one, "close"):
            one.close()
    return collected


@program()
def legacy_executors_and_options(dali, data):
    fn = dali.fn
    collected = []
    for options in ({"exec_dynamic": False}, {"exec_async": False, "exec_pipelined": False}, {"prefetch_queue_depth": 4}):

        @dali.pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=5, **options)
        def pipeline():
            return fn.random.uniform(range=[-1, 1], shape=[3]), fn.random.coin_flip(probability=0.3)

        collected += batches(pipeline(), 3)
    return collected


@program(only_here="DALI's debug mode needs a CUDA driver")
def debug_mode(dali, data):
    fn = dali.fn
    experimental = importlib.import_module(dali.__name__ + ".pipeline.experimental")

    @experimental.pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=5, debug=True)
    def pipeline():
        files, labels = fn.readers.file(file_root=str(data / "png"), file_list=str(data / "list.txt"))
        images = fn.decoders.image(files)
        assert len(images.get()) == 2 and np.array(labels.get()[0]).item() % 10 == 0
        return images + 1, labels

    return batches(pipeline(), 2)


@program(needs=("av",), atol=3, why="FFmpeg here and DALI's own build convert YUV to RGB with other roundings")
def fed_videos(dali, data):
    fn = dali.fn
    if not hasattr(fn.experimental, "inputs"):
        pytest.skip("this library has no experimental.inputs.video")
    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        return fn.experimental.inputs.video(name="clip", sequence_length=6, last_sequence_policy="pad")

    made = pipeline()
    made.build()
    made.feed_input("clip", [np.fromfile(data / "clip.avi", np.uint8)])
    collected = [np.array(output.at(i)) for _ in range(2) for output in made.run() for i in range(len(output))]
    if hasattr(made, "close"):
        made.close()
    assert [array.shape[0] for array in collected] == [6] * 4
    return collected
