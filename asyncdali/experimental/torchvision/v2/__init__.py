"""torchvision's ``transforms.v2``: all classes.

    functional.py  functions
    operator.py    classes of your own with code for pipelines, as in DALI

May import `vision`.
"""

from ....vision.appearance import JPEG as JPEG
from ....vision.appearance import RGB as RGB
from ....vision.appearance import ColorJitter as ColorJitter
from ....vision.appearance import GaussianBlur as GaussianBlur
from ....vision.appearance import GaussianNoise as GaussianNoise
from ....vision.appearance import Grayscale as Grayscale
from ....vision.appearance import RandomAdjustSharpness as RandomAdjustSharpness
from ....vision.appearance import RandomAutocontrast as RandomAutocontrast
from ....vision.appearance import RandomChannelPermutation as RandomChannelPermutation
from ....vision.appearance import RandomEqualize as RandomEqualize
from ....vision.appearance import RandomErasing as RandomErasing
from ....vision.appearance import RandomGrayscale as RandomGrayscale
from ....vision.appearance import RandomInvert as RandomInvert
from ....vision.appearance import RandomPhotometricDistort as RandomPhotometricDistort
from ....vision.appearance import RandomPosterize as RandomPosterize
from ....vision.appearance import RandomSolarize as RandomSolarize
from ....vision.containers import Compose as Compose
from ....vision.containers import RandomApply as RandomApply
from ....vision.containers import RandomChoice as RandomChoice
from ....vision.containers import RandomOrder as RandomOrder
from ....vision.converting import ConvertImageDtype as ConvertImageDtype
from ....vision.converting import Identity as Identity
from ....vision.converting import Lambda as Lambda
from ....vision.converting import LinearTransformation as LinearTransformation
from ....vision.converting import Normalize as Normalize
from ....vision.converting import PILToTensor as PILToTensor
from ....vision.converting import ToDtype as ToDtype
from ....vision.converting import ToImage as ToImage
from ....vision.converting import ToPILImage as ToPILImage
from ....vision.converting import ToPureTensor as ToPureTensor
from ....vision.converting import ToTensor as ToTensor
from ....vision.converting import UniformTemporalSubsample as UniformTemporalSubsample
from ....vision.detection import ClampBoundingBoxes as ClampBoundingBoxes
from ....vision.detection import ClampKeyPoints as ClampKeyPoints
from ....vision.detection import ConvertBoundingBoxFormat as ConvertBoundingBoxFormat
from ....vision.detection import RandomIoUCrop as RandomIoUCrop
from ....vision.detection import SanitizeBoundingBoxes as SanitizeBoundingBoxes
from ....vision.detection import SanitizeKeyPoints as SanitizeKeyPoints
from ....vision.detection import SetClampingMode as SetClampingMode
from ....vision.enums import InterpolationMode as InterpolationMode
from ....vision.geometry import CenterCrop as CenterCrop
from ....vision.geometry import ElasticTransform as ElasticTransform
from ....vision.geometry import FiveCrop as FiveCrop
from ....vision.geometry import Pad as Pad
from ....vision.geometry import RandomAffine as RandomAffine
from ....vision.geometry import RandomCrop as RandomCrop
from ....vision.geometry import RandomHorizontalFlip as RandomHorizontalFlip
from ....vision.geometry import RandomPerspective as RandomPerspective
from ....vision.geometry import RandomResize as RandomResize
from ....vision.geometry import RandomResizedCrop as RandomResizedCrop
from ....vision.geometry import RandomRotation as RandomRotation
from ....vision.geometry import RandomShortestSize as RandomShortestSize
from ....vision.geometry import RandomVerticalFlip as RandomVerticalFlip
from ....vision.geometry import RandomZoomOut as RandomZoomOut
from ....vision.geometry import Resize as Resize
from ....vision.geometry import ScaleJitter as ScaleJitter
from ....vision.geometry import TenCrop as TenCrop
from ....vision.mixing import CutMix as CutMix
from ....vision.mixing import MixUp as MixUp
from ....vision.policies import AugMix as AugMix
from ....vision.policies import AutoAugment as AutoAugment
from ....vision.policies import AutoAugmentPolicy as AutoAugmentPolicy
from ....vision.policies import RandAugment as RandAugment
from ....vision.policies import TrivialAugmentWide as TrivialAugmentWide
from ....vision.transform import Transform as Transform
from ....vision.transform import query_size as query_size
from . import functional as functional
