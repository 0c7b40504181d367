"""readers.numpy: files of numpy.save, read whole and in part; listings; damaged files."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

from asyncdali import Pipeline, fn


def reader(batch=1, **arguments):
    pipe = Pipeline(batch_size=batch, num_threads=2, seed=1)
    with pipe:
        pipe.set_outputs(fn.readers.numpy(name="R", **arguments))
    pipe.build()
    return pipe


def arrays(pipe):
    return [np.asarray(sample).copy() for sample in pipe.run()[0]]


def saved(folder, *items):
    """Files of numpy.save."""
    paths = []
    for k, item in enumerate(items):
        np.save(folder / f"{k}.npy", item)
        paths.append(str(folder / f"{k}.npy"))
    return paths


def equal(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(one, other)


# --- whole arrays


@pytest.mark.parametrize("kind", ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("direct", [False, True])
def test_types_and_orders(tmp_path, kind, direct):
    rng = np.random.default_rng(3)
    items = [(rng.integers(0, 2 if kind == "b1" else 100, shape)).astype(kind) for shape in ((3, 4, 5), (1, 1, 1), (700, 2, 3), (2, 0, 3))]
    items += [np.asfortranarray(items[0]), np.asfortranarray(items[2]), items[0].T]
    options = {"use_o_direct": True, "dont_use_mmap": True} if direct else {}
    equal(arrays(reader(7, files=saved(tmp_path, *items), **options)), items)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2,) * 9, (1, 0, 3), (1,) * 32])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_shapes_and_versions(tmp_path, shape, version):
    item = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    with open(tmp_path / "a", "wb") as file:
        np.lib.format.write_array(file, item, version)
    with open(tmp_path / "b", "wb") as file:
        np.lib.format.write_array(file, item.T.copy().T, version)
    for options in ({}, {"cache_header_information": True}):
        pipe = reader(2, files=[str(tmp_path / "a"), str(tmp_path / "b")], **options)
        for _ in range(3):
            equal(arrays(pipe), [item, item])


def written(path, header, data=bytes(24), version=1):
    text = header.encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + text + data)
    return str(path)


@pytest.mark.parametrize(
    "header",
    ["{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", '{"shape":(2L,3L),"descr":"f4","fortran_order":False}',
     "{'fortran_order': False, 'shape': ( 2 , 3 ) , 'descr' : '=f4'}\n",
     "  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3,)}" + " " * 9000],
)  # fmt: skip
def test_headers_of_other_writers(tmp_path, header):
    data = np.arange(6, dtype=np.float32)
    equal(arrays(reader(files=[written(tmp_path / "a", header, data.tobytes() + b"more")])), [data.reshape(2, 3)])


@pytest.mark.parametrize(
    "header, message",
    [("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", "Big Endian"),
     ("{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", "c8"),
     ("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "header"),
     ("{'descr': '|S9', 'fortran_order': False, 'shape': (3,)}", "S9"), ("{'descr': '<f4', 'shape': (3,)}", "header"),
     ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", "structures"),
     ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}", "header"),
     ("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "header"), ("", "header"), ("{", "header"), ("{'", "header"),
     ("{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", "28 bytes of data, the file has 24"),
     ("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296)}", "Failed to read file"),
     ("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 4294967296, 4294967296, 4294967296)}", "Failed to read file"),
     ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "header"), ("{'descr'", "header"),
     ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 33 + ")}", "header"), ("{'descr': '<f4" + "9" * 20 + "'", "header")],
)  # fmt: skip
def test_hostile_headers(tmp_path, header, message):
    path = written(tmp_path / "a", header)
    with pytest.raises(RuntimeError, match=message) as caught:
        reader(files=[path]).run()
    assert path in str(caught.value)


def test_files_that_are_no_arrays(tmp_path):
    good = saved(tmp_path, np.arange(100))[0]
    data = open(good, "rb").read()
    cases = [b"", b"\x93NUMPY", b"rubbish" * 9, data[:6] + b"\x04" + data[7:], data[:60], data[:-1], data[:8] + b"\xff\xff" + data[10:]]
    paths = []
    for k, case in enumerate(cases):
        (tmp_path / f"x{k}").write_bytes(case)
        paths.append(str(tmp_path / f"x{k}"))
    paths += [str(tmp_path), str(tmp_path / "gone"), good]
    pipe = reader(files=paths)
    before = None
    for path in paths:
        if path == good:
            equal(arrays(pipe), [np.arange(100)])
            continue
        with pytest.raises(RuntimeError, match=rf"Failed to read file: {path}"):
            pipe.run()
        before = before or len(os.listdir("/proc/self/fd"))
    pipe.close()  # prefetched iterations open files, too
    assert len(os.listdir("/proc/self/fd")) <= before + 2


@pytest.mark.parametrize("kind, name", [("M8[D]", "M8"), ("m8[25us]", "m8"), ("c16", "c16"), ("U7", "U7"), ("S3", "S3"), ("V5", "V5")])
def test_types_that_are_no_numbers(tmp_path, kind, name):
    np.save(tmp_path / "a.npy", np.zeros(3, kind))
    with pytest.raises(RuntimeError, match=rf"Unknown Numpy type string: {name}. File: .*a.npy"):
        reader(files=[str(tmp_path / "a.npy")]).run()


def test_archives_of_arrays_are_named(tmp_path):
    np.savez(tmp_path / "a.npz", np.zeros(3))
    with pytest.raises(RuntimeError, match=r"a.npz: not a NumPy file of a known version; the file is a zip archive \(.npz, for example\)"):
        reader(files=[str(tmp_path / "a.npz")]).run()


def test_pickles_are_never_read(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"x": 1}, None], object), allow_pickle=True)
    with pytest.raises(RuntimeError, match="type string: O"):
        reader(files=[str(tmp_path / "a.npy")]).run()


def test_a_batch_agrees_on_type_and_rank(tmp_path):
    paths = saved(tmp_path, np.zeros(3, np.float32), np.zeros(3, np.float64), np.zeros((3, 1), np.float32))
    with pytest.raises(RuntimeError, match=r"same data type. Got .*0.npy.* with data type float32 and .*1.npy"):
        reader(2, files=paths).run()
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        reader(2, files=paths[::2]).run()


# --- listings


def test_directories_and_lists(tmp_path):
    for name in ("c.npy", "a.npy", "B.NPY", "s1/x.npy", "s0/h.npy", "s0/g.npy", "s0/deep/no.npy", "s0/other.txt", ".hid/y.npy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with open(tmp_path / name, "wb") as file:
            np.save(file, np.array([1.5]))

    def names(**arguments):
        pipe = reader(1, **arguments)
        return [pipe.run()[0][0].source_info() for _ in range(pipe.epoch_size("R"))]

    root = str(tmp_path)
    assert names(file_root=root) == ["./a.npy", "./c.npy", "s0/g.npy", "s0/h.npy", "s1/x.npy"]  # no hidden folder
    assert names(file_root=root, file_filter="*.NPY") == ["./B.NPY"]
    (tmp_path / "blank ").write_bytes((tmp_path / "a.npy").read_bytes())
    (tmp_path / "list").write_text("c.npy\n\nblank \ns0/h.npy")
    assert names(file_list=str(tmp_path / "list")) == ["c.npy", "blank ", "s0/h.npy"]
    assert names(file_root=str(tmp_path / "s0"), files=["h.npy", "g.npy"]) == ["h.npy", "g.npy"]
    cases = [
        ({}, "`file_root` argument is required"), ({"files": ["a"], "file_list": "b"}, "but not both"), ({"files": []}, "No files found"),
        ({"file_root": root, "file_filter": "*.x"}, "No files found"), ({"file_root": "/no/such"}, "/no/such"),
        ({"file_list": "/no/such"}, "/no/such"),
        ({"file_root": root, "out_of_bounds_policy": "foo"}, "Not supported out_of_bounds_policy: foo"),
        ({"file_root": root, "use_o_direct": True}, "dont_use_mmap"),
        ({"file_root": root, "roi_start": [1], "rel_roi_start": [0.5]}, "mutually exclusive"),
        ({"file_root": root, "roi_end": [1], "roi_shape": [1]}, "mutually exclusive"),
    ]  # fmt: skip
    for arguments, message in cases:
        with pytest.raises(RuntimeError, match=message):
            reader(**arguments)


def test_more_files_than_may_stay_open(tmp_path, monkeypatch):
    from asyncdali.readers.npy import npy

    monkeypatch.setattr(npy, "MAX_OPEN", 2)
    items = [np.full((k, 3), k) for k in range(6)]
    equal(arrays(reader(6, files=saved(tmp_path, *items))), items)


def test_cached_headers_are_not_read_again(tmp_path):
    path = saved(tmp_path, np.arange(4.0))[0]
    pipe = reader(files=[path], cache_header_information=True)
    equal(arrays(pipe), [np.arange(4.0)])
    with open(path, "r+b") as file:
        file.write(b"broken")
    for _ in range(4):
        equal(arrays(pipe), [np.arange(4.0)])


# --- regions


GRID = np.arange(12, dtype=np.int32).reshape(3, 4)


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize(
    "region, wanted",
    [({"roi_start": [1, 1]}, GRID[1:, 1:]), ({"rel_roi_start": [0.25, 0.25], "rel_roi_end": [0.9, 0.9]}, GRID[1:3, 1:4]),
     ({"roi_start": [1]}, GRID[1:, 1:]), ({"roi_end": [2], "roi_axes": [0]}, GRID[:2]),
     ({"roi_shape": [2, 3], "roi_axes": [-1, 0]}, GRID[:, :2]),
     ({"roi_start": [1, 2], "roi_shape": [0, 2]}, GRID[1:1, 2:]), ({"roi_start": [2, 0]}, GRID[2:]), ({"roi_end": [3, 1]}, GRID[:, :1]),
     ({"roi_start": [-1, 0], "roi_end": [3, 5], "out_of_bounds_policy": "pad", "fill_value": 7},
      np.pad(GRID, ((1, 0), (0, 1)), constant_values=7)),
     ({"roi_start": [5, 0], "roi_end": [7, 2], "out_of_bounds_policy": "pad", "fill_value": -2.5}, np.full((2, 2), -3, np.int32)),
     ({"roi_start": [-1, 0], "roi_end": [3, 5], "out_of_bounds_policy": "trim_to_shape"}, GRID),
     ({"roi_start": [5, 1], "roi_end": [7, 2], "out_of_bounds_policy": "trim_to_shape"}, GRID[:0, 1:2])],
)  # fmt: skip
def test_golden_regions(tmp_path, region, wanted, fortran):
    path = saved(tmp_path, np.asfortranarray(GRID) if fortran else GRID)[0]
    for options in ({}, {"use_o_direct": True, "dont_use_mmap": True}):
        equal(arrays(reader(files=[path], **region, **options)), [np.ascontiguousarray(wanted)])


def test_random_regions(tmp_path):
    """Regions per sample equal NumPy's slicing and padding."""
    rng = np.random.default_rng(5)
    items = [rng.integers(0, 99, tuple(rng.integers(1, 9, 4))).astype("i2") for _ in range(24)]
    items = [item.T.copy().T if rng.random() < 0.5 else item for item in items]
    extents = np.array([item.shape for item in items])
    starts = rng.integers(-3, extents + 2).astype(np.int32)
    sizes = rng.integers(0, extents + 3).astype(np.int32)
    wanted = []
    for item, start, size in zip(items, starts, sizes, strict=True):
        wide = np.pad(item, 16, constant_values=-7)
        wanted.append(np.ascontiguousarray(wide[tuple(slice(16 + a, 16 + a + b) for a, b in zip(start, size, strict=True))]))
    pipe = Pipeline(batch_size=24, num_threads=2)
    with pipe:
        region = {"roi_start": fn.external_source(lambda: list(starts)), "roi_shape": fn.external_source(lambda: list(sizes))}
        files = saved(tmp_path, *items)
        pipe.set_outputs(fn.readers.numpy(files=files, out_of_bounds_policy="pad", fill_value=-7, **region))
    equal(arrays(pipe), wanted)


def test_regions_out_of_bounds(tmp_path):
    path = saved(tmp_path, GRID)[0]
    cases = [
        ({"roi_start": [2, 0], "roi_end": [1, 4]}, "end coordinates can't be before start"),
        ({"roi_end": [4, 4]}, "can't be placed out of bounds"),
        ({"roi_start": [-1, 0]}, "can't be placed out of bounds"), ({"roi_start": [0], "roi_axes": [2]}, "`roi_axes`: 2 is out of range"),
        ({"roi_start": [0, 0], "roi_axes": [1, -1]}, "more than once"), ({"roi_start": [0, 0, 0]}, "expects 2 values"),
    ]  # fmt: skip
    for region, message in cases:
        with pytest.raises((RuntimeError, ValueError), match=message):
            reader(files=[path], **region).run()
