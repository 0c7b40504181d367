"""asyncdali: the pictures of torch_before.py, as tensors of torch. `python torch_after.py FOLDER`"""

import sys

from asyncdali import fn, pipeline_def, types
from asyncdali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=7, enable_checkpointing=True)
def pictures(folder):
    jpegs, labels = fn.readers.file(file_root=folder, random_shuffle=True, name="reader")
    images = fn.decoders.image(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[64, 64])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[128.0], std=[64.0], dtype=types.FLOAT)
    return {"images": images, "labels": labels}


pipe = pictures(sys.argv[1])
loader = DALIGenericIterator(pipe, reader_name="reader", auto_reset=True, last_batch_policy=LastBatchPolicy.PARTIAL)
seen, total = 0, 0
for [batch] in loader:
    seen += len(batch["images"])
    total += int(batch["labels"].sum())
    saved = loader.state_dict()  # `loader.load_state_dict(saved)` continues, also in another process
print(seen, "pictures", list(batch["images"][0].shape), "labels", total)
