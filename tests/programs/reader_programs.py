"""Storage formats: TFRecord, webdataset, RecordIO, LMDB, NumPy, files given by a callback, shards."""

from __future__ import annotations

import importlib

import numpy as np
from data import caffe_database
from user_programs import FLOATS, batches, program


@program()
def tfrecord(dali, data):
    fn, tfrec = dali.fn, importlib.import_module(dali.__name__ + ".tfrecord")

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=4)
    def pipeline():
        features = {
            "image/encoded": tfrec.FixedLenFeature((), tfrec.string, ""), "image/class": tfrec.FixedLenFeature([1], tfrec.int64, -1),
            "image/weights": tfrec.VarLenFeature(tfrec.float32, 0.0),
        }  # fmt: skip
        inputs = fn.readers.tfrecord(
            path=str(data / "train.tfrecord"), index_path=str(data / "train.idx"), features=features, random_shuffle=True, name="Reader"
        )
        return fn.decoders.image(inputs["image/encoded"]), inputs["image/class"], inputs["image/weights"]

    return batches(pipeline(), 4)


@program()
def webdataset(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=4)
    def pipeline():
        images, classes = fn.readers.webdataset(
            paths=str(data / "shard.tar"), index_paths=str(data / "shard.idx"), ext=["png", "cls"], missing_component_behavior="error",
            dtypes=[dali.types.UINT8, dali.types.INT32], random_shuffle=True, initial_fill=5,
        )
        return fn.decoders.image(images), classes

    return batches(pipeline(), 4)


@program()
def recordio(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def pipeline():
        path, index = [str(data / "train.rec")], [str(data / "train.rec.idx")]
        images, labels = fn.readers.mxnet(path=path, index_path=index, shard_id=1, num_shards=2)
        return fn.decoders.image(images), labels

    return batches(pipeline(), 4)


@program(needs=("lmdb",))
def caffe_databases(dali, data):
    fn = dali.fn
    if not (data / "caffe").exists():
        assert caffe_database(data)

    @dali.pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def pipeline():
        images, labels = fn.readers.caffe(path=str(data / "caffe"), pad_last_batch=True)
        return fn.decoders.image(images), labels

    return batches(pipeline(), 3)


@program(rtol=1e-6, why=FLOATS)
def numpy_arrays_and_their_regions(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=11)
    def pipeline():
        whole = fn.readers.numpy(file_root=str(data / "numpy"), file_filter="*.npy", shuffle_after_epoch=True, pad_last_batch=True)
        start = fn.random.uniform(range=[0, 0.5], shape=[2])
        part = fn.readers.numpy(file_root=str(data / "numpy"), files=["0.npy", "1.npy"], rel_roi_start=start, roi_shape=[10, 8])
        return whole, part, fn.reductions.mean(whole), fn.reductions.max(part, axes=[0])

    return batches(pipeline(), 3)


@program()
def shards_and_epochs(dali, data):
    """Two ranks, each with its own pipeline. An epoch continues in the next shard."""
    fn = dali.fn

    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline(rank):
        files, labels = fn.readers.file(
            file_root=str(data / "png"), file_list=str(data / "list.txt"), shard_id=rank, num_shards=2, shuffle_after_epoch=True, seed=1,
            stick_to_shard=False, pad_last_batch=True, name="Reader",
        )
        return labels, files.shape()

    ranks = [pipeline(rank) for rank in range(2)]
    for rank in ranks:
        rank.build()
    sizes = [np.int64([rank.epoch_size("Reader"), rank.reader_meta("Reader")["shard_id"]]) for rank in ranks]
    return sizes + [array for rank in ranks for array in batches(rank, 5)]


@program()
def names_of_files_by_a_callback(dali, data):
    fn = dali.fn
    names = [np.frombuffer(str(data / "png" / f"{k}.png").encode(), np.uint8) for k in range(4)]

    @dali.pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def pipeline():
        files = fn.io.file.read(fn.external_source(lambda: names))
        return fn.decoders.image(files), fn.peek_image_shape(files)

    return batches(pipeline(), 2)
