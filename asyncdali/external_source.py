"""The calls `fn.external_source` and `ops.ExternalSource`, with the checks of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from .compat.ops_attributes import DaliAttributes
from .data_node import DataNode
from .errors import ArgumentTypeError, OperatorError, OperatorValueError, refused
from .graph import node as nodes
from .messages.notices import warn
from .operators.base import Spec
from .sources.external_source import ExternalInput
from .sources.group import Group
from .sources.kinds import SourceKind, get_callback_from_source
from .types import DALIDataType
from .types.conversions import given_dtype

if TYPE_CHECKING:
    from .operators.schema import Schema

_PARALLEL_ONLY = ("prefetch_queue_depth", "bytes_per_sample_hint")


_ONE_NAME = "`num_outputs` is not compatible with `name`: one name cannot stand for several nodes."


@overload
def external_source(
    source: object = None,
    num_outputs: None = None,
    *,
    cycle: object = None,
    name: str | None = None,
    device: str | None = "cpu",
    layout: str | Sequence[str] | None = None,
    dtype: object = None,
    ndim: int | Sequence[int] | None = None,
    cuda_stream: object = None,
    use_copy_kernel: bool | None = None,
    batch: bool | None = True,
    batch_info: bool | None = None,
    repeat_last: bool | None = False,
    parallel: bool | None = None,
    no_copy: bool | None = None,
    prefetch_queue_depth: int | None = None,
    bytes_per_sample_hint: int | None = None,
    blocking: bool | None = None,
    max_concurrency: int | None = None,
    snapshot_every: int | None = None,
    **arguments: object,
) -> DataNode: ...
@overload
def external_source(
    source: object,
    num_outputs: int,
    *,
    cycle: object = None,
    name: str | None = None,
    device: str | None = "cpu",
    layout: str | Sequence[str] | None = None,
    dtype: object = None,
    ndim: int | Sequence[int] | None = None,
    cuda_stream: object = None,
    use_copy_kernel: bool | None = None,
    batch: bool | None = True,
    batch_info: bool | None = None,
    repeat_last: bool | None = False,
    parallel: bool | None = None,
    no_copy: bool | None = None,
    prefetch_queue_depth: int | None = None,
    bytes_per_sample_hint: int | None = None,
    blocking: bool | None = None,
    max_concurrency: int | None = None,
    snapshot_every: int | None = None,
    **arguments: object,
) -> list[DataNode]: ...
@overload
def external_source(
    source: object = None,
    *,
    num_outputs: int,
    cycle: object = None,
    name: str | None = None,
    device: str | None = "cpu",
    layout: str | Sequence[str] | None = None,
    dtype: object = None,
    ndim: int | Sequence[int] | None = None,
    cuda_stream: object = None,
    use_copy_kernel: bool | None = None,
    batch: bool | None = True,
    batch_info: bool | None = None,
    repeat_last: bool | None = False,
    parallel: bool | None = None,
    no_copy: bool | None = None,
    prefetch_queue_depth: int | None = None,
    bytes_per_sample_hint: int | None = None,
    blocking: bool | None = None,
    max_concurrency: int | None = None,
    snapshot_every: int | None = None,
    **arguments: object,
) -> list[DataNode]: ...
def external_source(
    source: object = None,
    num_outputs: int | None = None,
    *,
    cycle: object = None,
    name: str | None = None,
    device: str | None = "cpu",
    layout: str | Sequence[str] | None = None,
    dtype: object = None,
    ndim: int | Sequence[int] | None = None,
    cuda_stream: object = None,
    use_copy_kernel: bool | None = None,
    batch: bool | None = True,
    batch_info: bool | None = None,
    repeat_last: bool | None = False,
    parallel: bool | None = None,
    no_copy: bool | None = None,
    prefetch_queue_depth: int | None = None,
    bytes_per_sample_hint: int | None = None,
    blocking: bool | None = None,
    max_concurrency: int | None = None,
    snapshot_every: int | None = None,
    **arguments: object,
) -> Any:
    """Returns a node whose batches come from Python.

    Args:
        source: an object that is asked in every iteration for a batch (for each sample, with ``batch=False``). One of:

            - an iterable, an iterator or a generator function;
            - a callable without arguments;
            - a callable of the position: an int (batches since the epoch began), a `BatchInfo` (with `batch_info`)
              or a `SampleInfo` (with ``batch=False``). A restored pipeline asks for the next positions, so the data
              must depend on nothing else; a ``state_dict()`` is not asked for;
            - an `async def` callable or an asynchronous iterator, awaited on an event loop of its own;
            - None: the program feeds the node with ``pipe.feed_input`` or ``pipe.run(name=data)``.

            StopIteration ends the epoch.
        num_outputs: the source returns a tuple of this length; the result is a list of nodes.
        cycle: for iterables: "no" (default), "quiet" (start again) or "raise" (end the epoch, then start again).
        name: name of the node for ``feed_input``; not allowed with `num_outputs`.
        device: device of the output, "cpu" or "gpu".
        layout, dtype, ndim: of the samples; one value for all outputs, or a list. Other data is refused.
        cuda_stream: the stream (a handle or an object) on which the source's GPU data is ready. None or -1: the stream
            that the data names, as data of CuPy and torch does. If it names none, the call waits for the copy.
            ``feed_input`` has its own argument.
        use_copy_kernel: accepted, without effect on the result.
        batch: whether the source returns batches: a list of arrays, an array whose first axis counts samples, or a
            TensorList. False: single samples.
        batch_info: callables of batches get a `BatchInfo`.
        repeat_last: fed nodes: if nothing new was fed, use the last batch again.
        parallel: ask the source in worker processes (`py_num_workers`, `py_start_method`). Callables need one argument
            and no state; each iterable runs in one worker.
        no_copy: use the data in place. The data must not change until the iteration is done. Implied by `parallel`.
        prefetch_queue_depth: batches requested ahead (parallel and asynchronous sources); default 1.
        bytes_per_sample_hint: expected size of a sample in bytes (parallel sources).
        blocking: fed nodes: an iteration waits for its data instead of failing.
        max_concurrency: largest number of awaited calls at a time (asynchronous sources of samples); default 32. Of
            sources of batches, `prefetch_queue_depth` calls run at a time.
        snapshot_every: the state of an iterable, or of a callable without arguments, that has ``state_dict()`` and
            ``load_state_dict()`` is saved after this many batches, in pipelines with checkpoints; default 1.

    Returns:
        A DataNode, or a list of DataNodes with `num_outputs`.

    Raises:
        TypeError, ValueError, RuntimeError: at the call, for arguments that contradict each other.

    Example:
        ``images = fn.external_source(lambda: [np.zeros((480, 640, 3), np.uint8)] * 8, layout="HWC")``
    """
    debugged = nodes.debug_definition()
    if debugged is not None:  # debug mode runs the source on the calling thread, so arguments about workers are ignored
        no_copy = None if parallel else no_copy
        parallel = prefetch_queue_depth = bytes_per_sample_hint = None
        arguments = {key: value for key, value in arguments.items() if not _ignored_in_debug(key)}

    def define() -> list[DataNode]:
        return _define(
            source, num_outputs, cycle=cycle, name=name, device=device, layout=layout, dtype=dtype, ndim=ndim, cuda_stream=cuda_stream,
            batch=batch, batch_info=batch_info, repeat_last=repeat_last, parallel=parallel, no_copy=no_copy,
            prefetch_queue_depth=prefetch_queue_depth, bytes_per_sample_hint=bytes_per_sample_hint, blocking=blocking,
            max_concurrency=max_concurrency, snapshot_every=snapshot_every, **arguments,
        )  # fmt: skip

    if debugged is not None:
        return debugged.source(define, num_outputs is not None)
    made = define()
    return made[0] if num_outputs is None else made


def _ignored_in_debug(name: str) -> bool:
    """Whether the input has no argument `name`. As in DALI's debug mode, such an argument is no error there; a warning names it."""
    if name in ExternalInput.schema.by_name:
        return False
    warn(f"external_source has no argument `{name}`: it is ignored in debug mode, and is an error without debug=True", UserWarning)
    return True


