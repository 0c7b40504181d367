"""Keras trains on a pipeline. Then a custom loop saves the iterator in mid-epoch with tf.train.Checkpoint and continues from there.

    python examples/tf_fit.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

import asyncdali
from asyncdali import fn, pipeline_def
from asyncdali.plugin.tf import DALIDataset

PICTURES = Path(asyncdali.__file__).parent / "data" / "pictures"
BATCH = 12


@pipeline_def(batch_size=BATCH, num_threads=2, seed=5, enable_checkpointing=True)
def pictures() -> Any:
    jpegs, labels = fn.readers.file(file_root=str(PICTURES), random_shuffle=True, name="pictures")
    images = fn.resize(fn.decoders.image_random_crop(jpegs, random_area=[0.5, 1.0]), size=[32, 32])
    images = fn.crop_mirror_normalize(images, mean=[128.0] * 3, std=[64.0] * 3, output_layout="HWC", mirror=fn.random.coin_flip())
    return images, labels


def data() -> tf.data.Dataset:
    dataset = DALIDataset(pictures(), (tf.float32, tf.int32), ((BATCH, 32, 32, 3), (BATCH, 1)))
    return dataset.map(lambda images, labels: (tf.clip_by_value(images, -2.0, 2.0), labels[:, 0])).prefetch(2)


def main() -> None:
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential([
        tf.keras.Input((32, 32, 3)), layers.Conv2D(8, 3, activation="relu"), layers.MaxPool2D(), layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPool2D(), layers.Flatten(), layers.Dense(8),
    ])  # fmt: skip
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(data(), steps_per_epoch=5, epochs=4, verbose=0).history["loss"]
    print(f"loss of the first epoch {history[0]:.3f}, of the last {history[-1]:.3f}")

    iterator = iter(data())
    for _ in range(3):
        model.train_on_batch(*next(iterator))
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(data=iterator).save(str(Path(folder) / "data"))
        expected = [next(iterator) for _ in range(8)]
        restored = iter(data())  # this could run in another process
        tf.train.Checkpoint(data=restored).restore(path).assert_consumed()
    for images, labels in expected:
        again = next(restored)
        assert (again[0].numpy() == images.numpy()).all() and (again[1].numpy() == labels.numpy()).all()
    print("restored in mid-epoch: the next 8 batches are the same")


if __name__ == "__main__":
    main()
