"""Every registered operator has a serialization case, a parity case, a tested GPU kernel and a row in the docs, or a reason for a gap."""

from __future__ import annotations

import pytest
from helpers.dali_operators import NAMES as DALI
from helpers.guarded import calls
from helpers.mentions import mentions
from helpers.places import PROJECT, TESTS
from helpers.readers import EVERY_KIND

from asyncdali.operators import load_registry
from asyncdali.operators.kernel_operator import KernelOperator, TwoFileOperator

REGISTRY = load_registry()
NAMES = sorted(name for name in REGISTRY if not name.startswith("_test_"))

_CONDITIONAL = "conditional execution makes it: test_conditionals_parity.py"
_GPU_ONLY = "DALI has it for GPUs only"
NO_PARITY = {
    **dict.fromkeys([name for name in NAMES if name.startswith("_conditional.")], _CONDITIONAL),
    "_shape": "`DataNode.shape()`: test_constructs_parity.py",
    "_table_row": "magnitudes of auto_aug: test_auto_aug_parity.py",
    "_transfer": "`.gpu()` and `.cpu()` need a GPU in DALI",
    "experimental.readers.fits": _GPU_ONLY + " or with cfitsio; test_readers_fits.py compares with the standard",
    **dict.fromkeys(
        ("decoders.inflate", "experimental.dilate", "experimental.erode", "experimental.median_blur", "experimental.remap", "jitter",
         "optical_flow"),
        _GPU_ONLY,
    ),
}  # fmt: skip

_DALI_CPU = "DALI has it for CPUs only"
NO_GPU = {
    **dict.fromkeys(
        ("batch_permutation", "bbox_paste", "bbox_rotate", "decoders.audio", "decoders.numpy", "full", "full_like", "io.file.read", "ones",
         "ones_like", "peek_image_shape", "power_spectrum", "random.beta", "random.choice", "random_bbox_crop", "random_crop_generator",
         "roi_random_crop", "segmentation.random_mask_pixel", "segmentation.random_object_bbox", "segmentation.select_masks",
         "ssd_random_crop", "zeros", "zeros_like", "transforms.combine", "transforms.crop", "transforms.rotation", "transforms.scale",
         "transforms.shear", "transforms.translation"),
        _DALI_CPU,
    ),
    **dict.fromkeys(("_conditional.not_", "_conditional.validate_logical"), "conditions are on the CPU"),
}  # fmt: skip

SAME_KERNEL = {
    "_constant": "is uploaded", "_shape": "metadata only", "_table_row": "is uploaded", "_transfer": "test_cuda_device.py",
    "_conditional.merge": "test_cuda_conditionals.py", "_conditional.merge_by_index": "test_cuda_conditionals.py",
    "_conditional.split": "test_cuda_conditionals.py", "_conditional.split_by_index": "test_cuda_conditionals.py",
    "_arithmetic_generic_op": "test_cuda_expressions.py", "_tensor_subscript": "strided copies, as slice",
    "cast_like": "as cast", "color_twist": "as hsv", "decoders.image_crop": "as decoders.image",
    "decoders.image_slice": "as decoders.image", "element_extract": "strided copies, as slice", "erase": "strided copies, as slice",
    "expand_dims": "no elements move", "experimental.erode": "as experimental.dilate", "experimental.resize": "as resize",
    "paste": "strided copies, as slice", "per_frame": "no elements move", "random_resized_crop": "as resize",
    "resize_crop_mirror": "as resize",
    "sequence_rearrange": "strided copies, as slice", "squeeze": "no elements move",
}  # fmt: skip
"""Operators on CUDA whose kernels another test runs."""


def sources(*patterns):
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(TESTS.glob(pattern)))


@pytest.fixture(scope="module")
def parity():
    return sources("parity/*.py", "helpers/*parity*.py", "helpers/auto_aug.py", "helpers/conditional_programs.py")


@pytest.fixture(scope="module")
def twins():
    own = sources("unit/cuda/*.py", "gpu/*.py", "helpers/cuda.py")
    others = [path.read_text() for path in sorted(TESTS.glob("unit/**/*.py"))]
    return own + "\n".join(text for text in others if "helpers.twins" in text)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("readers.") and (name in DALI or name.startswith("_"))])
def test_parity_case_or_reason(name, parity):
    """All operators that DALI has. Operators with an underscore are internal."""
    assert mentions(name, parity) != (name in NO_PARITY), "give it a parity case or a reason, not both"


@pytest.mark.parametrize("name", [name for name in NAMES if "readers." not in name and REGISTRY[name].schema.inputs != (0, 0)])
def test_gpu_twin_or_reason(name, twins):
    operator = REGISTRY[name]
    if operator.schema.uploads or issubclass(operator, TwoFileOperator):  # test_element_operators.py, test_sample_operators.py
        return
    if operator.on_cuda:
        assert name not in NO_GPU and (mentions(name, twins) or name in SAME_KERNEL)
    else:
        assert name in NO_GPU


def test_reasons_belong_to_existing_operators():
    for reasons in (NO_PARITY, NO_GPU, SAME_KERNEL):
        assert set(reasons) <= set(REGISTRY)
    assert not [name for name in NO_GPU if REGISTRY[name].on_cuda] and not [name for name in SAME_KERNEL if not REGISTRY[name].on_cuda]


def test_readers_have_their_parity_matrix(parity):
    text = sources("parity/test_*reader*.py", "parity/test_decode*.py", "parity/test_input_video_parity.py", "helpers/readers.py")
    assert not [name for name in NAMES if name in DALI and name.startswith("readers.") and not mentions(name, text) and name not in text]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("_")])
def test_docs_row(name):
    text = (PROJECT / "docs" / "operators.md").read_text()
    assert f"\n## fn.{name}\n" in text and f"[`fn.{name}`]" in text


def test_serialization_cases():
    """test_serialize_operators.py (slow) runs operators that it names, and all others that accept the inputs of their declaration."""
    text = sources("unit/graph/test_serialize_operators.py", "unit/sources/test_video_input.py")
    public = [name for name in NAMES if not name.startswith("_") and name.rpartition("readers.")[2] not in EVERY_KIND]
    assert not [name for name in public if not mentions(name, text) and not calls(name, REGISTRY[name].schema)]


LEAST_SHORT, LEAST_TWO_FILES = 59, 11
"""Operators whose kernels follow from their declaration (`KernelOperator`), and those of them with a function of an element or a sample
(decision 45). The numbers may only rise."""


def test_most_operators_with_kernels_use_a_short_form():
    for kind, least in ((KernelOperator, LEAST_SHORT), (TwoFileOperator, LEAST_TWO_FILES)):
        found = [name for name in NAMES if issubclass(REGISTRY[name], kind) and REGISTRY[name].__module__.startswith("asyncdali.")]
        assert len(found) == least, f"{kind.__name__}: {len(found)} operators; write a larger number down"
