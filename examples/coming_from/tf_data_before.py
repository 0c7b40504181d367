"""tf.data: an epoch of pictures in eight classes. `python tf_data_before.py FOLDER`"""

import sys
from pathlib import Path

import tensorflow as tf

paths = [str(path) for path in sorted(Path(sys.argv[1]).glob("*/*.jpg"))]
classes = sorted({Path(path).parent.name for path in paths})
labels = [classes.index(Path(path).parent.name) for path in paths]


def loaded(path, label):
    image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), [64, 64], antialias=True)
    image = tf.image.random_flip_left_right(image)
    return tf.transpose((image - 128.0) / 64.0, [2, 0, 1]), label


data = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(64, seed=7)
data = data.map(loaded, num_parallel_calls=2).batch(16).prefetch(2)
seen, total = 0, 0
for images, numbers in data:
    seen += len(images)
    total += int(tf.reduce_sum(numbers))
print(seen, "pictures", list(images[0].shape), "labels", total)
