"""Errors of a running pipeline: they name operator, the user's line, iteration, sample and file.

Everything that an operator, a source or a reader raises reaches the user as an :class:`OperatorError`, which is a ``RuntimeError``. An
error about a value is also a ``ValueError``, an error about a type also a ``TypeError``, an error of the system also an ``OSError`` (a
missing file: ``FileNotFoundError``). An exception that a source raises stays as it is, as in DALI. Exceptions from worker processes get the
fields of the family. An error belongs to one iteration: the fetch of this iteration raises it, chained to its cause, and the next fetch
continues.

A traceback holds its frames, and through ``f_back`` all callers, also the user's. So nothing that a pipeline refers to keeps a traceback. A
frame that raises an exception from a local variable deletes the variable (``try: raise error; finally: del error``). An error that waits
for a later call loses its frames and keeps the traceback as text (:func:`set_aside`). tests/faults/test_last_reference.py runs with the
garbage collector off.
"""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

Error = TypeVar("Error", bound=BaseException)

WHILE_RUNNING = (
    'Only this iteration failed, and the next run() continues (DALI: "Critical error in pipeline", '
    '"Current pipeline object is no longer valid").'
)
WHILE_BUILDING = (
    'DALI calls this a "Critical error when building pipeline" ("Current pipeline object is no longer valid"). '
    "Correct the cause and build the pipeline again."
)
"""Last lines of an operator's error. Programs search texts for DALI's words to decide whether to rebuild a pipeline or to end."""


class OperatorError(RuntimeError):
    """An operator, a source or a reader failed while the pipeline was built or run.

    Programs for DALI catch RuntimeError, so every such error is a RuntimeError. An error about a value is also a ValueError, an error about
    a type also a TypeError, and so on: see the classes below.

    Attributes:
        operator: the operator's public name ("readers.file").
        argument: the wrong argument, if it is known.
        name: the name of the operator instance in the pipeline.
        iteration: the failed iteration, counted from 0; None while building.
        sample: the sample's number in the batch; None if the whole batch is meant.
        other_samples: more samples that failed, as far as they are known.
        source_info: the file or record of the sample, if it is known.
        line: the last line of the user's program that leads to the operator ("file:number"), if it is known.
    """

    operator: str = ""
    argument: str | None = None
    name: str = ""
    iteration: int | None = None
    sample: int | None = None
    other_samples: tuple[int, ...] = ()
    source_info: str | None = None
    line: str | None = None

    def __str__(self) -> str:  # KeyError's own method would print quotation marks
        return str(self.args[0]) if self.args else ""


class OperatorValueError(OperatorError, ValueError):
    """A value is not allowed."""


class OperatorTypeError(OperatorError, TypeError):
    """A type is not allowed."""


class ArgumentTypeError(OperatorTypeError, ValueError):
    """A constant argument has the wrong type. It is also a ValueError, which programs for DALI catch."""


class InputError(OperatorValueError, OperatorTypeError):
    """An operator does not accept an input: wrong element type, number of dimensions or layout, or inputs that do not fit together.

    It is a ValueError and a TypeError, because DALI raises one or the other, depending on the operator.

    Attributes:
        input: the position of the input; None if an argument is meant.
    """

    input: int | None = None


class OperatorIndexError(OperatorError, IndexError, ValueError):
    """An index or an axis is out of range."""


class OperatorKeyError(OperatorError, KeyError, ValueError):
    """An unknown name. It is also a ValueError, which programs for DALI catch for external_source."""


class OperatorOverflowError(OperatorError, OverflowError):
    """A number does not fit its type."""


class OperatorMemoryError(OperatorError, MemoryError):
    """There is not enough memory."""


class OperatorOSError(OperatorError, OSError):
    """The system refused something: reading a file, starting a process.

    Attributes `errno`, `strerror` and `filename` are those of the system's error.
    """


class OperatorFileNotFoundError(OperatorOSError, FileNotFoundError):
    """A file does not exist."""


class OperatorPermissionError(OperatorOSError, PermissionError):
    """A file may not be opened."""


class CheckpointError(OperatorError, ValueError):
    """A checkpoint that cannot be used: not one, damaged, or of another pipeline. `name` is the operator that it does not fit."""


class CheckpointTypeError(CheckpointError, TypeError):
    """The value given as a checkpoint is neither bytes nor text."""


def refused(kind: type[OperatorError], operator: str, argument: str | None, message: str) -> OperatorError:
    """The error for an argument that an operator does not accept; `argument` is None where data are refused."""
    made = kind(message)
    made.operator, made.argument = operator, argument
    return made


