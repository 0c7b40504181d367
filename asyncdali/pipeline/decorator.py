"""pipeline_def: turns graph functions into pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, overload

from ..data_node import DataNode
from ..graph.node import Definition
from ..options import option_names, unknown_option
from .front import core_of
from .pipeline import Pipeline


@overload
def pipeline_def(fn: Callable[..., object], **pipeline_arguments: object) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(fn: None = None, **pipeline_arguments: object) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...
def pipeline_def(
    fn: Callable[..., object] | None = None, **pipeline_arguments: object
) -> Callable[..., Pipeline] | Callable[[Callable[..., Any]], Callable[..., Pipeline]]:
    """Turn the graph function `fn` into a function that returns a Pipeline.

    Keyword arguments of the decorator and of the call that name Pipeline arguments go to the Pipeline; the call has priority. Others go to
    the function, whose body runs once, at the call (with ``debug=True`` in every `run`, operator by operator). A returned tuple (or list of
    nodes) gives several outputs, a dict {name: node} named outputs (:attr:`Pipeline.output_names`).

    Raises TypeError for unknown arguments and for functions with ``**kwargs``.
    """
    if fn is None:
        return functools.partial(pipeline_def, **pipeline_arguments)
    if not callable(fn):
        raise TypeError(f"pipeline_def decorates a function, got {type(fn).__name__}")
    function = fn

    @functools.wraps(function)
    def create(*args: object, **kwargs: object) -> Pipeline:
        function_arguments, pipeline_overrides = _route(function, kwargs, pipeline_arguments)
        options = {**pipeline_arguments, **pipeline_overrides}
        rewrites = options.pop("enable_conditionals", False)
        if options.pop("debug", False):
            from .debug.debug_pipeline import DebugPipeline

            return DebugPipeline(function, args, function_arguments, rewrites, **options)
        pipeline = Pipeline(**options)
        with pipeline:
            outputs = outputs_of(pipeline, core_of(pipeline).definition, function, args, function_arguments, rewrites)
        if outputs is not None:
            pipeline.set_outputs(*outputs)
        return pipeline

    create._is_pipeline_def = True  # type: ignore[attr-defined]
    return create


def outputs_of(
    pipeline: Pipeline, definition: Definition, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, Any],
    rewrites: bool,
) -> list[Any] | None:  # fmt: skip
    """Call a graph function. Returns its outputs; None: it has returned None. The pipeline gets the names of a dictionary.

    `rewrites`: conditions may be nodes. TypeError for a dictionary without outputs, or with other keys than texts."""
    if rewrites:
        from .conversion import trace

        returned = trace(definition, function, args, kwargs)
    else:
        returned = function(*args, **kwargs)
    if isinstance(returned, dict):
        if not returned or not all(isinstance(name, str) for name in returned):
            raise TypeError(
                f"{function.__name__} returned a dict with the keys {list(returned)}: expected names (str) of one or more outputs"
            )
        pipeline.output_names, returned = tuple(returned), tuple(returned.values())
    nodes = isinstance(returned, list) and returned and all(isinstance(item, DataNode) for item in returned)
    return None if returned is None else list(returned) if nodes or isinstance(returned, tuple) else [returned]


def _route(function: Callable[..., object], kwargs: dict[str, Any], defaults: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide a call's keyword arguments between the graph function and the Pipeline."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        raise TypeError(f"{function.__name__}: a pipeline function cannot have a variadic keyword argument (**{list(parameters)[-1].name})")
    own = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    known = (*option_names(), "enable_conditionals", "debug")
    to_function, to_pipeline = {}, {}
    for name, value in kwargs.items():
        if name in own:
            to_function[name] = value
            if name in known:
                print(
                    f"Warning: the argument `{name}` shadows a Pipeline constructor argument of the same name; "
                    f"it goes to {function.__name__}() only."
                )
        elif name in known:
            to_pipeline[name] = value
        else:
            raise TypeError(unknown_option(function.__name__, name, sorted(own) + sorted(known)))
    for name in defaults:
        if name not in known:
            raise TypeError(unknown_option("Pipeline", name, sorted(known)))
    return to_function, to_pipeline
