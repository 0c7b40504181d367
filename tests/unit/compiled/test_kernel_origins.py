"""Kernels that came with a wheel, that are in the cache, and that were just compiled give the same bits."""

from __future__ import annotations

import platform

import pytest
from helpers.pipelines import run_script

from asyncdali.compiled import target

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64" or target.level() is None, reason="no level of x86-64"),
]

_PROGRAM = """
import hashlib, io, sys, wave
from pathlib import Path
import cv2
import numpy as np
from asyncdali import fn, pipeline_def, types
from asyncdali.compiled import cache, shipped, step, target

origin, place = sys.argv[1], Path(sys.argv[2])
entries, make = [], cache.entry
def recorded(*arguments):
    entries.append(make(*arguments))
    return entries[-1]
cache.entry = recorded
if origin == "shipped":
    shipped.FOLDER = place

random = np.random.default_rng(1)
photo = cv2.GaussianBlur(random.integers(0, 255, (240, 320, 3), np.uint8), (0, 0), 3)
jpeg, late = (cv2.imencode(".jpg", photo, [cv2.IMWRITE_JPEG_PROGRESSIVE, k])[1].ravel() for k in (0, 1))
png, sound = cv2.imencode(".png", photo)[1].ravel(), io.BytesIO()
with wave.open(sound, "wb") as file:
    file.setparams((1, 2, 16000, 0, "NONE", ""))
    file.writeframes(random.integers(-9000, 9000, 16000, np.int16).tobytes())
wav = np.frombuffer(sound.getvalue(), np.uint8)

@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=3)
def everything():
    encoded = fn.external_source(source=lambda: [jpeg, late, png, jpeg], batch=True)
    images = fn.decoders.image_random_crop(encoded, output_type=types.RGB)
    resized = fn.resize(images, size=[64, 64], interp_type=types.INTERP_CUBIC)
    angle, noise = fn.random.uniform(range=(-20.0, 20.0)), fn.noise.gaussian(resized, stddev=4.0)
    turned = fn.rotate(fn.hsv(fn.experimental.equalize(resized), hue=12.0, saturation=0.8), angle=angle, fill_value=0)
    normal = fn.crop_mirror_normalize(turned, dtype=types.FLOAT, mean=[120.0] * 3, std=[60.0] * 3, mirror=fn.random.coin_flip())
    heard, _ = fn.decoders.audio(fn.external_source(source=lambda: [wav] * 4, batch=True), downmix=True)
    mel = fn.mel_filter_bank(fn.spectrogram(fn.preemphasis_filter(heard), nfft=512, window_length=400, window_step=160), nfilter=40)
    blurred = fn.gaussian_blur(resized, window_size=5)
    moments = fn.reductions.mean(blurred, axes=[0, 1]), fn.reductions.std_dev(normal, fn.reductions.mean(normal))
    return normal, noise, fn.to_decibels(mel), fn.normalize(mel, axes=[1]), blurred, *moments, fn.cast(images, dtype=types.FLOAT16)

digest, pipeline = hashlib.sha256(), everything()
pipeline.build()
for _ in range(3):
    for output in pipeline.run():
        for sample in output:
            array = np.ascontiguousarray(np.asarray(sample))
            digest.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
if origin == "ship":
    files = {entry.shipped_key: bytes(entry.kept()) for entry in entries}
    (place / f"{target.chosen_level()}.kernels").write_bytes(shipped.packed(files))
print(digest.hexdigest(), "all" if pipeline.statistics().kernels.compiled and len(step.history) > 10 else len(step.history))
"""


def _run(origin, place, cache):
    """The digest of all outputs, and whether kernels were compiled."""
    done = run_script(_PROGRAM, origin, str(place), timeout=580, NUMBA_CACHE_DIR=str(cache), ASYNCDALI_QUIET="1")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_shipped_cached_and_fresh_kernels_give_the_same_bits(tmp_path):
    """The shipped kernels are of another compilation than the fresh ones, as in a release."""
    place = tmp_path / "shipped"
    place.mkdir()
    made, compiled = _run("ship", place, tmp_path / "first")
    assert compiled == "all"
    assert _run("fresh", place, tmp_path / "second") == [made, "all"]
    assert _run("cached", place, tmp_path / "second") == [made, "0"]
    assert _run("shipped", place, tmp_path / "third") == [made, "0"]
    assert not list((tmp_path / "third").rglob("*.kernel"))
