"""The wish index: from what a reader wants to the operators that do it."""

from __future__ import annotations

import html
import re

WISHES: dict[str, str] = {
    # --- geometry
    "cut random holes": "erase grid_mask",
    "cutout, random erasing": "erase",
    "hide a grid of squares": "grid_mask",
    "turn by a random angle": "rotate random.uniform",
    "mirror half of the pictures": "flip crop_mirror_normalize random.coin_flip",
    "turn upside down": "flip",
    "resize to a fixed size": "resize",
    "resize the shorter side to 256": "resize",
    "keep the aspect ratio": "resize paste pad",
    "thumbnail, smaller picture": "resize decoders.image",
    "random resized crop, as for ImageNet": "decoders.image_random_crop random_resized_crop",
    "centre crop (center crop)": "crop crop_mirror_normalize decoders.image_crop",
    "crop where I say": "slice decoders.image_slice",
    "crop before decoding, decode only a part": "decoders.image_crop decoders.image_slice decoders.image_random_crop",
    "pad to the largest of the batch": "pad",
    "pad to a multiple of 32": "pad",
    "letterbox, place on a larger canvas": "paste crop",
    "shear, tilt": "warp_affine transforms.shear",
    "shift, translate": "warp_affine transforms.translation",
    "zoom in and out": "warp_affine transforms.scale resize",
    "change the perspective": "experimental.warp_perspective",
    "elastic deformation, warp by my own map": "experimental.remap",
    "fisheye, sphere": "sphere",
    "waves, ripples": "water",
    "shuffle neighbouring pixels": "jitter",
    "several affine steps in one, no double interpolation": "transforms.combine warp_affine",
    # --- mixtures
    "mosaic of four pictures": "multi_paste",
    "cutmix": "multi_paste permute_batch",
    "mixup, blend two pictures": "permute_batch random.beta",
    "put pictures side by side": "cat multi_paste",
    "several data sets in fixed shares": "experimental.mix",
    "batches of similar length, token budget": "experimental.batch_by",
    "slow samples must not delay the others": "experimental.ready",
    "leave out samples by a condition": "experimental.select",
    "shuffle within a batch": "permute_batch batch_permutation",
    # --- colours
    "brighter or darker, change the colours (colors)": "brightness brightness_contrast color_twist",
    "more contrast": "contrast brightness_contrast clahe equalize",
    "colour jitter (color jitter)": "color_twist hsv",
    "sepia, mix the colour channels": "python_function color_twist",
    "change the hue": "hue hsv",
    "grayscale (greyscale, gray), black and white": "color_space_conversion saturation decoders.image",
    "less colour, desaturate": "saturation",
    "RGB to BGR, swap channels": "color_space_conversion decoders.image",
    "YCbCr": "color_space_conversion",
    "invert, solarize, posterize": "lookup_table python_function",
    "equalize the histogram": "equalize clahe",
    "local contrast, X-ray pictures": "clahe",
    "raw sensor data, Bayer pattern": "debayer",
    "gamma correction": "lookup_table",
    "subtract mean and divide by deviation": "crop_mirror_normalize normalize",
    "normalize each picture by its own mean": "normalize",
    "HWC to CHW": "transpose crop_mirror_normalize",
    # --- noise, blur
    "blur": "gaussian_blur filter",
    "motion blur": "filter",
    "sharpen": "filter laplacian",
    "find edges": "laplacian filter",
    "remove speckles": "experimental.median_blur",
    "grow or shrink bright regions, morphology": "experimental.dilate experimental.erode",
    "sensor noise, Gaussian noise": "noise.gaussian noise.shot",
    "dead pixels": "noise.salt_and_pepper",
    "JPEG artefacts (artifacts), worse quality": "jpeg_compression_distortion",
    # --- policies
    "AutoAugment, RandAugment, TrivialAugment": "page:auto_aug.md",
    "apply with a probability": "random.coin_flip page:auto_aug.md",
    "choose one of several augmentations": "page:auto_aug.md random.choice",
    # --- boxes and masks
    "mirror boxes with the picture": "bb_flip coord_flip",
    "rotate boxes": "bbox_rotate",
    "crop so that objects stay inside": "random_bbox_crop ssd_random_crop",
    "anchors, encode boxes for SSD": "box_encoder",
    "crop around an object of a mask": "segmentation.random_object_bbox roi_random_crop",
    "a random pixel of a class": "segmentation.random_mask_pixel",
    "polygons of some objects": "segmentation.select_masks",
    "move key points with the picture": "coord_transform coord_flip",
    "the same transform for picture and mask": "warp_affine resize slice",
    "one-hot labels": "one_hot",
    # --- readers
    "read a folder of classes, ImageFolder": "readers.file",
    "read a list of files with labels": "readers.file",
    "TFRecord": "readers.tfrecord",
    "tar files, WebDataset": "readers.webdataset",
    "COCO": "readers.coco",
    "LMDB, Caffe": "readers.caffe readers.caffe2",
    "RecordIO, MXNet": "readers.mxnet",
    "NumPy files": "readers.numpy decoders.numpy",
    "astronomy, FITS": "experimental.readers.fits",
    "data from a generator, a database, my own code": "external_source python_function",
    "a path from the network or another operator": "io.file.read",
    "frames of a video": "readers.video experimental.readers.video decoders.video",
    "folders of frames": "readers.sequence",
    "speech with a manifest": "readers.nemo_asr",
    "compressed tensors, LZ4": "decoders.inflate",
    # --- sound
    "spectrogram": "spectrogram power_spectrum",
    "mel spectrogram, MFCC": "mel_filter_bank mfcc to_decibels",
    "change the speed or pitch of sound": "audio_resample",
    "mask times and frequencies, SpecAugment": "erase",
    "resample sound": "audio_resample decoders.audio",
    "cut silence": "nonsilent_region slice",
    "stereo to mono": "decoders.audio",
    "pre-emphasis": "preemphasis_filter",
    # --- videos
    "other angles for each frame": "per_frame rotate",
    "reorder or repeat frames": "sequence_rearrange",
    "a few frames of a clip": "element_extract",
    "motion between frames": "optical_flow",
    # --- tensors
    "change the element type": "cast cast_like reinterpret",
    "add or drop a dimension": "expand_dims squeeze reshape",
    "stack pictures into a sequence": "stack cat",
    "mean, maximum, sum over an axis": "reductions.mean reductions.max reductions.sum",
    "random numbers": "random.uniform random.normal random.beta random.choice",
    "run NumPy code in the pipeline": "python_function experimental.numba_function",
    "name of the file of a sample": "get_property",
    "size of a picture without decoding": "peek_image_shape shapes",
    "save a picture to look at": "dump_image",
    # --- whole jobs
    "resume after a crash": "page:guides/checkpoints.md",
    "find out why it is slow": "page:which_knob.md page:guides/throughput.md",
    "skip broken files": "page:bad_data.md",
    "several GPUs": "page:guides/several_gpus.md",
    "two crops of one picture, SimCLR, DINO": "page:guides/self_supervised.md random_resized_crop",
    "see a step again": "page:provenance.md",
}
"""Wish -> names of operators, and pages ("page:FILE.md")."""


def _link(name: str) -> str:
    if name.startswith("page:"):
        file = name.removeprefix("page:")
        label = file.removesuffix(".md").rsplit("/", 1)[-1].replace("_", " ")
        return f'<a href="{file.removesuffix(".md")}.html">{html.escape(label)} (page)</a>'
    return f'<a href="operators/{name}.html">{html.escape(name)}</a>'


def page() -> str:
    """The page with all wishes and a filter."""
    lines = ["# Wish index", "", "What do you want to do to your data? Type a word: `holes`, `blur`, `boxes`, `tar`.", ""]
    lines += ['<input id="wish-filter" type="search" placeholder="Filter wishes" aria-label="Filter wishes">']
    lines += ['<p id="wish-count" aria-live="polite"></p>', "<ul>"]
    for wish, names in sorted(WISHES.items(), key=lambda item: re.sub(r"^(a|the) ", "", item[0].lower())):
        lines.append(f'<li class="wish">{html.escape(wish)}: {", ".join(_link(name) for name in names.split())}</li>')
    return "\n".join([*lines, "</ul>", ""])
