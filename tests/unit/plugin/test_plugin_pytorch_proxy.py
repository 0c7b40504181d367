"""A pipeline inside a torch DataLoader."""

from __future__ import annotations

import collections
import gc
import os
import pickle
import signal
import warnings

import numpy as np
import pytest

from asyncdali import Pipeline, fn, types

torch = pytest.importorskip("torch", reason="torch is not installed")
from asyncdali.plugin.pytorch.experimental import proxy as dali_proxy  # noqa: E402


def doubling(batch=4, outputs=1, fails_at=None, **options):
    """A pipeline with the inputs `a` and `b`, which returns 2 * a + b and a random number."""
    pipe = Pipeline(batch_size=batch, num_threads=1, seed=3, prefetch_queue_depth=2, **options)
    with pipe:
        a, b = fn.external_source(name="a"), fn.external_source(name="b", dtype=types.INT64)

        def compute(x, y):
            if fails_at is not None and y == fails_at:
                raise KeyError("broken")
            return 2 * x + y.astype(np.float32)

        pipe.set_outputs(fn.python_function(a, b, function=compute), *([fn.random.uniform(seed=9)] if outputs == 2 else []))
    return pipe


class Samples(torch.utils.data.Dataset):
    """A data set: item k is (the proxy's result for [k, k] and k, k)."""

    def __init__(self, proxy, count=10):
        self.proxy, self.count = proxy, count

    def __len__(self):
        return self.count

    def __getitem__(self, k):
        return self.proxy(torch.full((2,), float(k)), b=k), k


