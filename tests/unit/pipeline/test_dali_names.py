"""Attributes with an underscore, of pipelines and iterators, that programs written for DALI use. See test_dali_names_parity.py."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import Pipeline, fn, pipeline_def, types
from asyncdali.plugin.base_iterator import BaseIterator


def numbers(count=6):
    """Returns a pipeline whose batches count from 0, and the list of iterations that were requested from its source."""
    asked = []

    def source(iteration):
        asked.append(iteration)
        if iteration >= count:
            raise StopIteration
        return [np.full(1, iteration)] * 2

    return pipeline_of(lambda: fn.external_source(source), batch_size=2, prefetch_queue_depth=3), asked


def value(outputs):
    return int(np.array(outputs[0].at(0))[0])


def test_prefetch_fills_the_queue():
    pipe, asked = numbers(20)
    with pipe:
        assert pipe._prefetch() is None
        assert asked == [0, 1, 2]
        pipe._prefetch()
        assert asked == [0, 1, 2, 3, 4, 5]
        assert [value(pipe.run()) for _ in range(4)] == [0, 1, 2, 3]


def test_prefetch_then_outputs():
    pipe, _ = numbers(5)
    with pipe:
        pipe._prefetch()
        found = []
        for _ in range(5):
            found.append(value(pipe.outputs()))
            pipe.schedule_run()
        assert found == [0, 1, 2, 3, 4]
        with pytest.raises(StopIteration):
            pipe.outputs()


def test_prefetch_at_the_end_of_the_data_ends():
    pipe, asked = numbers(2)
    with pipe:
        pipe._prefetch()
        pipe._prefetch()
        assert asked == [0, 1, 2]
        assert [value(pipe.run()) for _ in range(2)] == [0, 1]
        with pytest.raises(StopIteration):
            pipe.run()


def test_positions_in_epochs():
    pipe, _ = numbers(2)
    with pipe:
        for epoch in range(3):
            assert (pipe._first_iter, pipe._last_iter) == (True, False)
            assert (pipe._consumer_iter, pipe._consumer_epoch_idx, pipe._epoch_idx) == (0, epoch, epoch)
            pipe.run()
            assert (pipe._first_iter, pipe._last_iter) == (False, True)  # the queue is deeper than the epoch is long
            assert (pipe._consumer_iter, pipe._consumer_epoch_idx) == (1, epoch)
            pipe.run()
            with pytest.raises(StopIteration):
                pipe.run()
            pipe.reset()


def test_options_and_the_graph():
    pipe, _ = numbers()
    unbuilt = (pipe._pipe, pipe._ops, pipe._names_and_devices, pipe._num_outputs, pipe._py_pool, pipe._py_graph_built, pipe._built)
    assert unbuilt == (None, None, None, None, None, False, False)
    pipe.build()
    with pipe:
        assert (pipe._max_batch_size, pipe._num_threads, pipe._device_id, pipe._seed, pipe._prefetch_queue_depth) == (2, 2, None, 1, 3)
        assert (pipe._exec_pipelined, pipe._exec_async, pipe._exec_dynamic, pipe._exec_separated) == (True, True, True, False)
        assert (pipe._cpu_queue_size, pipe._gpu_queue_size, pipe._py_num_workers) == (3, 3, 1)
        assert pipe._pipe is not None and pipe._py_graph_built and pipe._built is True and pipe._num_outputs == 1
        assert pipe._names_and_devices == [("__ExternalSource_0", "cpu")]
        assert [instance.schema.name for instance in pipe._ops] == ["external_source"]


def constant():
    return pipeline_of(lambda: fn.random.uniform(), batch_size=2)


def test_settings_before_building_act():
    pipe = constant()
    pipe._max_batch_size, pipe._num_threads, pipe._device_id = 5, 1, None
    with pipe:
        assert len(pipe.run()[0]) == 5
        assert (pipe.max_batch_size, pipe.num_threads) == (5, 1)
    wrong = constant()
    wrong._num_threads = 0
    with pytest.raises(ValueError, match="num_threads"):
        wrong.build()


def test_settings_of_a_built_pipeline_change_what_it_reports():
    with constant() as pipe:
        pipe.build()
        pipe._max_batch_size, pipe._num_threads, pipe._device_id = 7, 9, 3
        assert (pipe.max_batch_size, pipe.num_threads, pipe.device_id) == (7, 9, 3)
        assert len(pipe.run()[0]) == 2


def test_settings_in_debug_mode():
    @pipeline_def(batch_size=2, num_threads=1, debug=True)
    def graph():
        return fn.random.uniform()

    pipe = graph()
    pipe._max_batch_size = 4
    assert len(pipe.run()[0]) == 4
    pipe._max_batch_size = 9
    assert pipe.max_batch_size == 9 and len(pipe.run()[0]) == 4


def test_the_pool_of_parallel_sources():
    with pipeline_of(lambda: fn.external_source(one, parallel=True, batch=False), batch_size=1) as pipe:
        assert pipe._py_pool is None
        pipe.build()
        assert pipe._py_pool is not None


def one(info):
    return np.zeros(1)


def test_a_scope_allows_one_family_of_calls():
    with constant() as pipe:
        with pipe._check_api_type_scope(types.PipelineAPIType.ITERATOR):
            pipe.schedule_run()
            assert len(pipe.share_outputs()[0]) == 2
            pipe.release_outputs()
        with pytest.raises(RuntimeError, match="Mixing pipeline API"):
            pipe.run()
        with pytest.raises(RuntimeError, match="Mixing pipeline API"), pipe._check_api_type_scope(types.PipelineAPIType.SCHEDULED):
            pass
    assert isinstance(pipe, Pipeline)


class Counting(BaseIterator):
    """A subclass that adds an attribute to its checkpoints."""

    steps = 0
    rate = np.float64(0)

    def _checkpointed_fields(self):
        return [*super()._checkpointed_fields(), ("steps", int), ("rate", np.float64), ("history", (np.ndarray, np.int64))]

    def _converted(self, outputs, keep):
        return outputs


def files(tmp_path, **options):
    for k in range(10):
        (tmp_path / f"{k}.bin").write_bytes(b"%d" % k)
    names = [str(tmp_path / f"{k}.bin") for k in range(10)]
    graph = lambda: fn.readers.file(files=names, name="R")[1]  # noqa: E731
    return pipeline_of(graph, batch_size=4, enable_checkpointing=True, **options)


@pytest.mark.parametrize("arguments", [{"reader_name": "R"}, {"size": 10}], ids=str)
def test_the_state_of_an_iterator(tmp_path, arguments):
    iterator = Counting([files(tmp_path)], ["labels"], **arguments)
    names = [name for name, _ in iterator._checkpointed_fields()]
    assert names[0] == "_counter" and ("_shards_id" in names) == ("reader_name" in arguments)
    next(iterator)
    iterator.steps, iterator.rate, iterator.history = 7, np.float64(0.5), np.array([1, 2])
    saved = iterator._save_state()
    fields = json.loads(saved)
    assert fields["_counter"] == 4 and fields["steps"] == 7 and fields["rate"] == 0.5 and fields["history"] == [1, 2]
    other = Counting([files(tmp_path)], ["labels"], **arguments, prepare_first_batch=False)
    assert other._restore_state(saved) is None
    assert (other._counter, other.steps, other.rate, other.history.tolist()) == (4, 7, 0.5, [1, 2])
    for wrong in ("{}", "no", None):
        with pytest.raises(ValueError, match="_save_state"):
            other._restore_state(wrong)
    restored = Counting([files(tmp_path, checkpoint=iterator.checkpoints()[0])], ["labels"], **arguments)
    assert (restored.steps, restored.rate, restored.history.tolist()) == (7, 0.5, [1, 2])
    assert len(list(restored)) == 2
    with pytest.raises(RuntimeError, match="no data in the pipeline"):
        iterator._report_no_data_in_pipeline()
