"""One family of errors: whatever an operator, a source or a reader raises is a RuntimeError, and of its own kind as well."""

from __future__ import annotations

import numpy as np
import pytest

from asyncdali import errors, fn, pipeline_def, types
from asyncdali.errors import Explanation, OperatorError, SampleError, operator_error


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
        (OSError("x"), ()),
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
    assert str(made).endswith("encountered:\nx")


def test_fields():
    made = operator_error(Planned, SampleError(2, "bad"), 4, "pic.jpg")
    assert (made.operator, made.name, made.iteration, made.sample, made.source_info) == ("readers.file", "op", 4, 2, "pic.jpg")
    assert made.line == "b.py:7"
    assert operator_error(Planned, ValueError("x"), None).iteration is None


def test_the_family_is_documented():
    family = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OperatorError)]
    assert len(family) == 9 and all(kind.__doc__ for kind in family)


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
def test_what_callers_of_dali_catch(call, kinds):
    """Refusals of DALI that are RuntimeErrors (or what stands beside each), when called, built or run."""

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline():
        return call(types.Constant(np.zeros((2, 3, 1), np.uint8), layout="HWC"))

    with pytest.raises(RuntimeError) as caught:
        pipe = pipeline()
        pipe.build()
        pipe.run()
    assert all(isinstance(caught.value, kind) for kind in kinds), repr(caught.value)
