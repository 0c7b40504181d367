"""A pipeline inside a torch DataLoader."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from asyncdali import Pipeline, fn, types

torch = pytest.importorskip("torch", reason="torch is not installed")
from asyncdali.plugin.pytorch.experimental import proxy as dali_proxy  # noqa: E402


def doubling(batch=4, outputs=1, fails_at=None, **options):
    """Two inputs, `a` and `b`: 2 a + b, and a draw."""
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
    """(what the proxy gives for [k, k] and k, k)"""

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
    """Batches are worked on in the loader's order, whatever worker is first."""
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
    """Nothing of the batches that were not asked for is kept, or delivered later."""
    with dali_proxy.DALIServer(doubling()) as server:
        loader = dali_proxy.DataLoader(server, Samples(server.proxy, 40), batch_size=4, num_workers=workers)
        for _ in range(3):
            for x, k in loader:
                assert x.tolist() == expected(k.tolist())
                break
        whole = [k.tolist() for _, k in loader]
        assert [number for batch in whole for number in batch] == list(range(40))
        assert not server._results and not server._order and not server._arrived


def test_an_error_fails_its_batch():
    with dali_proxy.DALIServer(doubling(fails_at=5)) as server:
        batches = [[Samples(server.proxy)[k] for k in range(first, first + 4)] for first in (0, 4, 0)]
        made = [dali_proxy.references.collate(batch, None) for batch in batches]
        assert server.produce_data(made[0])[0].tolist() == expected(range(4))
        with pytest.raises(RuntimeError, match="broken"):
            server.produce_data(made[1])
        assert server.produce_data(made[2])[0].tolist() == expected(range(4))


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
        next(iter(dali_proxy.DataLoader(server, Samples(server.proxy), batch_size=2)))
    with pytest.raises(TypeError, match="DALIServer"):
        dali_proxy.DataLoader([1, 2])
    with pytest.raises(ValueError, match="pin_memory"):
        dali_proxy.DataLoader(server, [1], pin_memory=True)
    with server:
        with pytest.raises(RuntimeError, match="already"):
            server.start_thread()

        class Twice(Samples):
            def __getitem__(self, k):
                return self.proxy(1.0, 2), self.proxy(1.0, 2)

        with pytest.raises(ValueError, match="one call per sample"):
            next(iter(dali_proxy.DataLoader(server, Twice(server.proxy), batch_size=2)))
