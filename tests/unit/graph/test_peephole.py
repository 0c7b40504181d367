"""Passes over a plan let operators use what they know of their neighbours. Each can be switched off, and the data stay equal."""

from __future__ import annotations

import io
from contextlib import closing

import numpy as np
import pytest
from helpers.cuda import StandIn, use
from PIL import Image

from asyncdali import Pipeline, fn, types
from asyncdali.engines.cut import narrow_cut
from asyncdali.graph.peephole import PASSES, enabled

BATCH = 4


@pytest.fixture
def paths(tmp_path):
    for k in range(9):
        pixels = np.random.default_rng(k).integers(0, 255, (5, 7, 3), np.uint8)
        out = io.BytesIO()
        Image.fromarray(pixels).resize((90 + 16 * k, 70 + 8 * k)).save(out, "JPEG", quality=90)
        (tmp_path / f"{k}.jpg").write_bytes(out.getvalue())
    return sorted(map(str, tmp_path.glob("*.jpg")))


def arithmetic(paths):
    values = fn.random.uniform(range=(0, 255), shape=(5, 6, 3), dtype=types.UINT8)
    return (values + 3) * 2 - values / 7


def chosen_window(paths):
    """`slice` gets the contents of an expression, whose operator then computes while planning."""
    values = fn.random.uniform(range=(0, 255), shape=(9, 9), dtype=types.UINT8)
    start = fn.random.uniform(range=(0, 3), shape=(2,), dtype=types.INT32) + 1
    return fn.slice(values, start, (4, 5), axes=(0, 1), normalized_anchor=False, normalized_shape=False)


def cached(paths):
    files, _ = fn.readers.file(files=paths, name="Reader")
    return fn.decoders.image(files, cache_size=64, cache_threshold=0, cache_type="threshold")


def training(paths):
    files, labels = fn.readers.file(files=paths, name="Reader", random_shuffle=True)
    pictures = fn.resize(fn.decoders.image_random_crop(files), size=(32, 32))
    return fn.crop_mirror_normalize(pictures, mean=[1.0, 2, 3], std=[4.0, 5, 6], mirror=fn.random.coin_flip()), labels


def windows(paths):
    files, _ = fn.readers.file(files=paths, name="Reader")
    return fn.resize(fn.crop(fn.decoders.image(files), crop=(40, 50)), size=(20, 30))


GRAPHS = {"arithmetic": arithmetic, "chosen window": chosen_window, "cached": cached, "training": training, "windows": windows}


def built(name: str, paths, **options) -> Pipeline:
    pipe = Pipeline(**{"batch_size": BATCH, "num_threads": 2, "device_id": None, "seed": 4, **options})
    with pipe:
        outputs = GRAPHS[name](paths)
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    pipe.build()
    return pipe


def data(name: str, paths, count: int = 6, **options) -> list:
    with closing(built(name, paths, **options)) as pipe:
        runs = [pipe.run() for _ in range(count)]
        return [[[(np.array(one).shape, np.array(one).tobytes()) for one in output] for output in outputs] for outputs in runs]


@pytest.mark.parametrize("without", [*PASSES, "all", "expressions, feeds"])
@pytest.mark.parametrize("name", GRAPHS)
def test_data_without_a_pass(name, without, paths, monkeypatch):
    expected = data(name, paths)
    monkeypatch.setenv("ASYNCDALI_WITHOUT", without)
    assert data(name, paths) == expected


def facts(name: str, paths) -> dict:
    """Changes that the passes have made to a plan."""
    with closing(built(name, paths)) as pipe:
        plan = pipe._core.session.plan
        known = [planned.neighbours for planned in plan.operators]
        return {
            "expressions": len(plan.operators),
            "contents": sum(planned.made_eager for planned in plan.operators),
            "caches": max(one.kept_by for one in known),
            "feeds": sum(one.feeds for one in known),
            "heads": sum(one.head_scan is not None for one in known),
        }


@pytest.mark.parametrize(
    ("name", "one", "on", "off"),
    [
        ("arithmetic", "expressions", 2, 5),
        ("chosen window", "contents", 1, 0),
        ("cached", "caches", 1, 0),
        ("training", "feeds", 1, 0),
        ("windows", "feeds", 2, 0),
        ("training", "heads", 1, 0),
    ],
)
def test_a_pass_acts_and_can_be_switched_off(name, one, on, off, paths, monkeypatch):
    assert facts(name, paths)[one] == on
    monkeypatch.setenv("ASYNCDALI_WITHOUT", one)
    assert facts(name, paths)[one] == off


def test_engines_send_narrow_elements(paths, monkeypatch):
    with closing(built("training", paths)) as pipe:
        plan = pipe._core.session.plan
        narrow = narrow_cut(plan)
        monkeypatch.setenv("ASYNCDALI_WITHOUT", "narrow")
        assert len(narrow_cut(plan)) > len(narrow)


def test_launches_are_not_fused(paths, monkeypatch):
    use(StandIn(), monkeypatch)
    with closing(built("training", paths, device_id=0)) as pipe:
        assert all(segment.fuses_launches for segment in pipe._core.session.executor._program.segments)
    monkeypatch.setenv("ASYNCDALI_WITHOUT", "launches")
    with closing(built("training", paths, device_id=0)) as pipe:
        assert not any(segment.fuses_launches for segment in pipe._core.session.executor._program.segments)


def test_an_unknown_pass_is_refused(paths, monkeypatch):
    monkeypatch.setenv("ASYNCDALI_WITHOUT", "feeds, rows")
    with pytest.raises(ValueError, match=r"names rows; expected 'all', or some of expressions, contents"):
        built("windows", paths)
    monkeypatch.setenv("ASYNCDALI_WITHOUT", "")
    assert all(map(enabled, PASSES))
