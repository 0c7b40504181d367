"""Engines: a pipeline whose CPU part runs in other processes gives the same batches."""

from __future__ import annotations

import gc
import os
import signal

import numpy as np
import pytest
from helpers.engines import data_files, pipeline, stream
from helpers.images import encode, picture
from helpers.processes import children, descriptors, wait_until

from asyncdali import Pipeline, fn, pipeline_def, types
from asyncdali.engines.cut import make_cut
from asyncdali.engines.parent import engine_statistics
from asyncdali.engines.wire.blocks import OwnBlocks

METHODS = ("fork", "spawn", "forkserver")


@pytest.fixture
def files(tmp_path):
    return data_files(tmp_path)


def training(files):
    def define():
        data, labels = fn.readers.file(files=files, name="reader", random_shuffle=True)
        scale = fn.random.uniform(range=[0, 100])
        noise = fn.random.normal(shape=[60, 90, 3], dtype=types.FLOAT)
        return data, labels, scale, noise * 2 + scale

    return define


@pytest.mark.parametrize("method", METHODS)
def test_the_batches_are_the_same(files, method):
    plain = pipeline(training(files), 0)
    wanted = stream(plain, 9)
    saved = plain.checkpoint()
    wanted += stream(plain, 4)
    for engines in (1, 2) if method == "fork" else (2,):
        pipe = pipeline(training(files), engines, engine_start_method=method)
        found = stream(pipe, 9)
        assert pipe.checkpoint() == saved
        assert found + stream(pipe, 4) == wanted
        pipe.close()


@pytest.mark.parametrize("before, after", [(0, 1), (1, 3), (3, 0), (2, 1)])
def test_a_checkpoint_resumes_under_another_number(files, before, after):
    whole = pipeline(training(files), 0)
    wanted = stream(whole, 10)
    first = pipeline(training(files), before)
    assert stream(first, 5) == wanted[:5]
    second = pipeline(training(files), after, checkpoint=first.checkpoint())
    assert stream(second, 5) == wanted[5:]
    for pipe in (whole, first, second):
        pipe.close()


def test_statistics_after_the_death_of_an_engine_that_was_asked(files, monkeypatch):
    monkeypatch.setattr(engine_statistics, "ANSWERS", 0.05)
    pipe = pipeline(training(files), 1)
    stream(pipe, 2)
    pid = pipe.statistics().engines[0].pid
    os.kill(pid, signal.SIGSTOP)
    pipe.statistics()
    os.kill(pid, signal.SIGKILL)
    stream(pipe, 6)
    monkeypatch.setattr(engine_statistics, "ANSWERS", 60.0)  # a lost answer would take as long
    (item,) = pipe.statistics().engines
    assert item.pid != pid and item.allocated_bytes > 0
    pipe.close()


def test_memory_is_returned_with_the_last_view(files, monkeypatch):
    """If no block returned, the pool would be five times as large. The bound is loose, because timing decides how many are in flight."""
    monkeypatch.setattr(engine_statistics, "ANSWERS", 300.0)
    pipe = pipeline(training(files), 1)
    stream(pipe, 10)
    after_ten = pipe.statistics().engines[0].allocated_bytes
    stream(pipe, 40)
    assert pipe.statistics().engines[0].allocated_bytes < 4 * after_ten
    kept = [pipe.run()[3] for _ in range(8)]
    values = [np.asarray(output[0]).copy() for output in kept]
    stream(pipe, 10)
    assert all((np.asarray(output[0]) == value).all() for output, value in zip(kept, values))
    pipe.close()
    assert all((np.asarray(output[0]) == value).all() for output, value in zip(kept, values))


def test_outputs_can_be_written_to(files):
    pipe = pipeline(training(files), 1)
    data, *_, image = pipe.run()
    for output in (data, image):
        sample = np.asarray(output[3])
        sample[...] = 1
        assert (np.asarray(output[3]) == 1).all()
    pipe.close()


def test_large_frames_are_sent_in_blocks():
    """The shapes and inline contents of many samples may be longer than a message, so blocks carry them."""

    def define():
        return fn.random.uniform(range=[0, 1]), fn.cast(fn.random.uniform(range=[0, 9], shape=[3]), dtype=types.INT32)

    wanted = stream(pipeline(define, 0, batch_size=9000), 3)
    pipe = pipeline(define, 1, batch_size=9000)
    assert stream(pipe, 3) == wanted
    pipe.close()