def _define(
    source: object, num_outputs: int | None, *, cycle: object, name: str | None, device: str | None, layout: object, dtype: object,
    ndim: object,
    cuda_stream: object, batch: bool | None, batch_info: bool | None, repeat_last: bool | None, parallel: bool | None, no_copy: bool | None,
    prefetch_queue_depth: int | None, bytes_per_sample_hint: int | None, blocking: bool | None, max_concurrency: int | None,
    snapshot_every: int | None, **arguments: object,
) -> list[DataNode]:  # fmt: skip
    """The nodes of one call; arguments as of :func:`external_source`."""
    group = _group(
        source, num_outputs, cycle=cycle, batch=True if batch is None else bool(batch), batch_info=batch_info, parallel=parallel,
        no_copy=no_copy, prefetch_queue_depth=prefetch_queue_depth, bytes_per_sample_hint=bytes_per_sample_hint, repeat_last=repeat_last,
        max_concurrency=max_concurrency, snapshot_every=snapshot_every, cuda_stream=cuda_stream,
    )  # fmt: skip
    if num_outputs is not None:
        if name is not None:
            raise _refused(OperatorError, "num_outputs", _ONE_NAME)
        if group is None:
            raise _refused(OperatorValueError, "num_outputs", "The argument `num_outputs` can only be given with a `source`.")
    elif isinstance(layout, (list, tuple)):
        raise _refused(ArgumentTypeError, "layout", "A list of layouts needs `num_outputs`; without it give one layout as a string.")
    if name is not None and not isinstance(name, str):
        raise _refused(ArgumentTypeError, "name", f"`name` must be a string, got {type(name).__name__}")
    _check_stream(cuda_stream)
    common = {"device": device, "blocking": blocking, "repeat_last": repeat_last, "no_copy": bool(no_copy or parallel), **arguments}
    return [
        _node(group, {**common, "layout": _each(layout, k), "dtype": _dtype(_each(dtype, k)), "ndim": _each(ndim, k), "name": name})
        for k in range(num_outputs or 1)
    ]


