"""asyncdali: the pictures of grain_before.py, as arrays of NumPy. `python grain_after.py FOLDER`"""

import sys

from asyncdali import fn, pipeline_def, types


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=7, enable_checkpointing=True)
def pictures(folder):
    jpegs, labels = fn.readers.file(file_root=folder, shuffle_after_epoch=True, name="reader")
    images = fn.decoders.image(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[64, 64])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[128.0], std=[64.0], dtype=types.FLOAT)
    return images, labels


pipe = pictures(sys.argv[1])
seen, total = 0, 0
for batch in pipe.epoch():
    images, labels = (output.as_array() for output in batch)  # views, without a copy
    seen += len(images)
    total += int(labels.sum())
saved = pipe.checkpoint()  # as `iterator.get_state()`
print(seen, "pictures", list(images[0].shape), "labels", total)