_FAMILY: tuple[tuple[type[Exception], type[OperatorError]], ...] = (
    (IndexError, OperatorIndexError),  # before ValueError: numpy's AxisError is both
    (ValueError, OperatorValueError),
    (TypeError, OperatorTypeError),
    (KeyError, OperatorKeyError),
    (OverflowError, OperatorOverflowError),
    (MemoryError, OperatorMemoryError),
    (FileNotFoundError, OperatorFileNotFoundError),
    (PermissionError, OperatorPermissionError),
    (OSError, OperatorOSError),
)
"""Class that an operator raises -> class that the user gets. All other classes become OperatorError."""


class SampleError(Exception):
    """An error of one sample, with its index in the batch, and the failing operator if a job runs steps of several operators."""

    def __init__(self, sample: int, message: str, owner: Any = None):
        super().__init__(message)
        self.sample = sample
        self.owner = owner
        self.others: tuple[int, ...] = ()
        """More samples that have failed, as far as they are known."""


def refuse_where(wrong: np.ndarray | np.bool_, message: Callable[[int], str]) -> None:
    """Raise SampleError for the first sample that is `wrong`, bool[samples, ...]. `message` gets the index of this sample."""
    if wrong.any():
        samples = len(wrong)  # type: ignore[arg-type]  # numpy's types allow for a single number
        sample = int(wrong.argmax()) // (wrong.size // samples)
        raise SampleError(sample, message(sample))


class SampleValueError(SampleError, ValueError):
    """A value of one sample is not allowed. The message names the sample, because such functions are also called without a pipeline."""

    def __init__(self, sample: int, message: str):
        super().__init__(sample, f"sample {sample}: {message}")


class Explanation(str):
    """The message for a compiled step's status, if the user should get an error of a certain `kind`."""

    kind: type[Exception]

    def __new__(cls, text: str, kind: type[Exception]) -> Explanation:
        made = super().__new__(cls, text)
        made.kind = kind
        return made

    def __add__(self, more: str) -> Explanation:
        return Explanation(str(self) + more, self.kind)


def explained(code: int, text: str) -> str:
    """`text`, the error text of a compiled step: the system's error number `code`, if it is positive.

    The user gets the class of the family that stands beside Python's class for this number.
    """
    return Explanation(text, type(OSError(code, text))) if code > 0 else text


class PipelineClosed(RuntimeError):
    """The pipeline was closed. It cannot run any more."""


def because(error: Exception, cause: BaseException) -> Exception:
    """`error`, caused by `cause`, as the cause of another error. A local variable of the raising frame would make a reference cycle."""
    error.__cause__ = cause
    return error


class RaisedBefore(Exception):
    """The traceback of an error that waited to be raised, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def set_aside(error: Error) -> Error:
    """`error`, to be kept and raised later. Its tracebacks become text, which is shown as the cause of its first cause.

    A traceback refers to all frames up to the program's main frame. A pipeline that kept a traceback would keep itself alive.
    """
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except _FAILURES as failure:  # the exception, or one of its causes, cannot be shown
        lines = "".join(traceback.format_tb(error.__traceback__))
        text = f"Traceback (most recent call last):\n{lines}{type(error).__name__}: {message_of(error)} ({type(failure).__name__})\n"
    seen: set[int] = set()
    _strip(error, seen)
    last: BaseException = error
    while (cause := last.__cause__ or (None if last.__suppress_context__ else last.__context__)) is not None and id(last) in seen:
        seen.discard(id(last))  # a chain of causes may be a cycle
        last = cause
    if last.__cause__ is None and not isinstance(last, RaisedBefore):
        last.__cause__ = RaisedBefore(text)
    return error


def without_tracebacks(error: Error) -> Error:
    """`error`, to be kept and raised later, without its tracebacks, whose frames would stay alive."""
    _strip(error, set())
    return error


def lines_of(error: BaseException) -> list[tuple[str, int]]:
    """(file, line number) of the frames that an error passed, the innermost last. Also works for errors after :func:`set_aside`."""
    found = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, RaisedBefore):
            found += [(name, int(line)) for name, line in re.findall(r'File "([^"]+)", line (\d+)', cause.args[0])]
        cause = cause.__context__ if cause.__cause__ is None else cause.__cause__
    return found


def _strip(error: BaseException, seen: set[int]) -> None:
    """Remove the tracebacks of an error, of its causes, and of the members of groups."""
    if id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = None
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(other, BaseException):
            _strip(other, seen)


def _class_for(error: BaseException) -> type[OperatorError]:
    """The class of the family for this kind of error."""
    error = _of_the_sample(error)
    error = _system_error(error) or error
    kind = error.args[0].kind if error.args and isinstance(error.args[0], Explanation) else type(error)
    if issubclass(kind, OperatorError) and kind.__module__.startswith(f"{__package__}."):
        return kind
    return next((ours for theirs, ours in _FAMILY if issubclass(kind, theirs)), OperatorError)


def _of_the_sample(error: BaseException) -> BaseException:
    """The cause of an error that only names the sample."""
    return error.__cause__ if isinstance(error, SampleError) and error.__cause__ is not None else error


def _system_error(error: BaseException) -> OSError | None:
    """The system's error that `error` is, or that its text describes: plain RuntimeErrors raised from an OSError."""
    while type(error) is RuntimeError and error.__cause__ is not None:
        error = error.__cause__
    return error if isinstance(error, OSError) else None