def _group(source: Any, num_outputs: int | None, *, parallel: Any, **given: Any) -> Group | None:
    """The checked group of a source; None in push mode."""
    if num_outputs is not None and (isinstance(num_outputs, bool) or not isinstance(num_outputs, int)):
        raise _refused(ArgumentTypeError, "num_outputs", f"`num_outputs` must be an int, got {num_outputs!r}")
    if num_outputs is not None and num_outputs < 1:
        raise _refused(OperatorValueError, "num_outputs", f"`num_outputs` must be at least 1, got {num_outputs}")
    callback, description = get_callback_from_source(source, given["cycle"], bool(given["batch_info"]))
    ahead = bool(parallel) or (description is not None and description.is_async)
    if source is None and parallel:
        raise _refused(OperatorValueError, "parallel", "`parallel=True` needs a `source`: data that is fed comes from this process.")
    for name in _PARALLEL_ONLY:
        value = given[name]
        if value is not None and not (parallel or (ahead and name == "prefetch_queue_depth")):
            raise _refused(OperatorValueError, name, f"The argument `{name}` is valid only for parallel external sources (parallel=True).")
    for name in (*_PARALLEL_ONLY, "max_concurrency", "snapshot_every"):
        value = given[name]
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise _refused(ArgumentTypeError, name, f"`{name}` must be an int, got {value!r}")
        if value is not None and value < 1:
            raise _refused(OperatorValueError, name, f"`{name}` must be at least 1, got {value}")
    if given["max_concurrency"] is not None and not (description is not None and description.is_async):
        raise _refused(OperatorValueError, "max_concurrency", "The argument `max_concurrency` is valid only for asynchronous sources.")
    if given["snapshot_every"] is not None and not (description is not None and description.snapshots and not description.resumable):
        takes = "; this source takes the position as its argument, and has no other state" if description and description.resumable else ""
        raise _refused(
            OperatorValueError, "snapshot_every",
            "The argument `snapshot_every` is valid only for iterables, and for callables without arguments, that have state_dict() and "
            f"load_state_dict(){takes}.",
        )
    if parallel and given["no_copy"] is False:
        raise _refused(
            OperatorValueError, "no_copy",
            "A parallel external source never copies its batches: `no_copy=False` cannot be combined with `parallel=True`.",
        )
    if given["repeat_last"] and source is not None:
        raise _refused(
            OperatorValueError, "repeat_last",
            "The argument `repeat_last` is for data that is fed; it cannot be given with a `source`.",
        )
    if callback is None:
        return None
    return Group(
        callback, description, num_outputs, given["batch"], bool(parallel), given["prefetch_queue_depth"] or 1,
        given["bytes_per_sample_hint"], given["max_concurrency"] or 32, given["snapshot_every"] or 1,
        given["cuda_stream"],
    )  # fmt: skip