def test_errors_are_those_of_this_process(files):
    def fails(value):
        if value > 50:
            raise ValueError(f"{value} is too much")
        return value

    def define():
        return fn.python_function(fn.random.uniform(range=[0, 100]), function=fails)

    def outcomes(pipe):
        found = []
        for _ in range(8):
            try:
                found.append(stream(pipe, 1))
            except Exception as error:
                found.append((type(error), str(error), error.iteration, error.operator, error.line, type(error.__cause__)))
        return found

    wanted = outcomes(pipeline(define, 0, batch_size=1))
    assert any(isinstance(item, tuple) for item in wanted) and any(isinstance(item, list) for item in wanted)
    pipe = pipeline(define, 2, batch_size=1)
    assert outcomes(pipe) == wanted
    pipe.close()


def test_errors_of_the_build_are_raised_in_the_build():
    with pytest.raises(RuntimeError, match="nowhere"):
        pipeline(lambda: fn.readers.file(file_root="/nowhere/at/all")[0], 1).run()
    assert not children()


def test_functions_that_cannot_be_sent_are_named():
    lock = __import__("threading").Lock()
    pipe = pipeline(lambda: fn.python_function(fn.random.uniform(), function=lambda x: (x, lock)[0]), 1, engine_start_method="spawn")
    with pytest.raises(TypeError, match=r"fn\.python_function.*cannot be sent to engines"):
        pipe.build()


def test_closures_are_sent_to_engines():
    offset = 3.5
    for method in METHODS:
        pipe = pipeline(lambda: fn.python_function(fn.random.coin_flip(), function=lambda x: x + offset), 1, engine_start_method=method)
        assert np.asarray(pipe.run()[0][0]) in (3.5, 4.5)
        pipe.close()


@pipeline_def(batch_size=3, num_threads=1, seed=5, enable_conditionals=True, enable_checkpointing=True)
def branching():
    coin = fn.random.coin_flip(dtype=types.BOOL)
    if coin:
        drawn = fn.random.uniform(range=[0, 1])
    else:
        drawn = fn.random.normal(mean=5.0)
    return coin, drawn, fn.random.uniform(range=[7, 9])


def test_positions_in_branches_depend_on_data():
    plain = branching()
    wanted = stream(plain, 12)
    for engines in (1, 3):
        pipe = branching(engines=engines)
        assert stream(pipe, 6) == wanted[:6]
        resumed = branching(engines=2, checkpoint=pipe.checkpoint())
        assert stream(resumed, 6) == wanted[6:]
        pipe.close()
        resumed.close()


def test_a_wrong_prediction_is_corrected(monkeypatch):
    """A position that depends on data, against the prediction, is detected. The following iterations are requested again."""
    from asyncdali.engines.cut import Cut

    monkeypatch.setattr(Cut, "depends_on_branches", False)
    wanted = stream(branching(), 12)
    for engines in (1, 2):
        pipe = branching(engines=engines, prefetch_queue_depth=4)
        assert stream(pipe, 12) == wanted
        pipe.close()


def test_fed_inputs_and_sources():
    def define():
        fed = fn.external_source(name="fed")
        numbered = fn.external_source(source=lambda k: np.full((4, 2), k, np.int32))
        big = fn.external_source(source=lambda info: np.full((300, 100), info.idx_in_epoch, np.float32), batch=False)
        straight = fn.external_source(source=iter([np.full((4, 1), k) for k in range(50)]))
        return fed + 1, numbered * 2, big + numbered[0], straight, fed

    def run(pipe):
        found = []
        for k in range(6):
            pipe.feed_input("fed", np.full((4, 200, 100), k, np.float32))
            if k == 0:
                pipe.feed_input("fed", np.full((4, 200, 100), 90, np.float32))
            found += stream(pipe, 1)
        return found

    wanted = run(pipeline(define, 0, enable_checkpointing=False))
    for engines in (1, 2):
        pipe = pipeline(define, engines, enable_checkpointing=False)
        assert run(pipe) == wanted
        pipe.close()


class Rows:
    """A source that is called by position: 26 samples of different sizes per epoch. The positions in `fails` raise an error."""

    def __init__(self, fails=()):
        self.fails = fails

    def __call__(self, info):
        if info.idx_in_epoch >= 26:
            raise StopIteration
        if info.idx_in_epoch in self.fails:
            raise ValueError(f"sample {info.idx_in_epoch} is broken")
        return np.full((3 + info.idx_in_epoch % 4, 500), info.idx_in_epoch + 100 * info.epoch_idx, np.float32)


