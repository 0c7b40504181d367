"""Nodes for torchdata: readers, functions on entries, conversion to torch, and exact states."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
tn = pytest.importorskip("torchdata.nodes", reason="torchdata is not installed")

import asyncdali.dynamic as ndd  # noqa: E402
from asyncdali.dynamic.pytorch import nodes  # noqa: E402


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Ten files of equal size; file k has three bytes k."""
    root = tmp_path_factory.mktemp("files")
    paths = []
    for k in range(10):
        (root / f"{k}").write_bytes(bytes([k]) * 3)
        paths.append(str(root / f"{k}"))
    return paths


@pytest.fixture
def reader(files):
    return lambda **arguments: nodes.Reader(ndd.readers.File, **{"batch_size": 4, "files": files, **arguments})


def numbers(item):
    label = item[1] if isinstance(item, tuple) else item["label"]
    return np.asarray(ndd.as_tensor(label)).ravel().tolist()


def test_N1_items_are_dictionaries(files, reader, tmp_path):
    node = reader()
    node.reset()
    item = next(node)
    assert list(item) == ["data", "label"] and isinstance(item["data"], ndd.Batch)
    assert [numbers(item) for item in node] == [[4, 5, 6, 7], [8, 9, 0, 1]]
    assert node.get_metadata() == ndd.readers.File(files=files).get_metadata()
    samples = reader(batch_size=None)
    assert isinstance(next(samples)["data"], ndd.Tensor) and len(list(samples)) == 9
    assert list(next(reader(output_names=["a", "b"]))) == ["a", "b"]
    np.save(tmp_path / "0.npy", np.zeros(2))
    arrays = {"batch_size": 1, "files": [str(tmp_path / "0.npy")]}
    assert list(next(nodes.Reader(ndd.readers.Numpy, output_names="x", **arrays))) == ["x"]
    with pytest.raises(ValueError, match="output_names"):
        nodes.Reader(ndd.readers.Numpy, **arrays)
    for wrong in (("a",), ("a", "b", "c"), ("a", "a")):
        with pytest.raises(ValueError, match="2 outputs"):
            reader(output_names=wrong)
    for wrong, error in (({"foo": 3}, TypeError), ({"batch_size": 0}, ValueError), ({"batch_size": 4, "max_batch_size": 2}, ValueError)):
        with pytest.raises(error):
            reader(**wrong)
    with pytest.raises(TypeError, match="readers"):
        nodes.Reader(3, batch_size=2)


def test_N2_a_function_is_applied_to_one_entry(reader):
    item = next(nodes.DictMapper(reader(), lambda data: ndd.cast(data, dtype=ndd.float32)))
    assert item["data"].dtype is ndd.float32 and item["label"].dtype is ndd.int32
    item = next(nodes.DictMapper(reader(), lambda label: label + 1, key="label"))
    assert numbers(item) == [1, 2, 3, 4]
    with pytest.raises(KeyError, match="other"):
        next(nodes.DictMapper(reader(), lambda data: data, key="other"))

    def fail(data):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        next(nodes.DictMapper(reader(), fail))
    for wrong in ((reader(), 3), (3, len)):
        with pytest.raises(TypeError):
            nodes.DictMapper(*wrong)


def test_N3_values_become_torch_tensors(reader):
    item = next(nodes.ToTorch(reader()))
    assert isinstance(item, tuple) and [(value.dtype, tuple(value.shape)) for value in item] == [
        (torch.uint8, (4, 3)),
        (torch.int32, (4, 1)),
    ]
    assert [tuple(value.shape) for value in next(nodes.ToTorch(reader(batch_size=None)))] == [(3,), (1,)]
    ragged = tn.IterableWrapper([{"a": ndd.batch([[1], [1, 2]])}])
    with pytest.raises(ValueError):
        next(nodes.ToTorch(ragged))
    for wrong in ([{"a": 3}], [3]):
        with pytest.raises(TypeError):
            next(nodes.ToTorch(tn.IterableWrapper(wrong)))


def padded(item):
    return {**item, "data": ndd.pad(item["data"])}


def test_N4_nodes_work_in_loaders_and_threads(reader):
    epochs = [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1]], [[2, 3, 4, 5], [6, 7, 8, 9], [0, 1, 2, 3]]]
    for make in (
        lambda: nodes.ToTorch(reader()),
        lambda: tn.Prefetcher(nodes.ToTorch(reader()), 2),
        lambda: tn.ParallelMapper(reader(), padded, num_workers=2, method="thread"),
    ):
        loader = tn.Loader(make())
        assert [[numbers(item) for item in loader] for _ in range(2)] == epochs


KINDS = {"plain": {}, "shuffled": {"random_shuffle": True}, "epochs": {"shuffle_after_epoch": True}, "shards": {"num_shards": 3}}


@pytest.mark.parametrize("taken", range(1, 6))
@pytest.mark.parametrize("kind", KINDS)
def test_N5_states_are_exact(reader, taken, kind):
    arguments = KINDS[kind]

    def loader():
        return tn.Loader(tn.Prefetcher(nodes.ToTorch(nodes.DictMapper(reader(**arguments, batch_size=3), lambda data: data)), 2))

    def stream(made, count):
        found = []
        while len(found) < count:
            for item in made:
                found.append(numbers(item))
                if len(found) == count:
                    break
        return found

    ndd.random.set_seed(1)
    first = loader()
    found = []
    while len(found) < taken:
        for item in first:
            found.append(numbers(item))
            if len(found) == taken:
                state = first.state_dict()
                break
    ndd.random.set_seed(1)
    whole = stream(loader(), 9)
    assert found == whole[:taken]
    ndd.random.set_seed(2)
    other = loader()
    other.load_state_dict(state)
    assert stream(other, 9 - taken) == whole[taken:]


def test_N5_calls_out_of_order(reader):
    with pytest.raises(RuntimeError, match="reset"):
        reader().next()
    for wrong in ({}, {"reader": 3}, {"reader": "x"}):
        with pytest.raises(ValueError, match="state"):
            reader().reset(wrong)
