"""torch and torchvision: an epoch of pictures in eight classes. `python torch_before.py FOLDER`"""

import sys

import torch
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import v2

if __name__ == "__main__":  # worker processes import this file
    transform = v2.Compose([
        v2.ToImage(),
        v2.Resize([64, 64]),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32),
        v2.Normalize([128.0] * 3, [64.0] * 3),
    ])  # fmt: skip
    loader = DataLoader(datasets.ImageFolder(sys.argv[1], transform), batch_size=16, shuffle=True, num_workers=2)
    seen, total = 0, 0
    for images, labels in loader:
        seen += len(images)
        total += int(labels.sum())
    print(seen, "pictures", list(images[0].shape), "labels", total)
