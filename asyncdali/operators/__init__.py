"""Operators: one module per operator or close family, with schema, shape rule and kernels together.

The modules of this folder are the contract that all operators follow. Each subfolder is a family of operators:

    arrays     casts/, constants/, expressions/, lookup/, moves/, shaping/, statistics/
    batches    batches/, python/, random/, sequences/
    images     color/, crop/, decode/, filters/, flip/, images/, masks/, resize/, warp/
    others     audio/, detection/, segmentation/, transforms/

There is one module per operator, except for operators with one shape rule and one plan. tests/unit/house/test_house.py reads this list:

    one rule, several functions           audio/spectrogram.py, filters/dilate_erode_median.py, random/noise.py, statistics/reductions.py,
                                          transforms/transforms.py
    one decoder or reader, several ways   decode/image_decoder.py, video/video.py
    to choose the part
    two names, or two halves of one       batches/conditional.py, constants/constant.py, python/python_function.py, resize/resize.py
    construct

    accepts.py          Declarations of an operator's inputs and outputs
    arguments.py        The values of an operator's arguments in one iteration, per sample
    base.py             The operator contract: how an operator is declared, checked and planned
    element_kernels.py  Compiled step of the operators that compute every element by itself; see ``elements.py``
    elements.py         Base class of operators that compute every element by itself: two files declare such an operator
    extensions.py       Operators of other packages, found through entry points
    gate.py             Compares the inputs of an operator with its declaration, before each iteration is prepared
    kernel_operator.py  Base class of operators whose compiled functions and CUDA kernels stand in files beside the module
    modules.py          The module of each operator (generated: ``python -m asyncdali.graph.reference``)
    registry.py         Registries by name: operators, and classes of objects that stored pipelines may contain
    row_feeds.py        Feeds: the contents of a batch while they are computed, for the only operator that reads the batch
    sample_kernels.py   Compiled step of the operators that compute every sample by a function of arrays; see ``samples.py``
    samples.py          Base class of operators that compute every sample by a function of arrays
    schema.py           The declaration of an operator: its name, inputs, arguments, types, defaults and devices
    spec.py             Inputs of an operator instance
    steps.py            The results of `plan` and `prepare`: compiled steps, output batches, and jobs before planning
    traits.py           Attributes that few operators have, and facts about neighbours

May import `codecs`, `sampling`, `compiled`, `batch`, `types`, `errors`, `device.launch`; never the graph, the runtime or a reader.
"""

from __future__ import annotations

from .base import REGISTRY, Operator, Schema
from .registry import Registry


def load_registry() -> Registry:
    """Import all declarations (no kernels, no Numba; 0.1 s of a processor) and return the registry."""
    for _ in REGISTRY.values():
        pass
    return REGISTRY


__all__ = ["REGISTRY", "Operator", "Schema", "load_registry"]

