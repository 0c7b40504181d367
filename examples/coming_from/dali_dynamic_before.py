"""DALI's dynamic mode: an epoch of pictures in eight classes. `python dali_dynamic_before.py FOLDER`"""

import sys

import nvidia.dali.experimental.dynamic as ndd

reader = ndd.readers.File(file_root=sys.argv[1], random_shuffle=True, seed=7)
seen, total = 0, 0
for jpegs, labels in reader.next_epoch(batch_size=16):
    images = ndd.decoders.image(jpegs)
    images = ndd.resize(images, size=[64, 64])
    images = ndd.crop_mirror_normalize(images, mean=[128.0], std=[64.0], dtype=ndd.float32)
    seen += images.batch_size
    total += sum(int(label.item()) for label in labels.tensors)
print(seen, "pictures", list(images.tensors[0].shape), "labels", total)
