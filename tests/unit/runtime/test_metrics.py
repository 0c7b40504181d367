"""Counters as text for Prometheus."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors
from helpers.prometheus import parsed

import asyncdali
from asyncdali import fn
from asyncdali.fleet import loader

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


@pytest.mark.parametrize("text", [
    "a_total 1\n", "# TYPE a counter\na_total 1\n", "# HELP a_total x\n# TYPE a_total counter\na_total 1\na_total 2\n",
    "# HELP a x\n# TYPE a gauge\na{b=\"c} 1\n", "# HELP a x\n# TYPE a gauge\na 1 ", "# HELP a x\n# TYPE a gauge\na nan\n",
    "# HELP a x\n# TYPE a gauge\na{b=\"1\",b=\"2\"} 1\n", "# HELP a_total x\n# TYPE a_total counter\na_total -1\n",
    "# HELP a x\n# TYPE a gauge\na 1\n# HELP b x\n# TYPE b gauge\nb 1\na{c=\"\"} 1\n", "# HELP a x\n# TYPE a gauge\na{b=\"\udcff\"} 1\n",
])  # fmt: skip
def test_the_parser_is_strict(text):
    with pytest.raises((ValueError, IndexError)):
        parsed(text)


HOSTILE = ['a"b\\c\nd', "e\r f\u2028{}", "\u00e4 # HELP x y", "\\", "n\\n"]


def test_a_strict_parser_reads_hostile_names(tmp_path):
    folder = tmp_path / 'a"b'
    folder.mkdir()
    for k, name in enumerate([b"plain.bin", b"\xff\xfe.bin", b"new\nline.bin", b'quote".bin']):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(bytes([k] * 9))

    @asyncdali.pipeline_def(batch_size=4, num_threads=1, seed=1, engines=1)
    def reading():
        data, _ = fn.readers.file(file_root=str(tmp_path), file_filters=["*.bin"], name=HOSTILE[0])
        return data, *[fn.random.uniform(name=name) for name in HOSTILE[1:]]

    pipe = reading()
    for _ in range(3):
        pipe.run()
    found = parsed(pipe.metrics())
    pipe.close()
    names = {dict(labels)["name"] for name, labels in found if name == "asyncdali_operator_samples_total"}
    assert names >= set(HOSTILE)
    assert found["asyncdali_consumer_iterations_total", ()] == 3
    assert found["asyncdali_engine_answered_total", (("engine", "0"),)] >= 3


def test_a_strict_parser_reads_the_metrics_of_every_kind():
    @asyncdali.pipeline_def(batch_size=2, num_threads=1, seed=1, py_num_workers=1)
    def working():
        number = fn.external_source(numbered, batch=False, parallel=True, name="S")
        return number * 1

    pipe = working()
    pipe.run()
    assert parsed(pipe.metrics())["asyncdali_workers_samples_total", ()] >= 2
    pipe.close()
    pipe = made()
    pipe.run()
    assert parsed(pipe.metrics())["asyncdali_source_batches_total", (("kind", "called"), ("name", "S"))] >= 1
    pipe.close()

    @asyncdali.pipeline_def(batch_size=2, num_threads=1, seed=1)
    def train():
        return fn.random.uniform(shape=[3], name="U")

    with actors(train, 1) as found:
        with loader(train, engines=[actor.address for actor in found], token=TOKEN) as batches:
            for _, _batch in zip(range(3), batches):
                pass
            told = parsed(batches.metrics())
            assert told["asyncdali_engine_connected", (("engine", found[0].address), ("rank", "0"))] == 1
            parsed(batches.pipeline.metrics())
        told = parsed(found[0].metrics())
        assert told["asyncdali_actor_answered_total", (("engine", found[0].address), ("rank", "0"))] >= 3


def numbered(info):
    return np.int32(info.idx_in_epoch)


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
