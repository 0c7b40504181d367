"""Every error of an operator, a source or a reader is a RuntimeError. Errors about values are also ValueErrors, and so on."""

from __future__ import annotations

import numpy as np
import pytest

from asyncdali import errors, fn, pipeline_def, types
from asyncdali.errors import WHILE_RUNNING, Explanation, OperatorError, SampleError, operator_error


class Planned:
    class spec:
        device, name = "cpu", "op"

        class schema:
            name = "readers.file"

    trace = '  File "a.py", line 3, in f\n    x\n  File "b.py", line 7, in g\n    y'


@pytest.mark.parametrize(
    ("cause", "kinds"),
    [
        (ValueError("x"), (ValueError,)),
        (TypeError("x"), (TypeError,)),
        (IndexError("x"), (IndexError, ValueError)),
        (KeyError("x"), (KeyError, ValueError)),
        (OverflowError("x"), (OverflowError,)),
        (MemoryError("x"), (MemoryError,)),
        (OSError("x"), (OSError,)),
        (FileNotFoundError("x"), (FileNotFoundError,)),
        (PermissionError("x"), (PermissionError,)),
        (NotImplementedError("x"), ()),
        (Exception(Explanation("x", TypeError)), (TypeError,)),
    ],
)
def test_every_error_is_a_runtime_error(cause, kinds):
    made = operator_error(Planned, cause, 4, "pic.jpg")
    assert isinstance(made, OperatorError) and isinstance(made, RuntimeError)
    assert all(isinstance(made, kind) for kind in kinds)
    others = {ValueError, TypeError, KeyError, MemoryError} - set(kinds)
    assert not any(isinstance(made, kind) for kind in others)
    assert str(made).endswith(f"encountered:\nx\n{WHILE_RUNNING}")
    assert "Critical error in pipeline" in str(made) and "Current pipeline object is no longer valid" in str(made)


def test_fields():
    made = operator_error(Planned, SampleError(2, "bad"), 4, "pic.jpg")
    assert (made.operator, made.name, made.iteration, made.sample, made.source_info) == ("readers.file", "op", 4, 2, "pic.jpg")
    assert made.line == "b.py:7"
    assert operator_error(Planned, ValueError("x"), None).iteration is None


def test_the_family_is_documented():
    family = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OperatorError)]
    assert len(family) == 14 and all(kind.__doc__ for kind in family)