_FAILURES = (Exception, SystemExit, GeneratorExit)
"""Exceptions that the code of an exception may raise while it is shown. An exit would end a thread that others wait for."""


def message_of(error: BaseException) -> str:
    """The text of an error, without the quotes of a KeyError. If the error cannot show itself, words that say so."""
    try:
        shown = error.args[0] if isinstance(error, KeyError) and error.args else error
        return str.__str__(str(shown))
    except _FAILURES as failure:
        return f"(a {type(error).__name__} whose text cannot be shown: its __str__ raised {type(failure).__name__})"


def operator_error(
    planned: Any, error: BaseException, iteration: int | None, source_info: str | None = None, doing: str = "building"
) -> OperatorError:
    """The exception to raise for `error` in an operator (a ``graph.plan.PlannedOperator``); chain it with ``from error``.

    `iteration` is None where no iteration has failed: `doing` says then what did.
    """
    if isinstance(error, KeyboardInterrupt):
        return OperatorError("interrupted")
    spec = planned.spec
    where = "" if iteration is None else f" in iteration {iteration}"
    if isinstance(error, SampleError):
        where += f", sample {error.sample}"
    if source_info:
        where += f" ({source_info})"
    message = message_of(error)
    trace = f"used in the pipeline definition at:\n{planned.trace}\n" if planned.trace else ""
    head = f"Error while {doing}" if iteration is None else "Error in"
    text = (
        f"{head} {spec.device.upper() if spec.device != 'mixed' else 'mixed'} operator `asyncdali.fn.{spec.schema.name}` "
        f"(name {spec.name!r}){where},\n{trace}encountered:\n{message or type(error).__name__}"
    )
    ending = WHILE_RUNNING if iteration is not None else WHILE_BUILDING if doing == "building" else ""
    if ending and not text.endswith(ending):
        text += f"\n{ending}"
    made = _with_fields(_class_for(error)(text), error, spec.schema.name, source_info)
    made.name, made.iteration, made.line = spec.name, iteration, _last_line(planned.trace)
    return made


def call_error(path: str, operator: str, error: BaseException, source_info: str | None = None) -> OperatorError:
    """The exception to raise for `error` in a call of dynamic mode. `path`: the operator as the user writes it, "ndd.resize"."""
    where = f", sample {error.sample}" if isinstance(error, SampleError) else ""
    if source_info:
        where += f" ({source_info})"
    text = f"{path}{where}: {message_of(error) or type(error).__name__}".replace("`fn.", "`ndd.")
    return _with_fields(_class_for(error)(text), error, operator, source_info)


def _with_fields(made: OperatorError, error: BaseException, operator: str, source_info: str | None) -> OperatorError:
    """`made`, with the fields of the family that `error` tells."""
    made.operator, made.source_info = operator, source_info
    made.sample = error.sample if isinstance(error, SampleError) else None
    made.other_samples = error.others if isinstance(error, SampleError) else ()
    refusal = _system_error(_of_the_sample(error))
    if isinstance(made, OSError) and refusal is not None:
        made.errno, made.strerror, made.filename = refusal.errno, refusal.strerror, refusal.filename
    if isinstance(error, OperatorError):
        made.argument = error.argument
    if isinstance(error, InputError) and isinstance(made, InputError):
        made.input = error.input
    return made


def place(error: Exception, planned: Any, iteration: int | None) -> None:
    """Give an error that comes from elsewhere (a worker process) the fields of the family, as far as it lacks them."""
    fields = {"operator": planned.spec.schema.name, "name": planned.spec.name, "iteration": iteration, "line": _last_line(planned.trace)}
    for name, value in fields.items():
        if getattr(error, name, None) in (None, ""):
            setattr(error, name, value)


def _last_line(trace: str | None) -> str | None:
    """"file:number" of the innermost line of a formatted trace."""
    found = re.findall(r'File "([^"]+)", line (\d+)', trace or "")
    return ":".join(found[-1]) if found else None
