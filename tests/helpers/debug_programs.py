"""Graph functions with GPU operators, for debug mode. Each is run with and without debug mode, and the results are equal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from asyncdali import fn, math, pipeline_def, types

BATCH = 4


def picture(info: Any) -> np.ndarray:
    """A picture whose size and contents depend on the number of its sample."""
    rng = np.random.default_rng(info.idx_in_epoch)
    return rng.integers(0, 255, (*rng.integers(12, 40, 2), 3), np.uint8)


def square(info: Any) -> np.ndarray:
    return np.random.default_rng(info.idx_in_epoch).integers(0, 255, (9, 11, 3), np.uint8)


def number(info: Any) -> np.ndarray:
    return np.int32(info.idx_in_epoch * 5 % 7)


def jpeg(info: Any) -> np.ndarray:
    out = io.BytesIO()
    Image.fromarray(picture(info)).resize((90 + info.idx_in_epoch % 40, 80)).save(out, "JPEG", quality=90)
    return np.frombuffer(out.getvalue(), np.uint8)


def images(source: Any = picture, **options: Any) -> Any:
    return fn.external_source(source, batch=False, layout="HWC", **options)


def numbers() -> Any:
    return fn.external_source(number, batch=False)


def transfers() -> Any:
    x = images()
    y = x.gpu()
    return x, y, y.cpu(), y.cpu().gpu(), y.gpu()


def only_a_transfer() -> Any:
    return images().gpu()


def source_on_the_gpu() -> Any:
    x = images(device="gpu")
    return x, fn.flip(x), fn.crop(x, crop=[7, 9], crop_pos_x=fn.random.uniform(range=(0.0, 1.0), seed=3))


def equal_shapes() -> Any:
    x = images(square).gpu()
    return fn.resize(x, size=[6.0, 7.0]), fn.transpose(x, perm=[2, 0, 1]), fn.cat(x, fn.flip(x), axis=1)


def resize_and_normalize() -> Any:
    x = fn.resize(images().gpu(), size=[20.0, 24.0], antialias=False, interp_type=types.INTERP_LINEAR)
    return fn.crop_mirror_normalize(x, crop=[16, 16], mirror=fn.random.coin_flip(seed=4), mean=[100.0], std=[50.0], dtype=types.FLOAT)


def arithmetic() -> Any:
    x = images(square).gpu()
    y = (x + 3) // 2 - fn.cast(x, dtype=types.INT32) * 2
    z = math.sqrt(x / 7.0) + types.Constant(np.arange(33, dtype=np.float32).reshape(11, 3), device="gpu")
    return y, z, x > 100, -y, x & 15, 1.5 * x


def indexing() -> Any:
    x = images().gpu()
    return x[1:7, 2:], x[:, :, 0], fn.slice(x, start=[1, 2], shape=[5, 5], axes=[0, 1]), x.shape(dtype=types.INT32)


def reductions() -> Any:
    x = images().gpu()
    return fn.reductions.sum(x, axes=[0, 1], dtype=types.FLOAT), fn.reductions.max(x), fn.normalize(x, axes=[0, 1], batch=False)


def draws() -> Any:
    shape = [4, 5]
    noise = fn.random.uniform(range=(-1.0, 1.0), shape=shape, device="gpu", seed=8)
    coins = fn.random.coin_flip(device="gpu", seed=9)
    return noise, coins, noise + 1.0, fn.random.normal(shape=shape, seed=10).gpu()


def constants() -> Any:
    made = types.Constant(np.arange(6, dtype=np.int32).reshape(2, 3), device="gpu")
    return made, made + 1, fn.full(np.float32(2.5), shape=[3]).gpu()


def conditional() -> Any:
    x, k = images().gpu(), numbers()
    if k > 2:
        if k == 4:
            made = fn.crop(x, crop=[7, 9])
        else:
            made = fn.flip(x)
    else:
        made = fn.flip(x, vertical=1)
    noise = fn.cast(x, dtype=types.FLOAT)
    if k > 3:
        noise = noise * 0.5
    return made, noise, k


def conditional_of_equal_shapes() -> Any:
    x = images(square).gpu()
    if numbers() > 3:
        y = fn.flip(x.cpu()).gpu()
    else:
        y = x
    return y, fn.copy(y), x


def never_taken() -> Any:
    x = images(square).gpu()
    if numbers() > 100:
        y = fn.flip(fn.brightness(x, brightness=2.0)) + types.Constant(np.uint8(1), device="gpu")
        z = fn.flip(x.cpu()).gpu()
    else:
        y = fn.flip(x, vertical=1)
        z = x
    return y, z


def mixed_decoding() -> Any:
    encoded = fn.external_source(jpeg, batch=False)
    decoded = fn.decoders.image(encoded, device="mixed")
    return decoded, fn.resize(decoded, size=[30.0, 20.0]), fn.decoders.image_random_crop(encoded, device="mixed", seed=6)


def mixed_decoding_on_the_cpu() -> Any:
    decoded = fn.decoders.image(fn.external_source(jpeg, batch=False), device="mixed", decoder="cpu")
    return decoded, fn.flip(decoded)


def input_sets() -> Any:
    x = images().gpu()
    a, b = fn.flip([x, fn.flip(x, vertical=1)], horizontal=fn.random.coin_flip(seed=2))
    return a, b


def permuted() -> Any:
    return fn.permute_batch(images().gpu(), indices=[2, 0, 1, 3])


def merged_and_stacked() -> Any:
    x = images(square).gpu()
    stacked = fn.stack(x, fn.color_twist(x, brightness=1.2, hue=20.0))
    return stacked, fn.reshape(stacked, shape=[-1, 3]), fn.gaussian_blur(x, sigma=1.2, window_size=5)


PROGRAMS = {
    function.__name__: function
    for function in (
        transfers, only_a_transfer, source_on_the_gpu, equal_shapes, resize_and_normalize, arithmetic, indexing, reductions, draws,
        constants, conditional, conditional_of_equal_shapes, never_taken, mixed_decoding, mixed_decoding_on_the_cpu, input_sets, permuted,
        merged_and_stacked,
    )
}  # fmt: skip


def reader(folder: str) -> Any:
    """A graph function that reads files in `folder`."""

    def read_files() -> Any:
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True, seed=5, name="files")
        arrays = fn.readers.numpy(file_root=folder, file_filter="*.npy", device="gpu", name="arrays")
        return fn.decoders.image(files, device="mixed"), labels, labels.gpu(), arrays, arrays * 2

    return read_files


def write_files(folder: Path) -> str:
    """Files for :func:`reader`."""
    (folder / "a").mkdir()

    class Info:
        idx_in_epoch = 0

    for k in range(10):
        Info.idx_in_epoch = k
        (folder / "a" / f"{k}.jpg").write_bytes(jpeg(Info).tobytes())
        np.save(folder / f"{k}.npy", np.arange(k + 1, dtype=np.float32))
    return str(folder)


def run(function: Any, debug: bool, iterations: int = 4, **options: Any) -> list[Any]:
    """By iteration: for every output its type, dtype, layout and samples."""
    options = {"batch_size": BATCH, "num_threads": 2, "device_id": 0, "seed": 7, "enable_conditionals": True, **options}
    pipe = pipeline_def(function, debug=debug, **options)()
    try:
        return [[observed(output) for output in pipe.run()] for _ in range(iterations)]
    finally:
        pipe.close()


def observed(output: Any) -> Any:
    tensors = output.as_cpu() if hasattr(output, "as_cpu") else output
    return type(output), output.dtype, output.layout(), [np.array(sample) for sample in tensors]


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    """The same bits."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        for (*kind, samples), (*other, others) in zip(a, b, strict=True):
            assert kind == other
            assert len(samples) == len(others)
            for x, y in zip(samples, others, strict=True):
                assert x.dtype == y.dtype and x.shape == y.shape
                assert x.tobytes() == y.tobytes()
