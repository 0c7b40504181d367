"""asyncdali: the program of dali_before.py with another import. A killed run resumes. `python dali_after.py FOLDER`"""

import sys

from asyncdali import fn, pipeline_def, types


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=7, enable_checkpointing=True)
def pictures(folder):
    jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[64, 64])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[128.0], std=[64.0], dtype=types.FLOAT)
    return images, labels


pipe = pictures(sys.argv[1])
pipe.build()
seen, total = 0, 0
for _ in range(pipe.epoch_size("reader") // 16):
    images, labels = pipe.run()
    seen += len(images)
    total += int(labels.as_array().sum())
    saved = pipe.checkpoint()  # bytes; `pictures(folder, checkpoint=saved)` continues with the next batch
print(seen, "pictures", images[0].shape(), "labels", total)
