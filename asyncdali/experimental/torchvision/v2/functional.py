"""torchvision's functions: `torchvision.transforms.v2.functional`, and DALI's place of them."""

from __future__ import annotations

from collections.abc import Callable

from ....vision.boxes import clamp_bounding_boxes as clamp_bounding_boxes
from ....vision.boxes import clamp_keypoints as clamp_keypoints
from ....vision.boxes import convert_bounding_box_format as convert_bounding_box_format
from ....vision.boxes import sanitize_bounding_boxes as sanitize_bounding_boxes
from ....vision.boxes import sanitize_keypoints as sanitize_keypoints
from ....vision.colors import adjust_brightness as adjust_brightness
from ....vision.colors import adjust_contrast as adjust_contrast
from ....vision.colors import adjust_gamma as adjust_gamma
from ....vision.colors import adjust_hue as adjust_hue
from ....vision.colors import adjust_saturation as adjust_saturation
from ....vision.colors import adjust_sharpness as adjust_sharpness
from ....vision.colors import autocontrast as autocontrast
from ....vision.colors import equalize as equalize
from ....vision.colors import grayscale_to_rgb as grayscale_to_rgb
from ....vision.colors import invert as invert
from ....vision.colors import permute_channels as permute_channels
from ....vision.colors import posterize as posterize
from ....vision.colors import rgb_to_grayscale as rgb_to_grayscale
from ....vision.colors import solarize as solarize
from ....vision.colors import to_grayscale as to_grayscale
from ....vision.conversion import convert_image_dtype as convert_image_dtype
from ....vision.conversion import get_dimensions as get_dimensions
from ....vision.conversion import get_image_size as get_image_size
from ....vision.conversion import get_num_channels as get_num_channels
from ....vision.conversion import get_num_frames as get_num_frames
from ....vision.conversion import get_size as get_size
from ....vision.conversion import is_pure_tensor as is_pure_tensor
from ....vision.conversion import normalize as normalize
from ....vision.conversion import pil_to_tensor as pil_to_tensor
from ....vision.conversion import to_dtype as to_dtype
from ....vision.conversion import to_image as to_image
from ....vision.conversion import to_pil_image as to_pil_image
from ....vision.conversion import to_tensor as to_tensor
from ....vision.conversion import uniform_temporal_subsample as uniform_temporal_subsample
from ....vision.cropping import center_crop as center_crop
from ....vision.cropping import crop as crop
from ....vision.cropping import erase as erase
from ....vision.cropping import five_crop as five_crop
from ....vision.cropping import horizontal_flip as horizontal_flip
from ....vision.cropping import pad as pad
from ....vision.cropping import resized_crop as resized_crop
from ....vision.cropping import ten_crop as ten_crop
from ....vision.cropping import vertical_flip as vertical_flip
from ....vision.enums import InterpolationMode as InterpolationMode
from ....vision.families import register_kernel as register_kernel
from ....vision.families import variant
from ....vision.filters import gaussian_blur as gaussian_blur
from ....vision.filters import gaussian_noise as gaussian_noise
from ....vision.filters import jpeg as jpeg
from ....vision.resizing import resize as resize
from ....vision.warping import affine as affine
from ....vision.warping import elastic as elastic
from ....vision.warping import elastic_transform as elastic_transform
from ....vision.warping import perspective as perspective
from ....vision.warping import rotate as rotate

get_image_num_channels = get_num_channels
hflip = horizontal_flip
vflip = vertical_flip


def __getattr__(name: str) -> Callable[..., object]:
    """`resize_image`, `crop_mask`, ...: the code of a function for plain tensors of one kind."""
    found = variant(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