def _node(group: Group | None, arguments: dict[str, Any]) -> DataNode:
    if group is not None and group.parallel and _made_by_conversion(group):
        raise _refused(
            OperatorValueError, "source",
            "The source of a parallel external source was made inside a converted pipeline function and cannot be sent to workers: "
            "define it at module level, or mark the function that makes it with @pipeline.do_not_convert.",
        )  # fmt: skip
    instance = nodes.make_one(ExternalInput.schema, (), arguments, None)
    instance.attachment = group
    if group is not None:
        group.nodes.append(instance.name)
    output = instance.outputs[0]
    output.dtype, output.layout = arguments["dtype"], arguments["layout"] or None
    output.ndim = len(output.layout) if output.layout else arguments["ndim"]
    return output


def _made_by_conversion(group: Group) -> bool:
    source = group.description.source
    return bool(getattr(source, "__asyncdali_converted__", False)) and group.description.kind is not SourceKind.ITERABLE


def _each(value: object, k: int) -> object:
    """The value of output k. `value` is one for all outputs, or a list; a list that is too short leaves the rest open."""
    if isinstance(value, (list, tuple)):
        return value[k] if k < len(value) else None
    return value


def _refused(kind: type[OperatorError], argument: str, message: str) -> OperatorError:
    return refused(kind, "external_source", argument, message)


def _dtype(value: object) -> DALIDataType | None:
    if value is None:
        return None
    try:
        kind = given_dtype(value)
    except TypeError as error:
        raise _refused(ArgumentTypeError, "dtype", f"`dtype` must be a DALIDataType (or a numpy type), got {value!r}") from error
    return None if kind is DALIDataType.NO_TYPE else kind


def _check_stream(stream: object) -> None:
    import ctypes

    named = ("__cuda_stream__", "cuda_stream", "ptr", "handle")
    if stream is None or isinstance(stream, ctypes.c_void_p) or any(hasattr(stream, name) for name in named):
        return
    if not hasattr(stream, "__index__") or isinstance(stream, bool):
        raise _refused(
            ArgumentTypeError, "cuda_stream",
            f"cuda_stream must be a stream handle or a stream object, got {type(stream).__name__}",
        )


# ---------------------------------------------------------------------------------------------------------------- class form

_TWICE_RUNTIME = ("source", "layout", "dtype", "ndim", "cuda_stream", "use_copy_kernel")
_TWICE_VALUE = ("batch", "parallel", "no_copy", "batch_info", "prefetch_queue_depth", "bytes_per_sample_hint")


