"""The calls ``fn.experimental.select``, ``mix``, ``batch_by`` and ``ready``, with the checks of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data_node import DataNode
from ..errors import ArgumentTypeError, OperatorError, OperatorTypeError, OperatorValueError, refused
from ..graph import context
from ..graph import node as nodes
from ..graph.node import Definition, OperatorInstance
from ..graph.plan import reachable
from ..operators.base import Role, Schema
from .batch_by import LARGEST_WINDOW, BatchBy, Batching
from .contract import Regrouper
from .mix import STOPS, Mix, Mixing
from .ready import LARGEST_WINDOW as MOST_LATE
from .ready import Ready, Readying
from .regrouping import DeclaredPart, Regrouping
from .select import Select, Selecting


def select(
    *inputs: DataNode, where: DataNode, refill: bool = True, name: str | None = None
) -> DataNode | list[DataNode]:
    """Returns the samples of `inputs` for which `where` is true. The others are left out.

    Batches are filled with the next samples that pass, in order. Operators behind run on full batches, and draw by their
    number. An epoch ends with the last sample of the shard (or of the source), so its last batch may be smaller, and its
    number of samples is known only at its end: `run` raises StopIteration there, and ``pipe.reset()`` begins the next epoch,
    as with sources from Python. ``pipe.epoch_size()`` is an upper bound.

    Everything before belongs to the selection: to use another node of that graph behind, pass it through as an input.

    Args:
        inputs: nodes on the CPU.
        where: one number per sample on the CPU; 0 is false. It may be computed from anything, decoded pixels too.
        refill: False: a batch has what passes of one raw batch, so it may be smaller. A raw batch of which nothing passes
            gives no batch.
        name: name of the result; of several results the k-th is called ``name[k]``.

    Returns:
        A DataNode, or a list of DataNodes for several inputs.

    Raises:
        TypeError, ValueError, RuntimeError: nodes on a GPU or in a branch of a conditional, fed inputs, debug mode.

    Example:
        ``jpegs, labels = fn.experimental.select(jpegs, labels, where=fn.peek_image_shape(jpegs)[0] >= 224)``
    """
    schema = Select.schema
    if not isinstance(where, DataNode):
        raise refused(ArgumentTypeError, schema.name, "where", f"`where` is a node with one number per sample, got {where!r}")
    part = _part(schema, inputs, where, "inputs")
    return _made(schema, [part], Selecting(bool(refill)), name, {"refill": bool(refill)})


def mix(
    parts: Sequence[tuple[DataNode | Sequence[DataNode], float]], *, per: str = "batch", stop: str = "first", name: str | None = None
) -> DataNode | list[DataNode]:
    """Returns samples of several data sets, in fixed shares and in a fixed order.

    Each part has a stream of its own: its order and its draws do not depend on the other parts. Shares are whole thousandths,
    and every window of 1,000 units, wherever it begins, has exactly these shares. A unit is a batch, or a sample.

    ``pipe.set_weights([0.5, 0.5], at=5000)`` changes the weights from batch 5000 of the mix on.

    Args:
        parts: pairs of nodes (one or a list, on the CPU) and weight. All parts have equally many nodes. Weights are numbers
            of at least 0; their sum need not be 1.
        per: "batch": each batch has samples of one part. "sample": parts take turns within a batch.
        stop: the end of an epoch. "first": a part has no more samples; the other parts go on from there in the next epoch.
            "last": each part has come to its end; parts that end earlier begin again. "never": all parts are repeated.
        name: name of the result; of several results the k-th is called ``name[k]``.

    Returns:
        A DataNode, or a list of DataNodes if the parts are lists.

    Raises:
        TypeError, ValueError, RuntimeError: as `select`, and for weights below a thousandth of their sum.

    Example:
        ``jpegs, labels = fn.experimental.mix([(fn.readers.file(file_root=a), 0.7), (fn.readers.file(file_root=b), 0.3)])``
    """
    schema = Mix.schema
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(item, Sequence) and len(item) == 2 for item in parts):
        raise refused(ArgumentTypeError, schema.name, "parts", f"`parts` is a list of pairs (nodes, weight), got {parts!r}")
    if per not in ("batch", "sample"):
        raise refused(OperatorValueError, schema.name, "per", f"`per` must be 'batch' or 'sample', got {per!r}")
    if stop not in STOPS:
        raise refused(OperatorValueError, schema.name, "stop", f"`stop` must be one of {', '.join(map(repr, STOPS))}, got {stop!r}")
    given = [(item[0],) if isinstance(item[0], DataNode) else tuple(item[0]) for item in parts]
    counts = sorted({len(item) for item in given})
    if len(counts) > 1:
        raise refused(OperatorValueError, schema.name, "parts", f"all parts need the same number of nodes, got {counts}")
    weights = [item[1] for item in parts]
    if not all(isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in weights):
        raise refused(ArgumentTypeError, schema.name, "parts", f"weights are numbers, got {weights!r}")
    try:
        regrouper = Mixing(weights, per == "sample", stop)
    except ValueError as error:
        raise refused(OperatorValueError, schema.name, "parts", str(error)) from None
    declared = [_part(schema, item, None, f"part {k}") for k, item in enumerate(given)]
    return _made(schema, declared, regrouper, name, {"per": per, "stop": stop})


def batch_by(
    *inputs: DataNode, length: DataNode, budget: float, window: int = 1024, order_seed: int = 0, name: str | None = None
) -> DataNode | list[DataNode]:
    """Returns the samples of `inputs` in batches of similar length, as many in each batch as a budget allows.

    A batch costs its longest sample times its number of samples, for example tokens, seconds or pixels after padding. The
    samples of a window are sorted by length. From the longest on, each batch takes as many neighbours as cost at most the
    budget, and at most the batch size of the pipeline. The order of the batches in a window is random and fixed. Every
    sample comes once per epoch. ``pipe.padding()`` says how much of the cost was padding.

    A window stays in memory, so select and sort encoded samples, and decode them behind. Ends of epochs are as with `select`.

    Args:
        inputs: nodes on the CPU.
        length: one number per sample on the CPU, at least 0.
        budget: most a batch may cost. A sample that is longer is a batch of its own.
        window: number of samples that are sorted at a time. Larger windows have less padding.
        order_seed: of the order of the batches in a window.
        name: name of the result; of several results the k-th is called ``name[k]``.

    Returns:
        A DataNode, or a list of DataNodes for several inputs.

    Raises:
        TypeError, ValueError, RuntimeError: as `select`, and for a budget or a window that is no number above 0.

    Example:
        ``sounds, texts = fn.experimental.batch_by(sounds, texts, length=seconds, budget=600)``
    """
    schema = BatchBy.schema
    if not isinstance(length, DataNode):
        raise refused(ArgumentTypeError, schema.name, "length", f"`length` is a node with one number per sample, got {length!r}")
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise refused(ArgumentTypeError, schema.name, "budget", f"`budget` is a number, got {budget!r}")
    if not 0 < budget < float("inf"):
        raise refused(OperatorValueError, schema.name, "budget", f"`budget` must be above 0, got {budget!r}")
    for argument, value in (("window", window), ("order_seed", order_seed)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise refused(ArgumentTypeError, schema.name, argument, f"`{argument}` is an int, got {value!r}")
    if not 1 <= window <= LARGEST_WINDOW:
        raise refused(OperatorValueError, schema.name, "window", f"`window` must be from 1 to {LARGEST_WINDOW:,} samples, got {window}")
    if not 0 <= order_seed < 1 << 62:
        raise refused(OperatorValueError, schema.name, "order_seed", f"`order_seed` must be from 0 to 2**62 - 1, got {order_seed}")
    part = _part(schema, inputs, None, "inputs", length)
    rule = Batching(len(inputs), float(budget), window, order_seed, schema.name)
    return _made(schema, [part], rule, name, {"budget": float(budget), "window": window, "order_seed": order_seed})


def ready(
    *inputs: DataNode, window: int = 8, replay: bytes | None = None, name: str | None = None
) -> DataNode | list[DataNode]:
    """Returns the batches of `inputs` in the order in which they are finished. A slow sample delays its own batch only.

    A batch is late by at most `window` batches. Samples, their batches and their draws are those of ``window=0``, which keeps
    the order. Epochs do not mix. The order is noted: ``pipe.delivered()`` returns it, checkpoints have it, and `replay` repeats it.

    Files, decoders and compiled operators work on several batches at the same time, on `num_threads` threads. User functions
    and sources do so with ``engines=N``; sources must be asked by `SampleInfo` then.

    Args:
        inputs: nodes on the CPU.
        window: number of batches that may overtake a batch; 0: none.
        replay: an order that ``pipe.delivered()`` has returned. Batches come in this order, and then as they are finished.
        name: name of the result; of several results the k-th is called ``name[k]``.

    Returns:
        A DataNode, or a list of DataNodes for several inputs.

    Raises:
        TypeError, ValueError, RuntimeError: as `select`, and for a window or an order that is none.

    Example:
        ``images, labels = fn.experimental.ready(images, labels, window=16)``
    """
    schema = Ready.schema
    if isinstance(window, bool) or not isinstance(window, int):
        raise refused(ArgumentTypeError, schema.name, "window", f"`window` is an int, got {window!r}")
    if not 0 <= window <= MOST_LATE:
        raise refused(OperatorValueError, schema.name, "window", f"`window` must be from 0 to {MOST_LATE:,} batches, got {window}")
    if replay is not None and not isinstance(replay, bytes):
        raise refused(ArgumentTypeError, schema.name, "replay", f"`replay` is what pipe.delivered() returns, got {type(replay).__name__}")
    try:
        rule = Readying(window, replay or b"")
    except ValueError as error:
        raise refused(OperatorValueError, schema.name, "replay", str(error)) from None
    made = _made(schema, [_part(schema, inputs, None, "inputs")], rule, name, {"window": window})
    return made


def _made(
    schema: Schema, parts: Sequence[DeclaredPart], regrouper: Regrouper[Any], name: str | None, arguments: dict[str, object]
) -> DataNode | list[DataNode]:
    """The nodes of one call."""
    if name is not None and not isinstance(name, str):
        raise refused(ArgumentTypeError, schema.name, "name", f"`name` must be a string, got {type(name).__name__}")
    group = Regrouping(schema.name, parts, regrouper)
    outputs = []
    count = len(parts[0].nodes)
    for k in range(count):
        own = name if name is None or count == 1 else f"{name}[{k}]"
        instance = nodes.make_one(schema, (), {**arguments, "name": own}, None)
        instance.attachment = group
        group.nodes.append(instance.name)
        output, first = instance.outputs[0], parts[0].nodes[k]
        alike = {(part.nodes[k].ndim, part.nodes[k].dtype, part.nodes[k].layout) for part in parts}
        if len(alike) == 1:
            output.ndim, output.dtype, output.layout = first.ndim, first.dtype, first.layout
        outputs.append(output)
    return outputs[0] if count == 1 else outputs


def _part(schema: Schema, inputs: Sequence[DataNode], where: DataNode | None, what: str, *measures: DataNode) -> DeclaredPart:
    """A part, with its operators taken out of the graph that is being defined."""
    if nodes.debug_definition() is not None:
        raise refused(OperatorError, schema.name, None, f"fn.{schema.name} does not run in debug mode, which runs operators one by one")
    definition = context.definition()
    if not isinstance(definition, Definition):
        raise refused(OperatorError, schema.name, None, f"fn.{schema.name} can only be used inside a pipeline definition")
    scopes = definition.scopes
    if scopes is not None and scopes.current is not scopes.root:
        raise refused(OperatorError, schema.name, None, f"fn.{schema.name} cannot be in a branch of a conditional; use it outside")
    if not inputs:
        raise refused(OperatorValueError, schema.name, None, f"{what}: at least one node is needed")
    given = [*inputs, *measures, *(() if where is None else (where,))]
    for node in given:
        if not isinstance(node, DataNode):
            raise refused(OperatorTypeError, schema.name, None, f"{what}: expected nodes, got {type(node).__name__}")
        if node.device != "cpu":
            raise refused(
                OperatorError, schema.name, None,
                f"{what}: the node {node.name!r} is on the GPU. Samples are chosen on the CPU: use .cpu() before, or move them to the GPU "
                "behind.",
            )  # fmt: skip
    if scopes is not None:
        given = [scopes.bring(node) for node in given]
    order = [item for item in reachable(given, []).order if item.schema.role is not Role.CONSTANT]
    for item in order:
        _check_instance(schema, item, definition)
    count = len(inputs)
    measured = tuple(given[count : count + len(measures)])
    part = DeclaredPart(tuple(given[:count]), where if where is None else given[-1], Definition(definition.options), measured)
    part.definition.adopt(definition, order, part)
    return part


def _check_instance(schema: Schema, item: OperatorInstance, definition: Definition) -> None:
    if item.part is not None:
        raise refused(
            OperatorError, schema.name, None,
            f"the operator {item.name!r} belongs to another fn.experimental.select, mix, batch_by or ready already. Use what that one "
            "returns, or make a reader of its own.",
        )  # fmt: skip
    if item.definition() is not definition:
        raise refused(OperatorError, schema.name, None, f"the operator {item.name!r} was not defined in this pipeline")
    if item.schema.role is Role.INPUT and item.attachment is None:
        raise refused(
            OperatorError, schema.name, None,
            f"the input {item.name!r} is fed by the program, so raw iterations cannot be made as they are needed. Give it a source, or "
            "feed data behind.",
        )  # fmt: skip
