"""resize: images, sequences and volumes to another size, with a region of interest, flips and antialiasing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType, DALIInterpType
from ..accepts import Input, Output, argument, listed
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, Trait, refuse_where, register
from . import resize_rules as rules

TYPES = (DALIDataType.UINT8, DALIDataType.INT16, DALIDataType.UINT16, DALIDataType.FLOAT)
_LINEAR = DALIInterpType.INTERP_LINEAR
_SEPARATE = ("resize_x", "resize_y", "resize_z")

RESIZE_ARGS = (
    Arg("antialias", "bool", True, "Use a wider filter if an axis shrinks (not for INTERP_NN)."),
    Arg("dtype", "dtype", None, "Element type of the output: the input's (default) or FLOAT."),
    Arg("image_type", "image_type", None, "Deprecated, no effect."),
    Arg("interp_type", "interp", _LINEAR, "Interpolation; `min_filter` and `mag_filter` take precedence.", tensor=True),
    Arg("mag_filter", "interp", _LINEAR, "Interpolation along axes that do not shrink.", tensor=True),
    Arg("max_size", "float_list", None, "Limits of the output's extents, one per axis or one for all."),
    Arg("min_filter", "interp", _LINEAR, "Interpolation along axes that shrink.", tensor=True),
    Arg("minibatch_size", "int", 32, "No effect: one launch on a GPU resizes all images.", inert=True),
    Arg(
        "mode", "str", "default",
        '"default" (missing extents take the mean scale of the others), "stretch" (they are not scaled), "not_larger", "not_smaller" '
        "(aspect ratio kept, no extent above or below the given one).",
    ),
    Arg("resize_longer", "float", 0.0, 'Length of the longer axis, aspect ratio kept (mode "not_larger").', tensor=True),
    Arg("resize_shorter", "float", 0.0, 'Length of the shorter axis, aspect ratio kept (mode "not_smaller").', tensor=True),
    Arg("resize_x", "float", 0.0, "Width; 0 = not given, negative flips.", tensor=True),
    Arg("resize_y", "float", 0.0, "Height; 0 = not given, negative flips.", tensor=True),
    Arg("resize_z", "float", 0.0, "Depth; 0 = not given, negative flips.", tensor=True),
    Arg("roi_end", "float_list", None, "End of the region of interest, in tensor order.", tensor=True),
    Arg("roi_relative", "bool", False, "The region is given as fractions of the input's extents (0..1), not in pixels."),
    Arg("roi_start", "float_list", None, "Start of the region of interest. If it is behind the end, the axis is flipped.", tensor=True),
    Arg("save_attrs", "bool", False, "A second output with the input's spatial extents (INT32)."),
    Arg("size", "float_list", None, "Extents of all spatial axes, in tensor order; 0 = not given, negative flips.", tensor=True),
    Arg("subpixel_scale", "bool", True, "For fractional sizes, keep the scale and adjust the region."),
    Arg("temp_buffer_hint", "int", 0, "No effect: temporary memory comes from the pool.", inert=True),
)  # fmt: skip

_MOST_PIXELS = 1 << 33
"""Limit for a resized sample: more pixels than any image has, and at most the bytes that a UINT8 sample may have (16 GiB, two channels)."""


@register
class Resize(Operator):
    repeatable = True
    on_cuda = True
    traits = Trait.TAKES_FEED
    schema = Schema(
        name="resize",
        doc="""Resizes images.

        The size is given in exactly one way: `size`, any of `resize_x`, `resize_y`, `resize_z`, `resize_shorter`, or `resize_longer`.
        Layouts: HWC, FHWC, CHW, FCHW, CFHW, DHWC, FDHWC, CDHW, FCDHW, CFDHW; element types UINT8, INT16, UINT16, FLOAT.""",
        accepts=(Input(TYPES, listed(*rules.LAYOUTS), "images"),),
        gives=(Output(type=argument("dtype")), Output(DALIDataType.INT32, 1, "")),
        args=RESIZE_ARGS,
        outputs=lambda constants: 2 if constants.get("save_attrs") else 1,
        devices=("cpu", "gpu"),
        deprecated={"image_type": None},
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._check_size_arguments(spec)
        if spec.given("roi_start") != spec.given("roi_end"):
            raise ValueError("`roi_start` and `roi_end` must be specified together")
        from . import image_resampling as resampling

        self._resampling = resampling
        self._fixed = self._fixed_geometries(spec)
        self._fixed_filters = self._constant_filters(spec)

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        # Pictures are nearly always UINT8. Code for volumes, and for types known only at run time, is compiled when they first appear.
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        wanted = self.spec.constant("dtype")
        wanted = source if wanted is None else wanted
        possible = source in TYPES and wanted in (source, DALIDataType.FLOAT)
        types = (storage_dtype(source), storage_dtype(wanted)) if possible else None
        self._resampling.compile_kernels(types, on_gpu=self.environment.gpu is not None)
        known = wanted if dtypes[0] is not None or self.spec.given("dtype") else None
        return [known, DALIDataType.INT32][: self.spec.output_count]

    def _fixed_geometries(self, spec: Spec) -> dict[int, rules.Geometry]:
        """The geometry for inputs of two and of three spatial axes, if it does not depend on the iteration."""
        fixed = self._fixed_extents(spec) or []
        return {
            axes: rules.Geometry(np.array([fixed * (axes // len(fixed))], np.int64)) for axes in (2, 3) if len(fixed) in (1, axes)
        }  # fmt: skip

    def _fixed_extents(self, spec: Spec) -> list[int] | None:
        """The output extents if they are integers, constant and independent of the input, as in most pipelines."""
        if any(spec.given(name) for name in ("roi_start", "roi_end", "max_size")) or self._mode not in ("default", "stretch"):
            return None
        size = spec.constants.get("size")
        if size is None or any(not 0 < value < 2**31 or value != int(value) for value in size):
            return None
        return [int(value) for value in size]

    def _check_size_arguments(self, spec: Spec) -> None:
        ways = [name for name in ("size", "resize_shorter", "resize_longer") if spec.given(name)]
        ways += ["resize_x, resize_y, resize_z"] if any(spec.given(name) for name in _SEPARATE) else []
        if len(ways) != 1:
            raise ValueError(
                "Exactly one method of specifying size must be used: resize_x, resize_y, resize_z, or `size`, or `resize_longer`, "
                f"or `resize_shorter`; given: {', '.join(ways) if ways else 'none'}"
            )
        by_side = ways[0] in ("resize_shorter", "resize_longer")
        if by_side and spec.given("mode"):
            raise ValueError("`resize_shorter`, `resize_longer` and `mode` arguments are mutually exclusive")
        self._mode = {"resize_shorter": "not_smaller", "resize_longer": "not_larger"}.get(ways[0], spec.constant("mode"))
        if self._mode not in rules.MODES:
            raise ValueError(f"Invalid resize mode: {self._mode}; allowed are {', '.join(rules.MODES)}")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        first, axes = rules.spatial_axes(layout)
        dtype = self._output_type(source.dtype)
        spatial = source.shapes[:, first : first + axes]
        geometry = self._geometry(spatial, arguments, iteration)
        self._check_extents(geometry.extents)
        resampling = self._resampling.Resampling(
            source.shapes, first, geometry, self._filters(arguments), bool(self.spec.constant("antialias"))
        )
        output = Batch(resampling.shapes, dtype, layout, device=source.device, source_info=source.source_info)
        step = resampling.step(source.addresses, output.addresses, storage_dtype(source.dtype), storage_dtype(dtype))
        if source.feed is not None and source.dtype == DALIDataType.UINT8:
            resampling.read_rows(source.feed, step, source.sizes, storage_dtype(dtype))
        outputs = [output]
        if self.spec.output_count == 2:
            outputs.append(Batch.from_values(spatial.astype(np.int32)))
        return Planned(outputs, [step])

    def _output_type(self, source: DALIDataType) -> DALIDataType:
        wanted = self.spec.constant("dtype")
        wanted = source if wanted is None else wanted
        if wanted not in (source, DALIDataType.FLOAT):
            raise ValueError(f"Resize must output original type or FLOAT. Got: {wanted.name} for {source.name} input")
        return wanted

    @staticmethod
    def _constant_filters(spec: Spec) -> np.ndarray | None:
        """The result of :meth:`_filters` if no argument is an input."""
        names = _filter_names(spec)
        if any(name in spec.argument_inputs for name in names):
            return None
        return np.array([[spec.constant(name)] for name in names], np.int64)

    @staticmethod
    def _check_extents(extents: np.ndarray) -> None:
        if len(extents) == 1 and math.prod(extents[0].tolist()) <= _MOST_PIXELS:  # one size for all samples, as in most pipelines
            return
        pixels = extents.astype(np.float64).prod(axis=1)
        if pixels.max(initial=0) > _MOST_PIXELS:
            i = int(np.argmax(pixels))
            wanted = " x ".join(map(str, extents[i].tolist()))
            raise SampleError(i, f"a resized sample of {wanted} pixels is too large; at most {_MOST_PIXELS} pixels are supported")

    def _geometry(self, spatial: np.ndarray, arguments: Arguments, iteration: Iteration) -> rules.Geometry:
        axes = spatial.shape[1]
        if axes in self._fixed:
            return self._fixed[axes]
        limits = self.spec.constant("max_size")
        if limits is not None and len(limits) not in (1, axes):
            raise ValueError(f'Argument "max_size" expects either a single value or a list of {axes} elements. {len(limits)} given.')
        region = None
        if arguments.given("roi_start"):
            start, end = arguments.vectors("roi_start", axes), arguments.vectors("roi_end", axes)
            region = rules.Region(start, end, self.spec.constant("roi_relative"))
        size = self._requested(spatial, arguments)
        wrong = ~np.isfinite(size).all(axis=1) | (np.abs(size).max(axis=1, initial=0) > 2**31)
        refuse_where(wrong, lambda i: f"the requested size must be finite numbers of at most 2^31, got {size[i].tolist()}")
        most = None if limits is None else np.resize(np.asarray(limits, np.float32), axes)
        how = self._size_rules(rules.SizeRules(self._mode, most, self.spec.constant("subpixel_scale")), axes, arguments)
        return rules.geometry(spatial, size, how, region)

    def _size_rules(self, usual: rules.SizeRules, axes: int, arguments: Arguments) -> rules.SizeRules:
        """The rules of sizes, for operators that let the user choose more of them."""
        return usual

    def _requested(self, spatial: np.ndarray, arguments: Arguments) -> np.ndarray:
        """Requested lengths float32[samples, axes]; 0 for axes without a request."""
        axes = spatial.shape[1]
        for name in ("resize_shorter", "resize_longer"):
            if arguments.given(name):
                return np.repeat(arguments.scalars(name)[:, None], axes, axis=1)
        if arguments.given("size"):
            return arguments.vectors("size", axes)
        names = ("resize_z", "resize_y", "resize_x")[3 - axes :]
        return np.stack([arguments.scalars(name) for name in names], axis=1)

    def _filters(self, arguments: Arguments) -> np.ndarray:
        """(min, mag) filter, int64[2, samples], or [2, 1] for all samples: the specific argument if given, else interp_type, else
        linear."""
        if self._fixed_filters is not None:
            return self._fixed_filters
        kinds = np.stack([arguments.scalars(name, np.int64) for name in _filter_names(arguments.spec)])
        refuse_where(((kinds < 0) | (kinds > max(DALIInterpType))).any(axis=0), lambda _: "Unknown interpolation type")
        return kinds


def _filter_names(spec: Spec) -> list[str]:
    """The arguments that give the filters for axes that shrink, and for all others."""
    return [name if spec.given(name) else "interp_type" for name in ("min_filter", "mag_filter")]


@register
class ExperimentalResize(Resize):
    schema = replace(
        Resize.schema,
        name="experimental.resize",
        doc="""Resizes images. It is the same operator as `resize`; in DALI it uses another library on a GPU.""",
    )