class ExternalSource(DaliAttributes):
    """As :func:`external_source`, in two steps: an object made with arguments, called to make the node(s).

    The call may give arguments that the constructor did not get. `batch` is by default what `parallel` is not. With `num_outputs`
    and without a source the nodes are fed.
    """

    def __init__(
        self,
        source: object = None,
        num_outputs: int | None = None,
        *,
        cycle: object = None,
        layout: object = None,
        name: str | None = None,
        device: str | None = "cpu",
        dtype: object = None,
        ndim: object = None,
        cuda_stream: object = None,
        use_copy_kernel: bool | None = None,
        batch: bool | None = None,
        parallel: bool | None = None,
        no_copy: bool | None = None,
        batch_info: bool | None = None,
        prefetch_queue_depth: int | None = None,
        bytes_per_sample_hint: int | None = None,
        repeat_last: bool | None = False,
        **arguments: object,
    ):
        if name is not None and num_outputs is not None:
            raise _refused(
                OperatorValueError, "num_outputs",
                "`num_outputs` is not compatible with `name`: one name cannot stand for several nodes.",
            )
        self._given = {
            "source": source, "num_outputs": num_outputs, "cycle": cycle, "layout": layout, "name": name, "device": device, "dtype": dtype,
            "ndim": ndim, "cuda_stream": cuda_stream, "use_copy_kernel": use_copy_kernel, "batch": batch, "parallel": parallel,
            "no_copy": no_copy, "batch_info": batch_info, "prefetch_queue_depth": prefetch_queue_depth,
            "bytes_per_sample_hint": bytes_per_sample_hint, "repeat_last": repeat_last, **arguments,
        }  # fmt: skip
        if source is not None or parallel or cycle is not None:
            # Wrong arguments of the constructor are refused there; the source itself is entered when the node is made.
            _check_early(self._given)

    @classmethod
    def _operator_name(cls) -> str:
        return "asyncdali.ops.ExternalSource"

    @property
    def schema(self) -> Schema:
        """The operator's declaration."""
        return ExternalInput.schema

    schema_name = "ExternalSource"
    _schema = ExternalInput.schema
    _underscored_arguments = (
        "batch", "batch_info", "bytes_per_sample_hint", "cuda_stream", "dtype", "layout", "ndim", "no_copy", "num_outputs", "parallel",
        "prefetch_queue_depth", "repeat_last", "use_copy_kernel",
    )  # fmt: skip

    @property
    def device(self) -> str:
        """The device given, or "cpu"."""
        return self._given["device"] or "cpu"

    @property
    def preserve(self) -> bool:
        """Whether it runs even if nothing uses its outputs."""
        return bool(self._given.get("preserve", False))

    @property
    def spec(self) -> Spec:
        """The declaration with the arguments given here that belong to it."""
        given = {key: value for key, value in self._given.items() if value is not None and key in ExternalInput.schema.by_name}
        return Spec(ExternalInput.schema, self._given["name"] or "", self.device, given, (), 0, self._given["num_outputs"] or 1)

    def __call__(self, *, source: object = None, cycle: object = None, name: str | None = None, **arguments: object) -> Any:
        """The node, or the list of nodes."""
        given = {"source": source, **{key: value for key, value in arguments.items() if value is not None}}
        for key, value in given.items():
            if value is None or self._given.get(key) is None:
                continue
            if key in _TWICE_RUNTIME:
                raise _refused(OperatorError, key, f"`{key}` already specified in constructor.")
            if key in _TWICE_VALUE:
                raise _refused(OperatorValueError, key, f"The argument `{key}` was already specified in constructor.")
        if cycle is not None and source is None:
            raise _refused(OperatorValueError, "cycle", "The argument `cycle` can only be given together with a `source`.")
        if name is not None and self._given["num_outputs"] is not None:
            raise _refused(OperatorError, "num_outputs", _ONE_NAME)
        merged = {**self._given, **{key: value for key, value in given.items() if value is not None}}
        merged["cycle"] = self._given["cycle"] if cycle is None else cycle
        merged["name"] = self._given["name"] if name is None else name
        if merged["batch"] is None:
            merged["batch"] = not merged["parallel"]
        count = merged["num_outputs"]
        if merged["source"] is None and count is not None:
            merged["num_outputs"] = None
            return [external_source(**{**merged, **_of_output(merged, k)}) for k in range(count)]
        return external_source(**merged)


def _of_output(arguments: dict[str, object], k: int) -> dict[str, object]:
    return {key: _each(arguments[key], k) for key in ("layout", "dtype", "ndim")}


def _check_early(given: dict[str, object]) -> None:
    if given["repeat_last"] and given["source"] is not None:
        raise _refused(
            OperatorValueError, "repeat_last",
            "The argument `repeat_last` is for data that is fed; it cannot be given with a `source`.",
        )
    if given["parallel"] and given["no_copy"] is False:
        raise _refused(
            OperatorValueError, "no_copy",
            "A parallel external source never copies its batches: `no_copy=False` cannot be combined with `parallel=True`.",
        )