def pairs(position):
    """A source of batches with two outputs. The batch size varies, and the last batch is empty."""
    if position == 7:
        raise StopIteration
    count = (4, 2, 3, 4, 1, 4, 0)[position]
    return [np.full((2,), position, np.int32)] * count, [np.full((50, 400), k, np.int32) for k in range(count)]


def by_position():
    rows = fn.external_source(source=Rows(), batch=False)
    return fn.cast(rows, dtype=types.INT32), rows, fn.random.uniform(range=[0, 1])


def by_batch():
    first, second = fn.external_source(source=pairs, num_outputs=2)
    return first, second, fn.random.uniform(range=[0, 1])


def epochs(pipe, count=2):
    found = []
    for _ in range(count):
        while True:
            try:
                found += stream(pipe, 1)
            except StopIteration:
                found.append("end")
                pipe.reset()
                break
    return found


@pytest.mark.parametrize("define", [by_position, by_batch])
def test_engines_call_sources_by_position(define):
    plain = pipeline(define, 0)
    wanted = epochs(plain)
    assert wanted.count("end") == 2 and len(wanted) > 12
    for engines in (1, 2, 3):
        pipe = pipeline(define, engines)
        assert epochs(pipe) == wanted
        assert pipe.checkpoint() == plain.checkpoint()
        pipe.close()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_sources_are_sent_to_engines(method):
    pipe = pipeline(by_position, 2, engine_start_method=method)
    assert epochs(pipe) == epochs(pipeline(by_position, 0))
    pipe.close()


def test_sources_in_engines_resume_under_another_number():
    wanted = stream(pipeline(by_position, 0), 6)
    saved = None
    found = []
    for engines, options in ((2, {}), (0, {}), (3, {}), (1, {"engine_sources": False}), (1, {}), (2, {})):
        pipe = pipeline(by_position, engines, checkpoint=saved, **options)
        found += stream(pipe, 1)
        saved = pipe.checkpoint()
        pipe.close()
    assert found == wanted


def test_errors_of_sources_in_engines():
    """The iteration before the error is returned first. After the error, the next call requests the same position again."""

    def define():
        return fn.external_source(source=Rows((9, 10)), batch=False), fn.random.uniform()

    def misshapen():
        return fn.external_source(source=lambda k: np.full((4, 2), 1, (np.int32, np.float32)[k % 2])), fn.random.uniform()

    def ragged():
        return fn.external_source(source=lambda k: np.full((4 + k, 2), 1), name="rows"), fn.random.uniform()

    def outcomes(pipe):
        found = []
        for _ in range(5):
            try:
                found.append(stream(pipe, 1))
            except (ValueError, RuntimeError) as error:
                fields = [getattr(error, name, None) for name in ("operator", "name", "iteration", "sample", "line")]
                found.append((type(error), str(error), *fields))
        pipe.close()
        return found

    for graph in (define, misshapen, ragged):
        wanted = outcomes(pipeline(graph, 0))
        assert isinstance(wanted[0], list) and isinstance(wanted[-1], tuple)
        assert outcomes(pipeline(graph, 2)) == wanted


def test_engines_forget_batches_of_sources(monkeypatch):
    """Batches that are no longer needed return to the engine's pool, so the pool does not grow.

    The number of batches in flight depends on timing, but is far below 50.
    """
    monkeypatch.setattr(engine_statistics, "ANSWERS", 300.0)
    pipe = pipeline(lambda: fn.external_source(source=lambda k: np.full((4, 300, 300), k, np.float32)) * 2, 1)
    stream(pipe, 50)
    assert 0 < pipe.statistics().engines[0].allocated_bytes < 20 * (4 * 300 * 300 * 4)
    pipe.close()


