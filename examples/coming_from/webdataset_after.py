"""asyncdali: the tar file of webdataset_before.py. `python webdataset_after.py pictures.tar`"""

import sys

import numpy as np

from asyncdali import fn, pipeline_def, types


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=7, enable_checkpointing=True)
def pictures(path):
    parts = ["jpg", "cls"]
    jpegs, labels = fn.readers.webdataset(paths=path, ext=parts, random_shuffle=True, initial_fill=64, name="reader")
    images = fn.decoders.image(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[64, 64])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[128.0], std=[64.0], dtype=types.FLOAT)
    return images, labels


seen, total = 0, 0
for images, labels in pictures(sys.argv[1]).epoch():
    seen += len(images)
    total += sum(int(bytes(np.asarray(label))) for label in labels)  # the file's bytes: b"3"
print(seen, "pictures", images[0].shape(), "labels", total)
