"""Training loops: PyTorch, JAX, TensorFlow and Paddle. Each is skipped where the framework is not installed."""

from __future__ import annotations

import importlib

import numpy as np
from user_programs import batches, program


def _pipeline(dali, data, **options):
    fn = dali.fn

    @dali.pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=5, **options)
    def pipeline():
        files, labels = fn.readers.file(file_root=str(data / "png"), file_list=str(data / "list.txt"), random_shuffle=True, name="Reader")
        images = fn.crop(fn.decoders.image(files), crop=(24, 24))
        return images, labels

    return pipeline()


@program(needs=("torch",))
def pytorch_classification(dali, data):
    plugin = importlib.import_module(dali.__name__ + ".plugin.pytorch")
    iterator = plugin.DALIClassificationIterator(
        _pipeline(dali, data), reader_name="Reader", last_batch_policy=plugin.LastBatchPolicy.PARTIAL, auto_reset=True
    )
    made = []
    for _ in range(2):
        for batch in iterator:
            made += [batch[0]["data"].numpy().copy(), batch[0]["label"].numpy().copy()]
    assert [len(array) for array in made[1::2]] == [4, 2] * 2
    return made


@program(needs=("torch",), only_here="DALI's torch_python_function needs a CUDA build of torch")
def pytorch_functions(dali, data):
    import torch

    fn = dali.fn
    torch_fn = importlib.import_module(dali.__name__ + ".plugin.pytorch.fn")

    @dali.pipeline_def(batch_size=2, num_threads=1, device_id=None, exec_async=True, exec_pipelined=True)
    def pipeline():
        x = fn.external_source(lambda: [np.arange(4, dtype=np.float32)] * 2)
        return torch_fn.torch_python_function(x, function=lambda tensor: torch.flip(tensor, [0]) * 2, batch_processing=False)

    return batches(pipeline(), 1)


@program(needs=("jax",))
def jax_iterator(dali, data):
    plugin = importlib.import_module(dali.__name__ + ".plugin.jax")
    iterator = plugin.DALIGenericIterator([_pipeline(dali, data)], ["images", "labels"], reader_name="Reader")
    return [np.asarray(batch[name]) for batch in iterator for name in ("images", "labels")]


@program(needs=("tensorflow",), only_here="DALI's TensorFlow plugin is a package of its own")
def tensorflow_data_set(dali, data):
    import tensorflow as tf

    plugin = importlib.import_module(dali.__name__ + ".plugin.tf")
    made = plugin.DALIDataset(
        pipeline=_pipeline(dali, data), batch_size=4, device_id=0, output_shapes=((4, 24, 24, 3), (4, 1)),
        output_dtypes=(tf.uint8, tf.int32),
    )
    return [tensor.numpy() for batch in made.take(3) for tensor in batch]


@program()
def epochs_without_a_framework(dali, data):
    """The epochs of a data set, by the reader's sizes, as training loops without a framework count them."""
    pipeline = _pipeline(dali, data)
    pipeline.build()
    meta = pipeline.reader_meta("Reader")
    count = -(-meta["epoch_size"] // pipeline.max_batch_size)
    made = [np.array(output.at(i)) for _ in range(count) for output in pipeline.run() for i in range(len(output))]
    if hasattr(pipeline, "close"):
        pipeline.close()
    return made
