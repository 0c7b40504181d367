"""segmentation.random_object_bbox: the box of an object of a labelled mask, picked at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, Field, Table
from ...sampling.stream_tables import POSITION, position_words
from ...types import DALIDataType
from ..accepts import CHOSEN, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, register
from ..detection.rows import first_rows
from ..kernel_operator import KernelOperator, Kernels, Names, ThreadScratch
from ..random.random import StreamOperator

OBJECT = Table("OBJECT", Field("label", "int64", "of the object"))
"""The record of an object. The start and the end of its box follow, int64[axes] each."""

OBJECT_BBOX = Table(
    "OBJECT_BBOX",
    INPUTS,
    Field("shapes", "int64[samples, axes]", "extents of each mask"),
    Field("axes", "int64", "dimensions of the masks"),
    Field("begins", "addresses", "of the output where boxes begin"),
    Field("ends", "addresses", "of the output of ends or extents; 0: they follow the begins in the same output"),
    Field("labels", "addresses", "of the output of labels, or 0"),
    Field("extents", "int64", "1: `ends` are extents"),
    Field("foreground", "float32[samples]", "probability that an object is picked instead of the whole mask"),
    Field("backgrounds", "int64[samples]", "label of the background"),
    Field("classes", "int64[all classes]", "labels that are drawn among, of all samples; 0: all labels but the background"),
    Field("weights", "float32[all classes]", "weights of these labels"),
    Field("firsts", "int64[samples + 1]", "where each sample's classes begin"),
    Field("least", "int64[samples, axes]", "least extents of a box, or 0"),
    Field("largest", "int64", "number of objects that count, the ones with the largest boxes; 0: all objects"),
    POSITION,
    Field("scratch", "int64", "offset of the scratch: int32 for each element of the largest mask"),
    Field("any_class", "int64", "1: all objects form one class"),
)

_TYPES = (
    DALIDataType.UINT8, DALIDataType.INT8, DALIDataType.UINT16, DALIDataType.INT16, DALIDataType.UINT32, DALIDataType.INT32,
    DALIDataType.BOOL,
)  # fmt: skip
_FORMATS = ("anchor_shape", "start_end", "box")
_LARGEST_MASK = 2**31 - 2


@register
class RandomObjectBBox(StreamOperator, KernelOperator):
    repeatable = True
    places_position = True
    kernel_module = "random_object_bbox_kernels"
    schema = Schema(
        name="segmentation.random_object_bbox",
        doc="""The box of a random object in a mask of labels, INT32; the box of the whole mask if there is no object.

        Objects are regions of one label that touch at a face. A class is drawn first, then one of its objects. If no object is
        large enough, another class is drawn. Masks have 1 to 6 axes; outputs are by `format`, then with `output_class` the label of
        the object, or that of the background (INT32 scalar). Streams are DALI's, bit for bit, for the same seed.""",
        accepts=(Input(_TYPES, name="masks", ranks=range(1, 7)),),
        gives=(Output(DALIDataType.INT32, CHOSEN, ""),),
        seeded=True,
        outputs=lambda constants: (1 if constants.get("format") == "box" else 2) + bool(constants.get("output_class")),
        args=(
            Arg(
                "background", "int", 0, "Label of the background; by default 0, or the number below all `classes` if 0 is a class.",
                tensor=True, stream=True,
            ),
            Arg("cache_objects", "bool", False, "No effect: one pass over a mask finds the objects of all classes.", inert=True),
            Arg(
                "class_weights", "float_list", None, "Weights of the classes; without `classes`, of the labels from 1 on.",
                tensor=True, stream=True,
            ),
            Arg("classes", "int_list", None, "Labels of objects; by default all but the background.", tensor=True, stream=True),
            Arg(
                "foreground_prob", "float", 1.0, "Probability of picking an object instead of the whole mask.", tensor=True, stream=True,
            ),
            Arg(
                "format", "str", "anchor_shape", '"anchor_shape" and "start_end": two outputs; "box": one output with start and end.',
            ),
            Arg("ignore_class", "bool", False, "Pick among all objects, whatever their class.", stream=True),
            Arg("k_largest", "int", None, "Only this many objects (of the drawn class) count, those with the largest boxes.", stream=True),
            Arg("output_class", "bool", False, "One more output: the label."),
            Arg("threshold", "int_list", None, "Least extents of a box: one, or one per axis.", tensor=True, stream=True),
        ),
    )  # fmt: skip

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("format") not in _FORMATS:
            raise ValueError(f"`format` is {spec.constant('format')!r}; supported are {', '.join(_FORMATS)}")
        if spec.constant("ignore_class"):
            both = [name for name in ("classes", "class_weights", "output_class") if spec.given(name) and spec.constant(name) is not False]
            if both:
                raise ValueError(f"`{both[0]}` and `ignore_class` exclude each other: with `ignore_class` objects have no class")
        if spec.given("k_largest") and spec.constant("k_largest") < 1:
            raise ValueError(f"`k_largest` must be at least 1, got {spec.constant('k_largest')}")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        # Labels are INT32 outputs, so labels of UINT32 masks from 2^31 on are negative, as in DALI.
        return [self.kernels.object_bbox_step("int32" if inputs[0] == "uint32" else inputs[0])]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, position, count = inputs[0], iteration.position, arguments.count
        sizes = source.shapes.prod(axis=1)
        if (sizes > _LARGEST_MASK).any():
            message = f"the mask has {int(sizes.max())} elements; the largest supported mask has {_LARGEST_MASK}"
            raise SampleError(int(np.argmax(sizes)), message)
        backgrounds, classes, weights, firsts = self._classes(arguments)
        if source.dtype == DALIDataType.UINT32:
            backgrounds = backgrounds.astype(np.int32).astype(np.int64)
        threshold: Any = 0
        if arguments.given("threshold"):
            threshold = np.ascontiguousarray(arguments.vectors("threshold", source.ndim, np.int64))
        joined, labelled = self.spec.constant("format") == "box", self.spec.constant("output_class")
        boxes = [self._output(count, 2 * source.ndim)] if joined else [self._output(count, source.ndim) for _ in range(2)]
        outputs = boxes + [self._output(count, None)] * bool(labelled)
        entries = OBJECT_BBOX.entries(
            inputs=source.addresses, shapes=np.ascontiguousarray(source.shapes), axes=source.ndim, begins=boxes[0].addresses,
            ends=0 if joined else boxes[1].addresses, labels=outputs[-1].addresses if labelled else 0,
            extents=self.spec.constant("format") == "anchor_shape", foreground=arguments.scalars("foreground_prob"),
            backgrounds=backgrounds, classes=classes, weights=weights, firsts=firsts, least=threshold,
            largest=self.spec.constant("k_largest") or 0, **position_words(position), scratch=0,
            any_class=bool(self.spec.constant("ignore_class")),
        )  # fmt: skip
        scratch = ThreadScratch(4 * int(sizes.max(initial=0)), OBJECT_BBOX.word.scratch)
        return Planned(outputs, [self.step(self.kernel(source, boxes[0]), entries, None, scratch, self._explain)])

    @staticmethod
    def _output(count: int, length: int | None) -> Batch:
        return Batch(np.full((count, 0 if length is None else 1), length or 0, np.int64), DALIDataType.INT32)

    @staticmethod
    def _explain(code: int, text: str, sample: int) -> str:
        return "there is not enough memory for the table of objects"

    def _classes(self, arguments: Arguments) -> tuple[np.ndarray, object, object, object]:
        """Backgrounds int64[samples]; classes int64 and weights float32 of all samples, and the start of each sample's list (0: not
        given)."""
        backgrounds = arguments.scalars("background", np.int64)
        if not arguments.given("classes") and not arguments.given("class_weights"):
            return backgrounds, 0, 0, 0
        classes = self._lists("classes", np.int64, arguments)
        weights = self._lists("class_weights", np.float32, arguments)
        if classes is None:
            assert weights is not None
            classes = [_labels(len(row), int(background)) for row, background in zip(weights, backgrounds, strict=True)]
        elif not arguments.given("background"):
            backgrounds = np.array([row.min() - 1 if (row == 0).any() else 0 for row in classes], np.int64)
        if weights is None:
            weights = [np.ones(len(row), np.float32) for row in classes]
        for i, (labels, likely) in enumerate(zip(classes, weights, strict=True)):
            if len(labels) != len(likely):
                raise SampleError(i, f"`classes` and `class_weights` must be of one length, got {len(labels)} and {len(likely)}")
            if (labels == backgrounds[i]).any():
                raise SampleError(i, f"the label {int(backgrounds[i])} is in `classes`, but it is the background")
            if not ((likely >= 0) & np.isfinite(likely)).all():
                raise SampleError(i, f"`class_weights` must be finite and not negative, got {likely.tolist()}")
        firsts = first_rows(np.array([len(row) for row in classes], np.int64))
        # One more element, so that empty lists have an address, too.
        return backgrounds, np.concatenate([*classes, [0]]).astype(np.int64), np.concatenate([*weights, [0]]).astype(np.float32), firsts

    @staticmethod
    def _lists(name: str, dtype: Any, arguments: Arguments) -> list[np.ndarray] | None:
        """The list of each sample; None: not given."""
        if not arguments.given(name):
            return None
        if not arguments.is_input(name):
            return [np.array(arguments.constant(name), dtype)] * arguments.count
        batch = arguments.batch(name)
        return [batch.sample(i).reshape(-1).astype(dtype) for i in range(len(batch))]


def _labels(count: int, background: int) -> np.ndarray:
    """The first `count` labels from 0 on, without the background."""
    labels = np.arange(count, dtype=np.int64)
    return labels + (labels >= background) if background >= 0 else labels
