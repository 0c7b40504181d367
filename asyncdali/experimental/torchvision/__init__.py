"""torchvision's transforms, at DALI's place ``experimental.torchvision``: classes, and ``v2`` with the functions.

    from asyncdali.experimental.torchvision import CenterCrop, Compose, Resize
    picture = Compose([Resize(256), CenterCrop(224)])(picture)

Needs torch and PIL, not torchvision. docs/torchvision.md says where results differ from torchvision's.

    v2/functional.py  functions
    v2/operator.py    classes of your own with code for pipelines, as in DALI
    v2/               all classes, as in torchvision

May import `vision`.
"""

from . import v2 as v2
from .v2 import *  # noqa: F403
