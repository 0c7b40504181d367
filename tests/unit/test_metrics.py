"""Counters as text for Prometheus."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import asyncdali
from asyncdali import fn

LINE = re.compile(r'[a-z_:]+(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? -?[0-9.e+-]+')


def made(**options):
    pipe = asyncdali.Pipeline(batch_size=2, num_threads=1, seed=1, **options)
    with pipe:
        data = fn.external_source(lambda info: np.float32(info.idx_in_epoch), batch=False, name="S")
        pipe.set_outputs(data, fn.random.uniform(name='a"b\\c\nd'))
    return pipe


def values(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_the_text_has_prometheus_format():
    pipe = made()
    for _ in range(3):
        pipe.run()
    text = pipe.metrics()
    lines = text.splitlines()
    assert text.endswith("\n") and all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    names = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(names) == len(set(names)) and {line.split()[3] for line in lines if line.startswith("# TYPE ")} == {"counter", "gauge"}
    found = values(text)
    assert found["asyncdali_consumer_iterations_total"] == "3" and found["asyncdali_consumer_samples_total"] == "6"
    assert found['asyncdali_source_samples_total{name="S",kind="called"}'] == str(2 * pipe.statistics().sources[0].batches)
    assert 'name="a\\"b\\\\c\\nd"' in text


def test_counters_do_not_fall():
    pipe = made()
    pipe.run()
    before = values(pipe.metrics())
    pipe.run()
    after = values(pipe.metrics())
    assert all(float(after[name]) >= float(value) for name, value in before.items() if "_total" in name)


def test_without_statistics_there_is_an_error():
    with pytest.raises(RuntimeError, match="enable_statistics"):
        made(enable_statistics=False).metrics()


def test_engines_have_metrics():
    pipe = asyncdali.Pipeline(batch_size=2, num_threads=1, seed=1, engines=1, engine_start_method="forkserver")
    with pipe:
        pipe.set_outputs(fn.random.uniform(shape=[3], name="U"))
    for _ in range(3):
        pipe.run()
    found = values(pipe.metrics())
    pipe.close()
    assert float(found['asyncdali_engine_answered_total{engine="0"}']) >= 3 and found["asyncdali_consumer_iterations_total"] == "3"


def test_the_slowest_samples_have_files():
    @asyncdali.pipeline_def(batch_size=4, num_threads=1, seed=1)
    def decoding():
        return fn.decoders.image(fn.readers.file(file_root=os.path.join(os.path.dirname(asyncdali.__file__), "data", "pictures"))[0])

    pipe = decoding()
    for _ in range(3):
        pipe.run()
    (segment,) = pipe.statistics().segments
    slowest = segment.slowest_samples
    assert slowest[0] == segment.slowest_sample and list(slowest) == sorted(slowest, reverse=True)
    assert len({sample[3] for sample in slowest}) == len(slowest) <= 5
    assert f'file="{slowest[0][3]}"' in pipe.metrics()
    pipe.close()
