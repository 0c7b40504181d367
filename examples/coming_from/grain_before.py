"""Grain: an epoch of pictures in eight classes. `python grain_before.py FOLDER`"""

import sys
from pathlib import Path

import cv2
import grain
import numpy as np

paths = sorted(Path(sys.argv[1]).glob("*/*.jpg"))
classes = sorted({path.parent.name for path in paths})


def loaded(path: Path, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    image = cv2.resize(cv2.imread(str(path))[:, :, ::-1], (64, 64), interpolation=cv2.INTER_AREA)
    image = image[:, ::-1] if rng.random() < 0.5 else image
    return ((image.astype(np.float32) - 128) / 64).transpose(2, 0, 1), classes.index(path.parent.name)


data = grain.MapDataset.source(paths).seed(7).shuffle().random_map(loaded).batch(16)
seen, total = 0, 0
for images, labels in data.to_iter_dataset():
    seen += len(images)
    total += int(labels.sum())
print(seen, "pictures", list(images[0].shape), "labels", total)