@pytest.mark.parametrize(
    ("call", "kinds"),
    [
        (lambda images: fn.rotate(images, angle="a"), (TypeError, ValueError)),
        (lambda images: fn.rotate(images, angel=3.0), (KeyError,)),
        (lambda images: fn.rotate(images), ()),
        (lambda images: fn.copy(images, device="foo"), (ValueError,)),
        (lambda images: fn.resize(images, images, images, size=4), (ValueError,)),
        (lambda images: fn.reductions.sum(images, axes=[9]), (ValueError,)),
        (lambda images: fn.transpose(images, perm=[0, 0, 1]), (ValueError,)),
        (lambda images: fn.cat(images, images, axis=9), (ValueError,)),
        (lambda images: fn.slice(images, 0, 1, axes=[7]), (ValueError,)),
        (lambda images: fn.decoders.image(fn.cast(images, dtype=types.FLOAT)), (ValueError,)),
        (lambda images: fn.python_function(images, function=lambda image: "text"), (TypeError,)),
    ],
)
def test_refusals_are_the_errors_that_callers_of_dali_catch(call, kinds):
    """Refusals at the call, in `build()` or in `run()` that are RuntimeErrors in DALI are RuntimeErrors here."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline():
        return call(types.Constant(np.zeros((2, 3, 1), np.uint8), layout="HWC"))

    with pytest.raises(RuntimeError) as caught:
        pipe = pipeline()
        pipe.build()
        pipe.run()
    assert all(isinstance(caught.value, kind) for kind in kinds), repr(caught.value)


def source_pipeline(source, **arguments):
    @pipeline_def(batch_size=2, num_threads=1, prefetch_queue_depth=1)
    def pipeline():
        nodes = fn.external_source(source, name=None if "num_outputs" in arguments else "numbers", **arguments)
        return tuple(nodes) if isinstance(nodes, list) else nodes

    return pipeline()


BATCH = [np.zeros(1)] * 2


@pytest.mark.parametrize(
    ("source", "arguments", "kind"),
    [
        (lambda: [np.zeros(1)] * 3, {}, OperatorError),
        (lambda: ["text", "text"], {}, TypeError),
        (lambda: None, {}, TypeError),
        (lambda: BATCH, {"layout": "HWC"}, OperatorError),
        (lambda: BATCH, {"ndim": 3}, OperatorError),
        (lambda: (BATCH,), {"num_outputs": 2}, IndexError),
        (lambda: 5, {"num_outputs": 2}, TypeError),
    ],
)
def test_invalid_data_of_a_source_is_refused_by_its_operator(source, arguments, kind):
    given = [BATCH]
    two = "num_outputs" in arguments

    def first_well_then_wrong():
        return (given.pop(), BATCH) if two and given else given.pop() if given and not arguments else source()

    with source_pipeline(source if arguments else first_well_then_wrong, **arguments) as pipe, pytest.raises(OperatorError) as caught:
        pipe.build()
        pipe.run()
        pipe.run()
    error = caught.value
    assert isinstance(error, kind), repr(error)
    assert error.operator == "external_source" and error.line.startswith(__file__)
    assert error.iteration == (0 if arguments else 1)


def test_a_sources_own_error_is_raised_as_it_is():
    class Own(Exception):
        pass

    def source():
        raise Own("mine")

    with pytest.raises(Own, match="^mine$") as caught:
        source_pipeline(source).run()
    assert not isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (lambda info: {}["no"], KeyError),
        (lambda info: "text", TypeError),
        (lambda info: BATCH[info.iteration], IndexError),
    ],
)
def test_errors_from_worker_processes_have_the_fields(source, kind):
    pipe = source_pipeline(source, parallel=True, batch=False)
    try:
        with pytest.raises(RuntimeError) as caught:
            for _ in range(4):
                pipe.run()
    finally:
        pipe.close()
    error = caught.value
    assert isinstance(error, kind)
    assert error.operator == "external_source" and error.name == "numbers" and error.line.startswith(__file__)
    assert error.iteration == (2 if kind is IndexError else 0)


@pytest.mark.parametrize(
    ("feed", "kind"),
    [
        (lambda pipe: pipe.feed_input("other", BATCH), KeyError),
        (lambda pipe: pipe.feed_input(3, BATCH), TypeError),
        (lambda pipe: pipe.feed_input("numbers", "text"), TypeError),
        (lambda pipe: pipe.feed_input("numbers", [np.zeros(1)] * 9), OperatorError),
        (lambda pipe: pipe.feed_input("numbers", BATCH, layout="HWC"), OperatorError),
        (lambda pipe: pipe.run(other=BATCH), KeyError),
        (lambda pipe: pipe.input_feed_count("other"), KeyError),
        (lambda pipe: pipe.run(), IndexError),
    ],
)
def test_refusals_of_fed_data_belong_to_the_family(feed, kind):
    pipe = source_pipeline(None)
    with pytest.raises(OperatorError) as caught:
        feed(pipe)
    assert isinstance(caught.value, kind) and caught.value.operator == "external_source"


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: fn.readers.file(files=[f"{folder}/none"]),
        lambda folder: fn.readers.file(file_list=f"{folder}/none"),
        lambda folder: fn.readers.numpy(files=[f"{folder}/none"]),
        lambda folder: fn.readers.mxnet(path=[f"{folder}/none"], index_path=[f"{folder}/none"]),
        lambda folder: fn.readers.webdataset(paths=[f"{folder}/none"], ext=["jpg"]),
        lambda folder: fn.readers.coco(file_root=str(folder), annotations_file=f"{folder}/none"),
        lambda folder: fn.readers.nemo_asr(manifest_filepaths=[f"{folder}/none"]),
        lambda folder: fn.readers.caffe(path=f"{folder}/none"),
        lambda folder: fn.experimental.readers.fits(files=[f"{folder}/none"]),
        lambda folder: fn.io.file.read(types.Constant(np.frombuffer(f"{folder}/none".encode(), np.uint8))),
    ],
)
def test_a_missing_file_is_a_file_not_found_error(make, tmp_path):
    @pipeline_def(batch_size=1, num_threads=1)
    def pipeline():
        made = make(tmp_path)
        return tuple(made) if isinstance(made, (list, tuple)) else made

    pipe = pipeline()
    with pytest.raises(FileNotFoundError) as caught:
        pipe.build()
        pipe.run()
    assert isinstance(caught.value, OperatorError) and caught.value.operator
    assert "No such file" in str(caught.value)


@pytest.mark.parametrize(("data", "kinds"), [(3, (TypeError,)), (b"", (ValueError,)), ("x", (ValueError,)), (b"{}", (ValueError,))])
def test_checkpoints_are_refused_by_the_family(data, kinds):
    @pipeline_def(batch_size=1, num_threads=1, enable_checkpointing=True, checkpoint=data)
    def pipeline():
        return fn.random.uniform()

    with pytest.raises(errors.CheckpointError) as caught:
        pipeline().build()
    assert all(isinstance(caught.value, kind) for kind in (RuntimeError, ValueError, *kinds))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda node: node + "text", TypeError),
        (lambda node: node + 2**70, OverflowError),
        (lambda node: node[(0,) * 40], KeyError),
        (lambda node: node["text"], TypeError),
        (lambda node: node[::0], OperatorError),
    ],
)
def test_refusals_of_expressions(make, kind):
    node = types.Constant(np.zeros(3), device="cpu")
    with pytest.raises(OperatorError) as caught:
        make(node)
    assert isinstance(caught.value, kind)
