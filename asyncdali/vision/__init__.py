"""torchvision's transforms: functions and classes for pictures, tensors, boxes, key points, masks and videos.

``asyncdali.experimental.torchvision`` has the public names. Needs torch and PIL, not torchvision.

    enums.py       ways of interpolation
    kinds.py       kinds of inputs
    arguments.py   checks of arguments
    families.py    functions with one kernel for each kind of input
    resizing.py    resize
    cropping.py    flips, crops, pads, erasing
    colors.py      colours and intensities
    filters.py     blur, noise, JPEG artefacts
    warping.py     affine maps, rotation, perspective, elastic distortion
    boxes.py       boxes and key points
    conversion.py  pictures, arrays and tensors; element types; normalization; sizes
    draws.py       where random numbers come from
    transform.py   the base of all classes
    geometry.py    classes that move pixels
    appearance.py  classes that change colours, and add blur and noise
    converting.py  classes that change what an input is
    detection.py   classes for boxes and key points
    policies.py    AutoAugment, RandAugment, TrivialAugmentWide, AugMix
    mixing.py      MixUp and CutMix
    containers.py  Compose and its relatives
    operators.py   transforms of your own from asyncdali's operators

May import `dynamic`, `fn`, `pipeline` and `types`.
"""

from __future__ import annotations

import importlib.util

from ..messages.extras import need

need("torch", "torch", "asyncdali.experimental.torchvision")
if importlib.util.find_spec("PIL") is None:
    raise ModuleNotFoundError("asyncdali.experimental.torchvision needs pillow, which is not installed: pip install pillow", name="PIL")