class Counting(Rows):
    """A source that declares a state."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def test_engines_call_only_sources_that_are_called_by_position():
    async def awaited(info):
        return np.zeros(3)

    def define():
        return (
            fn.external_source(source=Rows(), batch=False, name="called"), fn.external_source(source=Counting(), batch=False),
            fn.external_source(source=awaited, batch=False), fn.external_source(source=lambda: np.zeros((4, 2))),
            fn.external_source(source=pairs, num_outputs=2)[1], fn.external_source(name="fed"), fn.random.uniform(),
        )  # fmt: skip

    cut, _ = cut_of(define)
    assert [group.description.source for group in cut.groups] == [cut.groups[0].description.source, pairs]
    assert cut.groups[0].name == "called"
    pipe = pipeline(lambda: fn.external_source(source=Rows()), 1, engine_sources=False)
    with pytest.raises(RuntimeError, match="no operator of this pipeline can run in an engine"):
        pipe.build()
    lock = __import__("threading").Lock()
    held = pipeline(lambda: fn.external_source(source=lambda k: (np.zeros((4, 2)), lock)[0], name="locked"), 1, engine_start_method="spawn")
    with pytest.raises(TypeError, match=r"'locked' cannot be sent to engines.*engine_sources=False"):
        held.build()


def test_closing_leaves_no_process_or_descriptor(files):
    gc.collect()
    before = set(descriptors().values())
    pipe = pipeline(training(files), 2)
    stream(pipe, 3)
    kept = pipe.run()
    pipe.close()
    assert not children()
    del kept, pipe
    gc.collect()
    left = {value for value in set(descriptors().values()) - before if "memfd" in value or "socket" in value or "pipe" in value}
    assert len(left) <= 4, left  # descriptors of the event loop, if this test started it
    assert not any("asyncdali" in name for name in os.listdir("/dev/shm"))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_last_reference_ends_engines(files, method):
    gc.collect()
    gc.disable()
    try:
        pipe = pipeline(training(files), 1, engine_start_method=method)
        outputs = pipe.run()
        del pipe
        wait_until(lambda: not children())
        assert np.asarray(outputs[3][0]).shape == (60, 90, 3)
    finally:
        gc.enable()


def test_closing_gives_back_the_memory():
    """Shared memory is freed by `close()`, without the garbage collector, except for outputs that the user keeps."""

    def mapped():
        with open("/proc/self/maps") as file:
            return sum("/memfd:asyncdali-engine" in line for line in file)

    gc.collect()
    gc.disable()
    try:
        before = mapped()
        pipe = pipeline(lambda: fn.random.normal(shape=[90, 90, 3]), 1)
        for _ in range(5):
            kept = pipe.run()
        assert mapped() > before
        pipe.close()
        assert mapped() == before + 1
        assert np.asarray(kept[0][0]).shape == (90, 90, 3)
        del kept
        assert mapped() == before
    finally:
        gc.enable()


def test_a_build_that_fails_ends_engines(files):
    pipe = pipeline(training(files), 2, output_dtype=[types.INT8])
    with pytest.raises(RuntimeError, match="output_dtype has 1 entries"):
        pipe.build()
    assert not children()


def test_a_function_cannot_run_its_pipeline_in_an_engine():
    holder = []

    def function(value):
        holder[0].run()
        return value

    pipe = pipeline(lambda: fn.python_function(fn.random.uniform(), function=function), 1)
    holder.append(pipe)
    with pytest.raises(RuntimeError, match="one of its engines"):
        pipe.run()
    pipe.close()


def test_options_are_checked():
    with pytest.raises(ValueError, match="engines must be from 0"):
        Pipeline(engines=-1)
    with pytest.raises(TypeError, match="engines must be an int"):
        Pipeline(engines=True)
    with pytest.raises(ValueError, match="engine_start_method"):
        Pipeline(engine_start_method="threads")
    with pytest.raises(TypeError, match="engine_cut takes nodes"):
        Pipeline(engine_cut=3)
    with pytest.raises(TypeError, match="engine_sources must be a bool"):
        Pipeline(engine_sources=1)
    with pytest.raises(ValueError, match="engine_timeout must be positive"):
        pipeline(lambda: fn.random.uniform(), 1, engine_timeout=0).build()
    with pytest.raises(RuntimeError, match="no operator of this pipeline can run in an engine"):
        pipeline(lambda: fn.external_source(name="fed"), 1).build()


def test_operators_are_counted_where_they_run(tmp_path, monkeypatch):
    """Statistics count the samples, bytes and JPEGs of operators whose outputs never leave the engines."""
    monkeypatch.setattr(engine_statistics, "ANSWERS", 300.0)
    (tmp_path / "a.jpg").write_bytes(encode(picture(40, 60), "JPEG"))

    def define():
        data, labels = fn.readers.file(files=[str(tmp_path / "a.jpg")], name="reader")
        return fn.resize(fn.decoders.image(data, name="decoder"), size=[8, 8], name="small"), labels

    counted = []
    for engines in (0, 2):
        pipe = pipeline(define, engines, prefetch_queue_depth=1)
        stream(pipe, 6)
        operators = pipe.statistics().operators
        counted.append([(item.name, item.iterations, item.samples, item.bytes, item.counted) for item in operators])
        pipe.close()
    assert counted[0] == counted[1]
    decoder = next(item for item in counted[1] if item[0] == "decoder")
    assert decoder[2:4] == (24, 24 * 40 * 60 * 3) and dict(decoder[4])["JPEGs decoded by asyncdali"] == 24


def test_engines_are_not_stored():
    pipe = pipeline(lambda: fn.random.uniform(), 3)
    assert b"engine" not in pipe.serialize()


def test_debug_mode_is_refused():
    with pytest.raises(ValueError, match="debug=True"):
        branching(debug=True, engines=1)


# ---------------------------------------------------------------------------------------------------------------------- the cut


def names(operators):
    return [planned.spec.schema.name for planned in operators]


def cut_of(define, cut=None, **options):
    from asyncdali.graph.plan import build_plan

    pipe = pipeline(define, 0, **options)
    plan = build_plan(pipe._core.output_nodes(), pipe._core.definition.instances, pipe._core.definition, lambda k: k)
    return make_cut(plan, cut, sources=True), plan


def gpu_graph(files):
    def define():
        data, labels = fn.readers.file(files=files, name="reader")
        shift = fn.random.uniform(range=[0, 10], name="shift")
        moved = fn.cast(data.gpu(), dtype=types.FLOAT) + shift
        return moved, labels.gpu(), fn.cast(moved.cpu(), dtype=types.INT32)

    return define


def test_the_default_cut_keeps_gpu_work_here(files):
    cut, _ = cut_of(gpu_graph(files), device_id=0)
    assert names(cut.before) == ["readers.file", "random.uniform"]
    assert "cast" in names(cut.behind) and len(cut.crossing) == 3


def test_a_pipeline_for_a_gpu_gives_the_same(files, monkeypatch):
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    wanted = [[np.asarray(x.as_cpu()[1]).tobytes() for x in pipe_run] for pipe_run in _runs(gpu_graph(files), 0)]
    for engines, cut in ((1, None), (2, "shift")):
        found = [[np.asarray(x.as_cpu()[1]).tobytes() for x in pipe_run] for pipe_run in _runs(gpu_graph(files), engines, cut)]
        assert found == wanted


def _runs(define, engines, cut=None):
    pipe = pipeline(define, engines, device_id=0, engine_cut=cut)
    found = [pipe.run() for _ in range(5)]
    pipe.close()
    return found


def test_a_cut_elsewhere(files):
    def define():
        data, labels = fn.readers.file(files=files, name="reader")
        wide = fn.cast(data, dtype=types.FLOAT, name="wide")
        return wide * 2, labels

    cut, _ = cut_of(define, ["wide"])
    assert names(cut.before) == ["readers.file", "cast"] and len(cut.behind) == 1 and len(cut.crossing) == 2
    with pytest.raises(ValueError, match="no operator of the plan"):
        cut_of(define, ["narrow"])
    wanted = stream(pipeline(define, 0), 4)
    pipe = pipeline(define, 1, engine_cut="reader")
    assert stream(pipe, 4) == wanted
    pipe.close()


# ------------------------------------------------------------------------------------------------------------------------ parts


def test_blocks_are_found_by_address():
    blocks = OwnBlocks()
    first, second = blocks.make(5000), blocks.make(100)
    start = first.ctypes.data
    number, descriptor, begin = blocks.find(start + 10, start + 5000)
    assert begin == start and os.fstat(descriptor).st_size == 8192
    assert blocks.find(start, start + 8193) is None and blocks.find(1, 2) is None
    del first
    assert blocks.take_gone() == [number] and blocks.find(start, start + 1) is None
    second[:] = 7
    blocks.close()
    assert (second == 7).all()


def test_data_from_sockets_is_not_unpickled():
    from pathlib import Path

    import asyncdali.engines as room

    for path in Path(room.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert ("pickle.load" in text) == (path.name in ("program.py", "process.py")), path
