"""asyncdali: the pictures of tf_data_before.py, as a tf.data.Dataset. `python tf_data_after.py FOLDER`"""

import sys

import tensorflow as tf

from asyncdali import fn, pipeline_def, types
from asyncdali.plugin.tf import DALIDataset


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=7, prefetch_queue_depth=2)
def pictures(folder):
    jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[64, 64])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[128.0], std=[64.0], dtype=types.FLOAT)
    return images, labels


pipe = pictures(sys.argv[1])
data = DALIDataset(pipe, output_dtypes=(tf.float32, tf.int32), output_shapes=((16, 3, 64, 64), (16, 1)))
seen, total = 0, 0
for images, numbers in data.take(pipe.epoch_size("reader") // 16):  # the data set has no end
    seen += len(images)
    total += int(tf.reduce_sum(numbers))
print(seen, "pictures", list(images[0].shape), "labels", total)
