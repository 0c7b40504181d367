"""Every kernel compiles for every GPU that the CUDA versions support. NVRTC comes from its wheel, so no GPU is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.marks import slow
from helpers.nvrtc import ARCHITECTURES, REQUIRED, compile_for, library_of

import asyncdali
from asyncdali.batch import storage_dtype
from asyncdali.device.launch import Kernel, element_type, source_of
from asyncdali.operators import load_registry
from asyncdali.operators.expressions.cuda_code import make_kernel
from asyncdali.operators.expressions.programs import single
from asyncdali.operators.expressions.types import FLOATS, OPERANDS, OPERATIONS
from asyncdali.operators.samples import SampleOperator
from asyncdali.types import DALIDataType

ROOT = Path(asyncdali.__file__).parent
"""The package that is imported: the one of the tree, or an installed one."""
SOURCES = sorted(ROOT.rglob("*.cu"))
TYPES = [("uint8", "uint8"), ("int16", "float32"), ("float32", "int32")]
WITH_HALVES = (
    "crop_mirror_normalize_kernels.cu", "crop_kernels.cu", "cast_kernels.cu", "slice_kernels.cu", "pieces_kernels.cu",
    "gaussian_blur_kernels.cu", "gaussian_blur_small_kernels.cu",
    "filter_kernels.cu",
)  # fmt: skip
HALVES = [("uint8", "float16"), ("float16", "float32"), ("float16", "int16")]


def expressions():
    """Expressions with every operation. The types differ from operation to operation."""
    kinds = sorted(OPERANDS)
    for k, (name, operation) in enumerate(OPERATIONS.items()):
        allowed = [kind for kind in kinds if kind is not DALIDataType.BOOL and (operation.rule != "bits" or kind not in FLOATS)]
        chosen = [allowed[(k + step) % len(allowed)] for step in range(operation.operands)]
        yield make_kernel(single(name, list(range(operation.operands))), chosen, rows=k % 4 > 0).defines


MACROS = {
    "crop_mirror_normalize_kernels.cu": [
        (("RESIZED", 0),),
        *[(("RESIZED", 1), ("RESIZED_IN", "uint8"), ("CHANNELS", channels), ("SIGNED", channels % 2)) for channels in (3, 1, 2, 4)],
    ],
    "crop_mirror_normalize_planes_kernels.cu": [
        (("OUT", dtype), ("COLORED", colored)) for colored, dtype in enumerate(("float16", "float32", "uint8"))
    ],
    "audio_resample_kernels.cu": [(("FACTOR", "127.5"), ("OFFSET", "-1.0"), ("PER_LOBE", 32))],
    "resize_kernels.cu": [
        (("VOLUME", volume), ("CHANNELS", channels), ("SIGNED", channels % 2)) for volume in (0, 1) for channels in (0, 2, 3)
    ],
    "rotate_kernels.cu": [(("VOLUME", volume), ("CHANNELS", channels)) for volume in (0, 1) for channels in (0, 3)],
    "expressions_kernels.cu": list(expressions()),
    "color_space_kernels.cu": [(("FROM", a), ("TO", b)) for a in (1, 3) for b in (1, 3)],
    "pieces_kernels.cu": [(("AXES", axes), ("DENSE", dense)) for axes, dense in ((1, 1), (2, 0), (4, 1))],
    "warp_perspective_kernels.cu": [(("INTERPOLATION", kind),) for kind in (0, 1, 2)],
    "sphere_water_kernels.cu": [(("WATER", water),) for water in (0, 1)],
    "gaussian_blur_kernels.cu": [(("ROWS", rows),) for rows in (64, 160)],
    "nonsilent_region_kernels.cu": [(("SUM", sums), ("EXACT", exact)) for sums, exact in (("float64", 0), ("float32", 0), ("float64", 1))],
    "gaussian_blur_small_kernels.cu": [
        (("CHANNELS", channels), ("TAPS_X", size), ("TAPS_Y", size), ("LONGEST", longest), ("DOWN", down), ("SINGLE", size % 2))
        for channels, size, longest, down in ((3, 23, 31, 16), (1, 0, 31, 16))
    ],
    "reductions_kernels.cu": [(("KIND", kind), ("WHOLE", whole)) for kind in range(5) for whole in (0, 1)],
    "reductions_channels_kernels.cu": [
        (("KIND", kind), ("WHOLE", whole), ("CHANNELS", kind % 4 + 1)) for kind in range(5) for whole in (0, 1)
    ],
    "reductions_pixels_kernels.cu": [
        (("KIND", kind), ("WHOLE", whole), ("CHANNELS", kind % 3 + 2)) for kind in range(5) for whole in (0, 1)
    ],
    "normalize_kernels.cu": [(("CHANNELS", channels),) for channels in (1, 3, 4)],
    "spectrogram_kernels.cu": [
        (("HALF", half), ("TOGETHER", together)) for half, together in ((256, 8), (450, 8), (4096, 1), (5000, 1), (1, 8))
    ],
    "filter_kernels.cu": [(), (("WIDE", 5), ("CHANNELS", 3)), (("WIDE", 1), ("CHANNELS", 1))],
}
"""Macros beside IN and OUT, one tuple per variant."""


def sample_kernel(path):
    """The kernel of a sample operator, for the first types that its schema accepts.

    samples.cuh defines the kernel, which calls the function `item` of the operator's source.
    """
    operator = next(kind for kind in load_registry().values() if issubclass(kind, SampleOperator) and kind.cuda_source == path)
    given = [value.types[0] for value in operator.schema.accepts]
    made = [value.type if isinstance(value.type, DALIDataType) else given[0] for value in operator.schema.gives]
    types = [(f"IN{k}", dtype) for k, dtype in enumerate(given)] + [(f"OUT{k}", dtype) for k, dtype in enumerate(made)]
    return Kernel(path, "samples", (("INPUTS", len(given)), *((name, element_type(storage_dtype(dtype).name)) for name, dtype in types)))


def variants(path):
    text = path.read_text()
    if '#include "samples.cuh"' in text:
        yield sample_kernel(path)
    for entry in re.findall(r"^KERNEL(?:_OF\(\d\))? (\w+)\(", text, re.MULTILINE)[:1]:  # all kernels of a source are compiled
        pairs = TYPES + (HALVES if path.name in WITH_HALVES else [])
        for types in pairs if re.search(r"\bIN\b", text) else [None]:
            for macros in MACROS.get(path.name, [()]):
                if ("RESIZED", 1) in macros and types is not None and types[0] != "uint8":
                    continue  # resize has other output types
                yield Kernel(path, entry, ((("IN", types[0]), ("OUT", types[1])) if types else ()) + macros)


def test_all_sources_are_known():
    assert len(SOURCES) >= 9
    assert all(list(variants(path)) for path in SOURCES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
@pytest.mark.parametrize("ptx", [True, *slow(False)])
def test_compiles(path, ptx):
    """Machine code takes twice the time of PTX, so by default only :data:`in_ci` makes it."""
    assert compile_for(library_of(12), source_of(next(variants(path))), ARCHITECTURES[12][0], ptx=ptx) > 0


in_ci = pytest.mark.skipif(not REQUIRED, reason="compiles for a minute: .ci/run sets ASYNCDALI_NVRTC=required")


@in_ci
@pytest.mark.parametrize("version", sorted(ARCHITECTURES))
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_compiles_for_the_oldest_a_middle_and_the_newest(path, version):
    library, known = library_of(version), ARCHITECTURES[version]
    for architecture in (known[0], known[len(known) // 2], known[-1]):
        assert compile_for(library, source_of(next(variants(path))), architecture) > 0


@in_ci
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_all_variants_compile(path):
    """One architecture suffices, because the macros choose the code, and the architecture only chooses the instructions."""
    library = library_of(13)
    for kernel in variants(path):
        assert compile_for(library, source_of(kernel), ARCHITECTURES[13][0]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("version", sorted(ARCHITECTURES))
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_compiles_in_all_variants_and_for_every_architecture(path, version):
    library = library_of(version)
    oldest, *others = ARCHITECTURES[version]
    for kernel in variants(path):
        assert compile_for(library, source_of(kernel), oldest) > 0
    for architecture in others:
        assert compile_for(library, source_of(next(variants(path))), architecture) > 0
