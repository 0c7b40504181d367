"""WebDataset: an epoch of a tar file of pictures (make_shard.py). `python webdataset_before.py pictures.tar`"""

import sys

import cv2
import numpy as np
import webdataset as wds


def decoded(jpeg: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    image = cv2.resize(image, (64, 64), interpolation=cv2.INTER_AREA)
    image = image[:, ::-1] if np.random.rand() < 0.5 else image
    return ((image.astype(np.float32) - 128) / 64).transpose(2, 0, 1)


data = wds.WebDataset(sys.argv[1], shardshuffle=False).shuffle(64)
data = data.to_tuple("jpg", "cls").map_tuple(decoded, int).batched(16)
seen, total = 0, 0
for images, labels in data:
    seen += len(images)
    total += int(np.sum(labels))
print(seen, "pictures", list(images[0].shape), "labels", total)
