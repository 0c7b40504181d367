"""Random calls of operators that have kernels for a GPU, to compare the results of two devices.

A call is made from a seed, so it is the same on both. Inputs have random sizes, types and layouts (frames, depth, channels first, one to
seven channels), and some samples are empty. Arguments are constants, or differ from sample to sample, or from frame to frame.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncdali import fn, math, pipeline_def
from asyncdali.types import DALIDataType as T
from asyncdali.types import DALIInterpType

LAYOUTS = ("HWC", "HWC", "FHWC", "DHWC", "CHW", "FCHW")
PIXELS = (T.UINT8, T.UINT8, T.FLOAT, T.INT16)
ALL = (*PIXELS, T.UINT16, T.INT32, T.FLOAT16, T.BOOL, T.INT8, T.UINT32, T.INT64, T.FLOAT64)
BORDERS = ("reflect_101", "reflect_1001", "wrap", "clamp", "constant")
_DTYPES = {
    T.UINT8: np.uint8, T.INT16: np.int16, T.UINT16: np.uint16, T.INT32: np.int32, T.FLOAT: np.float32, T.FLOAT16: np.float16,
    T.BOOL: np.bool_, T.INT8: np.int8, T.UINT32: np.uint32, T.INT64: np.int64, T.FLOAT64: np.float64,
}  # fmt: skip


class Call:
    """The random numbers of one call, and its inputs."""

    def __init__(self, name: str, seed: int, device: str):
        self.random = np.random.default_rng([zlib.crc32(name.encode()), seed])
        self.device, self.count = device, int(self.random.integers(1, 5))
        self.layout, self.channels, self.shapes, self.frames = "", 0, [], []

    def pick(self, *options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def chance(self, part: float = 0.5) -> bool:
        return bool(self.random.random() < part)

    def fed(self, samples: list[np.ndarray], layout: str = "") -> Any:
        node = fn.external_source(source=lambda: samples, layout=layout or None)
        return node.gpu() if self.device == "gpu" else node

    def elements(self, shape: list[int], kind: T) -> np.ndarray:
        dtype = np.dtype(_DTYPES[kind])
        if dtype.kind == "b":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.kind == "f":
            return (self.random.normal(0, 60, shape)).astype(dtype)
        info = np.iinfo(dtype)
        return self.random.integers(max(info.min, -100), min(info.max, 255), shape, endpoint=True).astype(dtype)

    def pictures(
        self, kinds: tuple[T, ...] = ALL, layouts: tuple[str, ...] = LAYOUTS, channels: tuple[int, ...] = (1, 2, 3, 3, 4, 5, 7)
    ) -> Any:  # fmt: skip
        self.layout, self.channels, kind = self.pick(*layouts), self.pick(*channels), self.pick(*kinds)
        side = self.pick(4, 20, 70)
        for _ in range(self.count):
            height, width = self.random.integers(1, (12 if "D" in self.layout else side) + 1), self.random.integers(1, side + 1)
            extents = {"F": int(self.random.integers(1, 4)), "D": int(self.random.integers(1, 10)), "C": self.channels}
            extents |= {"H": 0 if self.chance(0.05) else int(height), "W": 0 if self.chance(0.05) else int(width)}
            self.shapes.append([extents[axis] for axis in self.layout])
        self.frames = [shape[0] for shape in self.shapes] if self.layout[0] == "F" else []
        return self.fed([self.elements(shape, kind) for shape in self.shapes], self.layout)

    def argument(self, make: Callable[[], np.ndarray], per_frame: bool = True) -> Any:
        """A constant, one value per sample, or one per frame."""
        if self.chance():
            return make().tolist()
        if per_frame and self.frames and self.chance():
            return fn.per_frame(fn.external_source(source=_always([np.stack([make() for _ in range(many)]) for many in self.frames])))
        return fn.external_source(source=_always([make() for _ in range(self.count)]))

    def real(self, low: float, high: float, *shape: int, per_frame: bool = True) -> Any:
        return self.argument(lambda: np.asarray(self.random.uniform(low, high, shape), np.float32), per_frame)

    def whole(self, low: int, high: int, *shape: int, per_frame: bool = True) -> Any:
        return self.argument(lambda: np.asarray(self.random.integers(low, high + 1, shape), np.int32), per_frame)

    @property
    def spatial(self) -> str:
        return "".join(axis for axis in self.layout if axis in "DHW")

    def interpolation(self) -> DALIInterpType:
        return self.pick(*DALIInterpType)


def _always(samples: list[np.ndarray]) -> Callable[[], list[np.ndarray]]:
    return lambda: samples


def _warped(c: Call) -> Any:
    x = c.pictures(PIXELS, ("HWC", "HWC", "FHWC", "DHWC"))
    axes = len(c.spatial)

    def matrix() -> np.ndarray:
        return np.float32(np.eye(axes, axes + 1) + c.random.uniform(-0.4, 0.4, (axes, axes + 1)) * ([1] * axes + [20])).reshape(-1)

    return fn.warp_affine(x, matrix=c.argument(matrix), interp_type=c.pick(*_LINEAR), fill_value=c.pick(0.0, 300.0), inverse_map=c.chance())


def _filtered(c: Call) -> Any:
    x = c.pictures((*PIXELS, T.UINT16, T.FLOAT16, T.INT8))
    extents = [int(c.random.integers(1, 9)) for _ in c.spatial]
    return fn.filter(x, c.fed([np.float32(c.random.normal(0, 0.3, extents)) for _ in range(c.count)]), border=c.pick(*BORDERS))


def _arithmetic(c: Call) -> Any:
    x = c.pictures()
    others = [c.elements(shape if c.chance(0.7) else [1] * len(shape), T.INT16) for shape in c.shapes]
    y = c.pick(3, 2.5, c.fed(others, c.layout))
    return c.pick(
        lambda: x + y, lambda: y - x, lambda: x * y, lambda: x / 7, lambda: x // 7, lambda: (x > y) & (x < 100), lambda: -x,
        lambda: math.clamp(x, -5, 90), lambda: math.max(x, y), lambda: x * 0.5 + 3, lambda: (x + y) * y - x,
    )()  # fmt: skip


def _reduced(c: Call) -> Any:
    x = c.pictures((*PIXELS, T.UINT16, T.INT32, T.INT8, T.UINT32, T.INT64))
    axes = sorted(c.random.permutation(len(c.layout))[: int(c.random.integers(1, len(c.layout) + 1))].tolist())
    return getattr(fn.reductions, c.pick("sum", "mean", "mean_square", "rms", "min", "max"))(x, axes=axes, keep_dims=c.chance())


def _flipped(c: Call) -> Any:
    x = c.pictures()
    names = ("horizontal", "vertical", *(("depthwise",) if "D" in c.layout else ()))
    return fn.flip(x, **{name: c.whole(0, 1, per_frame=False) for name in names})


def _sliced(c: Call) -> Any:
    x = c.pictures()
    many = len(c.spatial)
    where = {"rel_start": c.real(-0.2, 0.6, many, per_frame=False), "rel_shape": c.real(0, 1.4, many, per_frame=False)}
    return fn.slice(x, **where, axis_names=c.spatial, out_of_bounds_policy=c.pick("pad", "trim_to_shape"), fill_values=3.0)


def _normalized(c: Call) -> Any:
    x = c.pictures((*PIXELS, T.UINT16, T.FLOAT16, T.INT32), channels=(1, 2, 3, 3, 4, 5))
    size = {"crop": c.real(1, 40, len(c.spatial), per_frame=False)} if c.chance() else {}
    return fn.crop_mirror_normalize(
        x, **size, mirror=c.whole(0, 1, per_frame=False), mean=c.real(0, 100, c.channels, per_frame=False), out_of_bounds_policy="pad",
        std=c.real(1, 90, c.channels, per_frame=False), dtype=c.pick(T.FLOAT, T.FLOAT16, T.UINT8), output_layout=c.layout,
    )  # fmt: skip


def _of(make: Callable[[Call, Any], Any], *given: Any) -> Callable[[Call], Any]:
    """Pictures first, because arguments depend on their layout."""
    return lambda c: make(c, c.pictures(*given))


def _resized(c: Call) -> Any:
    x = c.pictures(PIXELS)
    return fn.resize(x, size=c.real(1, 90, len(c.spatial), per_frame=False), interp_type=c.interpolation(), antialias=c.chance())


def _rotated(c: Call) -> Any:
    x = c.pictures(PIXELS, _CHANNELS_LAST)
    axis = {"axis": c.real(0.1, 1, 3)} if "D" in c.layout else {}
    return fn.rotate(x, angle=c.real(-200, 200), interp_type=c.pick(*_LINEAR), keep_size=c.chance(), **axis)


def _salted(c: Call) -> Any:
    return fn.noise.salt_and_pepper(c.pictures(PIXELS, _CHANNELS_LAST), prob=c.real(0, 1), per_channel=c.chance(), seed=4)


def _erased(c: Call) -> Any:
    x = c.pictures()
    return fn.erase(x, anchor=c.real(-5, 30, len(c.spatial)), shape=c.real(0, 30, len(c.spatial)), axis_names=c.spatial)


def _looked_up(c: Call) -> Any:
    return fn.lookup_table(c.pictures((T.UINT8, T.INT16)), keys=list(range(0, 200, 3)), values=[k * 1.5 for k in range(67)])


_LINEAR = (DALIInterpType.INTERP_LINEAR, DALIInterpType.INTERP_NN)
_CHANNELS_LAST = ("HWC", "HWC", "FHWC", "DHWC")
CALLS: dict[str, Callable[[Call], Any]] = {
    "noise.shot": _of(lambda c, x: fn.noise.shot(x, factor=c.real(0.1, 30), seed=4), PIXELS),
    "noise.salt_and_pepper": _salted,
    "flip": _flipped,
    "slice": _sliced,
    "crop_mirror_normalize": _normalized,
    "resize": _resized,
    "rotate": _rotated,
    "warp_affine": _warped,
    "gaussian_blur": _of(lambda c, x: fn.gaussian_blur(x, sigma=c.real(0.3, 3)), (*PIXELS, T.UINT16)),
    "laplacian": _of(lambda c, x: fn.laplacian(x, window_size=c.pick(3, 5, 7), scale=c.real(0.1, 2)), PIXELS),
    "filter": _filtered,
    "color_twist": _of(lambda c, x: fn.color_twist(x, hue=c.real(-400, 400), contrast=c.real(0, 2)), PIXELS, _CHANNELS_LAST, (3,)),
    "brightness_contrast": _of(lambda c, x: fn.brightness_contrast(x, brightness=c.real(0, 2)), PIXELS, _CHANNELS_LAST),
    "erase": _erased,
    "pad": _of(lambda c, x: fn.pad(x, axis_names=c.spatial, align=c.whole(1, 40, len(c.spatial), per_frame=False))),
    "cast": _of(lambda c, x: fn.cast(x, dtype=c.pick(*ALL))),
    "cat": _of(lambda c, x: fn.cat(*[x] * c.pick(2, 3, 5), axis=c.pick(*range(len(c.layout))))),
    "transpose": _of(lambda c, x: fn.transpose(x, perm=c.random.permutation(len(c.layout)).tolist())),
    "lookup_table": _looked_up,
    "arithmetic": _arithmetic,
    "reductions": _reduced,
    "reshape": _of(lambda c, x: fn.reshape(x, shape=[-1])),
}


def results(name: str, seed: int, device: str, iterations: int = 3) -> list[list[np.ndarray]]:
    """The first output of some iterations of a call."""
    call = Call(name, seed, device)

    @pipeline_def(batch_size=call.count, num_threads=1, device_id=0 if device == "gpu" else None, seed=7)
    def graph() -> Any:
        return CALLS[name](call)

    pipe = graph()
    pipe.build()
    try:
        outputs = (pipe.run()[0] for _ in range(iterations))
        return [[np.array(sample) for sample in (output.as_cpu() if hasattr(output, "as_cpu") else output)] for output in outputs]
    finally:
        pipe.close()


def assert_near(expected: list[list[np.ndarray]], found: list[list[np.ndarray]]) -> None:
    """Integers differ by one at most, floats by little beside the largest of their sample."""
    for one, other in zip(expected, found, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            with np.errstate(invalid="ignore"):
                x, y = a.astype(np.float64), b.astype(np.float64)
                relative = 1e-3 if a.dtype == np.float16 else 6e-6
                largest = np.abs(x[np.isfinite(x)]).max(initial=0)
                near = np.abs(x - y) <= (relative * largest if a.dtype.kind == "f" else 1)
            assert (near | (x == y) | (np.isnan(x) & np.isnan(y))).all()


def compared(name: str, seed: int) -> None:
    """Compare a call on a GPU with the CPU."""
    assert_near(results(name, seed, "cpu"), results(name, seed, "gpu"))