def expected(numbers):
    return [[3.0 * k, 3.0 * k] for k in numbers]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches(workers):
    with dali_proxy.DALIServer(doubling()) as server:
        loader = dali_proxy.DataLoader(server, Samples(server.proxy), batch_size=4, num_workers=workers)
        for _ in range(2):
            found = [(x.tolist(), k.tolist()) for x, k in loader]
            assert [k for _, k in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
            assert all(x == expected(k) for x, k in found)


def test_tensors_are_the_pipelines_memory():
    with dali_proxy.DALIServer(doubling()) as server:
        held = [x for x, _ in dali_proxy.DataLoader(server, Samples(server.proxy, 24), batch_size=4)]
    assert torch.cat(held).tolist() == expected(range(24))


def test_deterministic_draws():
    """Batches are processed in the loader's order, whichever worker finishes first."""
    def draws():
        with dali_proxy.DALIServer(doubling(outputs=2), deterministic=True) as server:
            loader = dali_proxy.DataLoader(server, Samples(server.proxy, 24), batch_size=4, num_workers=2)
            return [draw.tolist() for (_, draw), _ in loader]

    plain = Pipeline(batch_size=4, num_threads=1)
    with plain:
        plain.set_outputs(fn.random.uniform(seed=9))
    assert draws() == [np.asarray(plain.run()[0].as_tensor()).tolist() for _ in range(6)]


def test_nested_items_and_names():
    Item = collections.namedtuple("Item", "x k")

    class Nested(Samples):
        def __getitem__(self, k):
            x, draw = self.proxy(a=np.full(2, k, np.float32), b=np.int64(k))
            return {"item": Item(x, k), "rest": [draw, str(k)]}

    with dali_proxy.DALIServer(doubling(outputs=2)) as server:
        batch = next(iter(dali_proxy.DataLoader(server, Nested(server.proxy), batch_size=3)))
    assert batch["item"].x.tolist() == expected(range(3)) and batch["item"].k.tolist() == [0, 1, 2]
    assert batch["rest"][0].shape == (3,) and list(batch["rest"][1]) == ["0", "1", "2"]


def test_the_users_collate_function():
    def columns(batch):
        return {"x": [item[0] for item in batch], "k": torch.tensor([item[1] for item in batch]) + 100}

    with dali_proxy.DALIServer(doubling()) as server:
        loader = dali_proxy.DataLoader(server, Samples(server.proxy), batch_size=4, collate_fn=columns)
        batch = next(iter(loader))
    assert batch["x"].tolist() == expected(range(4)) and batch["k"].tolist() == [100, 101, 102, 103]


@pytest.mark.parametrize("workers", [0, 2])
def test_leaving_the_loop(workers):
    """Batches that the program did not take are neither kept nor delivered later."""
    with dali_proxy.DALIServer(doubling()) as server:
        loader = dali_proxy.DataLoader(server, Samples(server.proxy, 40), batch_size=4, num_workers=workers)
        for _ in range(3):
            for x, k in loader:
                assert x.tolist() == expected(k.tolist())
                break
        whole = [k.tolist() for _, k in loader]
        assert [number for batch in whole for number in batch] == list(range(40))
        assert not server._waiting and not server._running


def test_an_error_fails_its_batch():
    with dali_proxy.DALIServer(doubling(fails_at=5)) as server:
        batches = [[Samples(server.proxy)[k] for k in range(first, first + 4)] for first in (0, 4, 0)]
        made = [torch.utils.data.default_collate(batch) for batch in batches]
        assert server.produce_data(made[0])[0].tolist() == expected(range(4))
        with pytest.raises(RuntimeError, match="broken"):
            server.produce_data(made[1])
        assert server.produce_data(made[2])[0].tolist() == expected(range(4))


@pytest.mark.parametrize("workers", [0, 1])
def test_pin_memory_is_accepted(workers):
    """`pin_memory` is accepted, as by torch's DataLoader. Without a GPU nothing is pinned, and torch gives no warning."""
    with dali_proxy.DALIServer(doubling()) as server, warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*pin_memory.*")  # jax warns of forks, which is no error here
        loader = dali_proxy.DataLoader(server, Samples(server.proxy), batch_size=4, num_workers=workers, pin_memory=True)
        found = [(x.tolist(), k.tolist()) for x, k in loader]
    assert found == [(expected(range(i, min(i + 4, 10))), list(range(i, min(i + 4, 10)))) for i in (0, 4, 8)]


def test_torch_pins_memory_if_there_is_a_gpu(monkeypatch):
    """torch's thread pins the items of the data set. It does not pin references to outputs."""
    from torch.utils.data._utils.pin_memory import pin_memory

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with dali_proxy.DALIServer(doubling()) as server:
        assert dali_proxy.DataLoader(server, [1], pin_memory=True).pin_memory
        assert not dali_proxy.DataLoader(server, [1]).pin_memory
        data = Samples(server.proxy)
        batch = torch.utils.data.default_collate([data[0], data[1]])
        reference, _ = pin_memory([batch[0], 7])
        assert reference is batch[0]


def test_refused():
    plain = Pipeline(batch_size=1, num_threads=1)
    with plain:
        plain.set_outputs(fn.random.uniform())
    with pytest.raises(ValueError, match="inputs to be fed"):
        dali_proxy.DALIServer(plain)
    server = dali_proxy.DALIServer(doubling())
    wrong = [("2 inputs", (1, 2, 3), {}), ("twice", (1,), {"a": 1}), ("no inputs", (1, 2), {"c": 1}), ("missing", (1,), {})]
    for match, args, named in wrong:
        with pytest.raises(ValueError, match=match):
            server.proxy(*args, **named)
    with pytest.raises(RuntimeError, match="not running"):
        server.produce_data(torch.utils.data.default_collate([server.proxy(1.0, 2)]))
    with pytest.raises(TypeError, match="DALIServer"):
        dali_proxy.DataLoader([1, 2])
    with server:
        with pytest.raises(RuntimeError, match="already"):
            server.start_thread()

        class Some(Samples):
            def __getitem__(self, k):
                return self.proxy(1.0, 2) if k % 2 == 0 else 7

        with pytest.raises(ValueError, match="all of them must call the proxy"):
            next(iter(dali_proxy.DataLoader(server, Some(server.proxy), batch_size=2)))
    with pytest.raises(ValueError, match="makes no batches"):
        dali_proxy.DataLoader(server, [1], batch_size=None)
    with pytest.raises(TypeError, match="runs a pipeline"):
        dali_proxy.DALIServer("pipe")
    with pytest.raises(TypeError, match="'a' must be an array"):
        server.proxy("text", 1)


class Asking(Samples):
    """Asks the server for its proxy at every item, also in a worker."""

    def __getitem__(self, k):
        return self.proxy.proxy(torch.full((2,), float(k)), b=k), k


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_starts_the_server_and_workers_ask_it_for_the_proxy(workers):
    """Without a `with` block. The server stops with the loader, and another loader starts it again."""
    server = dali_proxy.DALIServer(doubling())
    for _ in range(2):
        loader = dali_proxy.DataLoader(server, Asking(server), batch_size=4, num_workers=workers)
        for _ in range(2):
            assert [x.tolist() for x, _ in loader] == [expected(range(4)), expected(range(4, 8)), expected(range(8, 10))]
        assert server.serves and loader.dali_server is server
        del loader
        gc.collect()
        assert not server.serves
    with server:
        loader = dali_proxy.DataLoader(server, Samples(server.proxy, 4), batch_size=4)
        assert [x.tolist() for x, _ in loader] == [expected(range(4))]
    assert [x.tolist() for x, _ in loader] == [expected(range(4))] and server.serves
    server.stop_thread()
    with server:
        del loader
        gc.collect()
        assert server.serves


def test_the_proxy_can_be_pickled():
    """Start methods other than fork pickle the proxy."""
    proxy = pickle.loads(pickle.dumps(dali_proxy.DALIServer(doubling()).proxy))
    assert proxy.inputs == ("a", "b") and isinstance(proxy(1.0, 2), dali_proxy.OutputSampleReference)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_all_start_methods_of_workers(context):
    with dali_proxy.DALIServer(doubling(outputs=2)) as server:
        loader = dali_proxy.DataLoader(server, Samples(server.proxy), batch_size=4, num_workers=1, multiprocessing_context=context)
        assert [x.tolist() for (x, _), _ in loader] == [expected(range(4)), expected(range(4, 8)), expected(range(8, 10))]


def test_persistent_workers():
    """Batches of an abandoned epoch are not delivered in the next epoch, and their memory is freed."""
    with dali_proxy.DALIServer(doubling()) as server:
        loader = dali_proxy.DataLoader(server, Samples(server.proxy, 40), batch_size=4, num_workers=2, persistent_workers=True)
        for _ in range(3):
            x, numbers = next(iter(loader))
            assert x.tolist() == expected(range(4)) and numbers.tolist() == [0, 1, 2, 3]
        assert [number for _, k in loader for number in k.tolist()] == list(range(40))
        assert not server._waiting and not server._running


class Dying(Samples):
    """The worker of item 9 is killed after the consumer has set the event."""

    def __init__(self, proxy, count, event):
        super().__init__(proxy, count)
        self.event = event

    def __getitem__(self, k):
        if k == 9:
            self.event.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(k)


def test_a_worker_that_dies():
    """If a worker dies, the loader raises an error. The server continues with another loader."""
    first = torch.multiprocessing.Event()
    with dali_proxy.DALIServer(doubling()) as server:
        # The error is torch's: the first text if the loader waits for a worker, the second if the signal comes at another time. The
        # batches before must have arrived: torch gets their tensors from the worker, and a third error comes if it is killed meanwhile.
        with pytest.raises(RuntimeError, match="exited unexpectedly|is killed by signal"):
            for _ in dali_proxy.DataLoader(server, Dying(server.proxy, 40, first), batch_size=4, num_workers=2):
                first.set()
        assert first.is_set()
        found = [x.tolist() for x, _ in dali_proxy.DataLoader(server, Samples(server.proxy, 8), batch_size=4, num_workers=1)]
        assert found == [expected(range(4)), expected(range(4, 8))]


@pytest.mark.parametrize("workers", [0, 1])
def test_torchs_data_loader_with_the_proxys_functions(workers):
    """torch's `default_collate` merges references, and `produce_data` replaces them by outputs. A second call does the same again."""
    with dali_proxy.DALIServer(doubling(outputs=2)) as server:
        for k, batch in enumerate(torch.utils.data.DataLoader(Samples(server.proxy, 8), batch_size=4, num_workers=workers)):
            (x, draw), numbers = server.produce_data(batch)
            assert x.tolist() == expected(range(4 * k, 4 * k + 4)) and numbers.tolist() == list(range(4 * k, 4 * k + 4))
            again = server.produce_data(batch[0])
            assert again[0] is x and again[1] is draw


def test_several_calls_for_a_sample():
    """A sample may contain results of several calls. Each collation makes a separate run, and references may be collated again."""
    with dali_proxy.DALIServer(doubling()) as server:
        samples = [(server.proxy(float(k), k), server.proxy(10.0 * k, k)) for k in range(4)]
        for order in ([0, 1, 2], [0, 1, 2], [3, 2]):
            batch = torch.utils.data.default_collate([samples[k] for k in order])
            x, y = server.produce_data(batch)
            assert x.tolist() == [3.0 * k for k in order] and y.tolist() == [21.0 * k for k in order]


def test_samples_of_all_kinds_reach_the_pipeline():
    """Samples may be empty, scalars, ragged, or not contiguous in memory."""
    samples = [[np.float16(2), np.zeros((0, 3), np.int8), np.arange(12.0).reshape(3, 4).T, np.array([True, False])], [np.uint8(1)] * 3]
    made = dali_proxy.references.Run(samples)
    columns = pickle.loads(pickle.dumps(made)).columns
    for column, expected_column in zip(columns, samples, strict=True):
        for found, sample in zip(column, expected_column, strict=True):
            assert found.dtype == np.asarray(sample).dtype and found.shape == np.shape(sample) and (found == sample).all()


def test_an_input_that_is_refused_leaves_the_others_in_step():
    with dali_proxy.DALIServer(doubling(batch=2)) as server:
        def produced(*numbers, second=lambda k: k):
            return server.produce_data(torch.utils.data.default_collate([server.proxy(float(k), second(k)) for k in numbers]))

        assert produced(1, 2).tolist() == [3, 6]
        with pytest.raises(RuntimeError):
            produced(3, 4, second=lambda k: np.zeros(k))  # the number of dimensions differs
        with pytest.raises(RuntimeError, match="3 samples"):
            produced(3, 4, 5)
        ragged = [server.proxy(float(k), np.zeros((1,) * k)) for k in (1, 2)]
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            server.produce_data(torch.utils.data.default_collate(ragged))
        assert produced(5, 6).tolist() == [15, 18]


def test_an_outcome_lost_to_an_interrupt_is_computed_again(monkeypatch):
    """Ctrl-C comes after the pipeline has answered and before the server has noted the answer. The next request gets another batch."""
    with dali_proxy.DALIServer(doubling()) as server:
        batches = [torch.utils.data.default_collate([server.proxy(float(k), k)]) for k in range(3)]
        server.request(batches)
        delivery = server.pipeline._core.built().delivery
        fetch = delivery.fetch

        def interrupted(*args):
            fetch(*args)
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(delivery, "fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.produce_data(batches[0])
        assert [x.tolist() for x in server.produce_data(batches)] == [[0.0], [3.0], [6.0]]


def test_an_interrupt_after_queueing_does_not_mix_up_iterations(monkeypatch):
    """Ctrl-C comes after an iteration was queued and before the server has noted it."""
    from asyncdali.plugin.pytorch.experimental.proxy import server as module

    with dali_proxy.DALIServer(doubling()) as server:
        batches = [torch.utils.data.default_collate([server.proxy(float(k), k)]) for k in range(3)]
        launch = module.feed_and_launch

        def interrupted(*args):
            launch(*args)
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "feed_and_launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.produce_data(batches[1])
        assert [x.tolist() for x in server.produce_data(batches)] == [[0.0], [3.0], [6.0]]
