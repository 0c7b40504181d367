"""``asyncdali bench`` names the bottleneck of ten real pipelines (examples/bottlenecks.py).

The judgement uses counted time: shares of work and waiting do not depend on the speed of this machine.
"""

from __future__ import annotations

import shutil

import pytest
from helpers.benches import ROOT, bench
from helpers.slow_files import compiler, slow_files

STEP = ["--consumer-ms", "15"]

CASES = [
    ("slow_source", [], "source", "async def"),
    ("interpreter_bound", [], "interpreter", "parallel=True"),
    ("slow_decode", [], "threads", "decoders.image"),
    ("slow_python_function", [], "python_function", "one at a time"),
    ("small_queue", STEP, "queue", "prefetch_queue_depth"),
    ("slow_consumer", STEP, "consumer", "keeps up"),
    ("slow_sample", [], "sample", "sample 5"),
    ("too_few_workers", [], "workers", "py_num_workers=2"),
    ("too_many_threads", [], "oversubscribed", "num_threads="),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, arguments, kind, words", CASES, ids=[case[0] for case in CASES])
def test_the_bottleneck_is_named(name, arguments, kind, words):
    found = bench(name, "--iterations", "40", *arguments)
    print(f"{name}: {found['bottleneck']['sentence']}")
    assert found["bottleneck"]["kind"] == kind, found["bottleneck"]["sentence"]
    assert words in found["bottleneck"]["sentence"]


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C compiler to build a stand-in for slow storage")
def test_slow_storage_is_named(tmp_path):
    pictures = tmp_path / "slow"
    shutil.copytree(ROOT / "asyncdali" / "data" / "pictures", pictures)
    environment = slow_files(tmp_path, pictures, 8000)
    found = bench("slow_storage", "--iterations", "20", BOTTLENECKS_PICTURES=str(pictures), **environment)
    print(f"slow_storage: {found['bottleneck']['sentence']}")
    assert found["bottleneck"]["kind"] == "storage", found["bottleneck"]["sentence"]
    assert "'reader'" in found["bottleneck"]["sentence"]
