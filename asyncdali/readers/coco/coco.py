"""readers.coco: encoded images with boxes, labels and masks of COCO annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...messages.notices import warn
from ...operators.base import Arg, Arguments, CompiledJob, Environment, Iteration, Planned, Preparation, Schema, Spec, Step, register
from ...types import DALIDataType
from ..base import SHUFFLE_AFTER_EPOCH_ARGS, reader_args
from ..files.contents import FileContentsReader
from ..files.entries import ENTRY_ARGS, EntryRules
from ..files.file_table import FileTable
from .coco_tables import DRAW_MASKS, LIMITS

if TYPE_CHECKING:
    from .coco_annotations import Annotations, Ragged

_ONLY_JSON = ("annotations_file", "skip_empty", "ratio", "ltrb", "images", "size_threshold")


def _output_count(constants: dict[str, object]) -> int:
    polygons = constants.get("polygon_masks", False) or constants.get("masks", False)
    return 3 + 2 * bool(polygons) + bool(constants.get("pixelwise_masks", False)) + bool(constants.get("image_ids", False))


@register
class COCOReader(FileContentsReader):
    schema = Schema(
        name="readers.coco",
        doc="""Reads encoded images and their annotations in the COCO format.

        Images are ordered by their ids (or as listed in `images`). Outputs: the image's bytes (1-D UINT8), boxes (FLOAT, shape (n, 4), as
        x, y, width, height or `ltrb`), labels (INT32, shape (n,)); then, if asked for, polygons (INT32, rows of box number, first vertex,
        past the last vertex) and vertices (FLOAT, shape (m, 2)), or a mask of labels per pixel (INT32, HWC); then the image's id.

        Labels count categories in the order of the file, from 1; an unknown category is 0.""",
        inputs=(0, 0),
        outputs=_output_count,
        seeded=True,
        aliases=("coco_reader",),
        deprecated={
            "meta_files_path": "preprocessed_annotations",
            "dump_meta_files": "save_preprocessed_annotations",
            "dump_meta_files_path": "save_preprocessed_annotations_dir",
            "save_img_ids": "image_ids",
        },
        args=(
            Arg("file_root", "str", None, "Directory that the annotations' file names are relative to.", path="read"),
            Arg("annotations_file", "str", "", "JSON file of annotations.", path="read"),
            Arg("avoid_class_remapping", "bool", False, "Give category ids as labels."),
            Arg("image_ids", "bool", False, "A further output: the image's id."),
            Arg("images", "str_list", None, "File names of the images to read, in this order; empty: all."),
            Arg("include_iscrowd", "bool", True, "Also read annotations of crowds.", stream=True),
            Arg("ltrb", "bool", False, "Boxes as left, top, right, bottom."),
            Arg("masks", "bool", False, "Deprecated form of `polygon_masks`: polygons count coordinates."),
            Arg("pixelwise_masks", "bool", False, "A further output: a mask of labels."),
            Arg("polygon_masks", "bool", False, "Two further outputs: polygons and vertices."),
            Arg("preprocessed_annotations", "str", "", "Folder with annotations saved earlier.", path="read"),
            Arg("ratio", "bool", False, "Coordinates as fractions of the image's size."),
            Arg("save_preprocessed_annotations", "bool", False, "Store the annotations in a form that is faster to read."),
            Arg("save_preprocessed_annotations_dir", "str", "", "Folder for the stored annotations.", path="write"),
            Arg("size_threshold", "float", 0.1, "Boxes less wide or high than this (in pixels) are left out.", stream=True),
            Arg("skip_empty", "bool", False, "Leave out images without annotations.", stream=True),
            *ENTRY_ARGS,
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *reader_args("Not supported: True is an error, as in DALI."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        from . import coco_kernels

        constant = spec.constant
        self._polygons = constant("polygon_masks") or constant("masks")
        self._pixels, self._ids = constant("pixelwise_masks"), constant("image_ids")
        if constant("masks"):
            warn("argument 'masks' of fn.readers.coco is deprecated; use 'polygon_masks'", DeprecationWarning)
        if self._polygons and self._pixels:
            raise RuntimeError("`pixelwise_masks` and `polygon_masks` are mutually exclusive")
        self._check_sources(spec)
        self._drawing = coco_kernels
        coco_kernels.lay_out_rows.compile()
        coco_kernels.gather_rows.compile()
        if self._pixels:
            coco_kernels.draw_masks.compile()
        super().__init__(spec, environment)

    def _check_sources(self, spec: Spec) -> None:
        constant = spec.constant
        if constant("file_root") is None:
            raise RuntimeError("`file_root` argument is required")
        if constant("skip_cached_images"):
            raise RuntimeError("COCOReader doesn't support `skip_cached_images` option")
        if not constant("annotations_file") and not constant("preprocessed_annotations"):
            raise RuntimeError("Either `annotations_file` or `preprocessed_annotations` must be provided")
        if constant("preprocessed_annotations"):
            for name in _ONLY_JSON:
                if spec.given(name) and constant(name) not in ("", False):
                    raise RuntimeError(f'When reading data from preprocessed annotation files, "{name}" is not supported.')
        if bool(constant("save_preprocessed_annotations")) != bool(constant("save_preprocessed_annotations_dir")):
            raise RuntimeError("`save_preprocessed_annotations` and `save_preprocessed_annotations_dir` must be given together")

    # --- discovery

    def discover(self) -> int:
        from . import coco_annotations

        constant = self.spec.constant
        folder, path = constant("preprocessed_annotations"), constant("annotations_file")
        if folder:
            found = coco_annotations.load(folder, self._polygons, self._pixels, self._ids)
        else:
            options = coco_annotations.Options(
                constant("ltrb"), constant("ratio"), constant("include_iscrowd"), constant("skip_empty"), constant("size_threshold"),
                self._polygons, self._pixels, not constant("avoid_class_remapping"), constant("images") or None,
            )  # fmt: skip
            found = coco_annotations.read_json(path, options)
        if not found.names:
            raise RuntimeError(f"No files found. {folder or path} leaves no images to read.")
        EntryRules.of(self.spec, self.environment.access, folder or path, constant("file_root"), "").check(found.names)
        if constant("save_preprocessed_annotations"):
            target = constant("save_preprocessed_annotations_dir")
            coco_annotations.save(found, target, self._polygons, self._pixels, self._ids)
        self._annotations: Annotations = found
        if self._pixels:
            self._drawings = coco_annotations.drawings(found, folder or path)
        self._table = FileTable.of(found.names, np.zeros(len(found.names), np.int32), constant("file_root"))
        return len(found.names)

    # --- one iteration

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        kinds = [DALIDataType.UINT8, DALIDataType.FLOAT, DALIDataType.INT32]
        kinds += [DALIDataType.INT32, DALIDataType.FLOAT] * bool(self._polygons) + [DALIDataType.INT32] * (self._pixels + self._ids)
        return list(kinds)

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        draw, masks = self.draw(iteration, arguments.count), None
        if self._pixels:
            masks, job = self._outlines(draw.indices)
            yield job
        return draw.indices, (yield from self.read_contents(draw)), masks

    def _outlines(self, indices: np.ndarray) -> tuple[Batch, CompiledJob]:
        """The masks of a batch, and the job that draws them."""
        found, drawings = self._annotations, self._drawings
        assert found.heights is not None and found.widths is not None
        heights, widths = found.heights[indices].astype(np.int64), found.widths[indices].astype(np.int64)
        masks = Batch(np.column_stack([heights, widths, np.ones_like(heights)]), DALIDataType.INT32, "HWC")
        masks.reserve(self.environment.allocate)
        steps = drawings.steps
        context, keep = DRAW_MASKS.make(
            targets=masks.addresses, heights=heights, widths=widths, firsts=steps.starts[indices], counts=steps.counts[indices],
            drawings=steps.rows, vertices=drawings.vertices, runs=drawings.runs, scratch=0,
        )  # fmt: skip
        scratch = LIMITS.size + int((heights * widths).max(initial=0)) + 1

        def explain(code: int, text: str, sample: int) -> str:
            return f"{self.table.path(int(indices[sample]))}: the outline of a polygon is too long"

        step = Step(self._drawing.draw_masks.address, context, explain, scratch, DRAW_MASKS.word.scratch, [*keep, masks])
        return masks, CompiledJob(len(indices), [step])

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        indices, contents, masks = iteration.prepared
        found = self._annotations
        outputs = [contents, _rows(found.boxes, indices), _rows(found.labels, indices)]
        if self._polygons:
            assert found.polygons is not None and found.vertices is not None
            outputs += [_rows(found.polygons, indices, self.spec.constant("masks")), _rows(found.vertices, indices)]
        if self._pixels:
            outputs.append(masks)
        if self._ids:
            assert found.ids is not None
            outputs.append(Batch.from_values(found.ids[indices].reshape(-1, 1)))
        for output in outputs[1:]:
            output.source_info = contents.source_info
        return Planned(outputs)


_FEW = 1 << 16
"""So many bytes are copied in less time than other threads would need to take the interpreter lock and give it back."""


def _rows(table: Ragged, indices: np.ndarray, in_coordinates: bool = False) -> Batch:
    """A table's rows as an output. `in_coordinates`: columns of vertices count numbers instead of vertices."""
    from .coco_kernels import gather_rows, lay_out_rows

    rows, samples = table.rows, len(indices)
    shapes, places = np.empty((samples, rows.ndim), np.int64), np.empty(samples, np.int64)
    if rows.ndim > 1:
        shapes[:, 1] = rows.shape[1]
    counts_at, indices_at, places_at, row_bytes = address_of(table.counts), address_of(indices), address_of(places), rows.strides[0]
    total = lay_out_rows(counts_at, indices_at, samples, address_of(shapes), rows.ndim, row_bytes, places_at)
    memory = np.empty(max(total, 8), np.uint8)
    gather = gather_rows.held if total <= _FEW else gather_rows
    gather(address_of(rows), address_of(table.starts), counts_at, indices_at, samples, row_bytes, places_at, address_of(memory))
    if in_coordinates:
        memory[:total].view(rows.dtype).reshape(-1, rows.shape[1])[:, 1:] *= 2
    dtype = DALIDataType.FLOAT if rows.dtype.kind == "f" else DALIDataType.INT32
    return Batch(shapes, dtype, "", places, memory, contiguous=True)
