"""Reports of a pipeline: its readers, its statistics, and its plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..data_node import DataNode
from ..messages.notices import warn
from .front import Front

if TYPE_CHECKING:
    from ..provenance.page import Page
    from ..provenance.report import Provenance
    from ..runtime.counting.spans import SpanRecording
    from ..runtime.counting.statistics import Statistics
    from ..runtime.repairs.quarantine import BadSample


class Reporting(Front):
    """The part of :class:`~asyncdali.Pipeline` that reports."""

    def external_source_shm_statistics(self) -> dict[str, list[int]]:
        """Shared memory of the worker processes: `capacities` and `per_sample_capacities` in bytes; empty lists without workers."""
        parallel = self._core.processes.parallel
        return {"capacities": [], "per_sample_capacities": []} if parallel is None else parallel.shm_statistics()

    def worker_statistics(self) -> dict[str, Any]:
        """Work of the worker processes: tasks, busy and waiting time, bytes, restarts. Empty without workers."""
        parallel = self._core.processes.parallel
        return {} if parallel is None else parallel.pool.statistics()

    def epoch_size(self, name: str | None = None) -> int | dict[str, int]:
        """Padded epoch size of the reader `name`, or a dict of all readers'. Builds the pipeline. RuntimeError for an unknown name.

        It is an upper bound for a reader before ``fn.experimental.select``, and for data that `on_error` drops.
        """
        if name is not None:
            return int(self.reader_meta(name)["epoch_size_padded"])
        return {reader: meta["epoch_size_padded"] for reader, meta in self.reader_meta().items()}

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """Metadata of the reader `name`, or a dict of all readers'. Builds the pipeline.

        Integers `epoch_size`, `epoch_size_padded`, `number_of_shards`, `shard_id`, `pad_last_batch`, `stick_to_shard`. RuntimeError for an
        unknown name.
        """
        metas = self._core.built().reader_metas()
        for core in self._core.processes.streams.cores():
            metas.update(core.built().reader_metas())
        if name is None:
            return metas
        if name not in metas:
            known = ", ".join(map(repr, metas)) or "none"
            raise RuntimeError(f"Operator {name!r} not found or does not expose valid metadata. Readers of this pipeline: {known}.")
        return metas[name]

    def executor_statistics(self) -> dict[str, Any]:
        """Empty with the default executor; otherwise {operator: memory statistics per output} when `enable_memory_stats`."""
        return self._core.built().memory_statistics()

    def part_epochs(self, name: str | DataNode | None = None) -> list[int]:
        """For each part of ``fn.experimental.mix``, the number of its epochs that have ended.

        It counts batches that were formed so far, also those before a restored checkpoint. `name` as for :meth:`padding`. Builds the
        pipeline. KeyError for an unknown name, RuntimeError without a mix.
        """
        self._core.built()
        return self._core.processes.streams.part_epochs(self._core, name.name if isinstance(name, DataNode) else name)

    def padding(self, name: str | DataNode | None = None) -> float:
        """The part of the cost of all batches of ``fn.experimental.batch_by`` that is padding, from 0 to 1.

        It counts batches that were formed so far, also those before a restored checkpoint. `name` is a result of the batch_by, or its name;
        it may be left out if the pipeline has only one. Builds the pipeline. KeyError for an unknown name, RuntimeError without a batch_by.
        """
        self._core.built()
        return self._core.processes.streams.padding(self._core, name.name if isinstance(name, DataNode) else name)

    def delivered(self, name: str | DataNode | None = None) -> bytes:
        """The order of the batches of ``fn.experimental.ready`` so far, for its argument `replay`: mostly less than a byte per batch.

        It has the batches that were formed so far, also those before a restored checkpoint. `name` as for :meth:`padding`. Builds the
        pipeline. KeyError for an unknown name, RuntimeError without a ready.
        """
        self._core.built()
        return self._core.processes.streams.delivered(self._core, name.name if isinstance(name, DataNode) else name)

    def quarantine(self) -> list[BadSample]:
        """The bad samples that were replaced or dropped, in the order in which they were found, and those of the file `quarantine`.

        Empty with ``on_error="raise"``. Builds the pipeline.
        """
        sessions = [core.built() for core in (*self._core.processes.streams.cores(), self._core)]
        return [entry for session in sessions if session.repairs is not None for entry in session.repairs.quarantine.entries()]

    def provenance(self, step: int, epoch: int | None = None) -> Provenance:
        """The origin of every sample of iteration `step`, past or future: files and records, epochs and shards, draws and crop windows.

        No iteration runs, and no pixel is computed. Steps are counted from 0, the first iteration of a fresh pipeline. Pipelines whose
        sources end epochs count from the beginning of the epoch, and each iteration is taken to have a full batch. Builds the pipeline.
        ``pipe.run()[0].provenance()`` is the provenance of a batch.

        Behind ``fn.experimental.select``, ``mix`` and ``batch_by``, `epoch` is the number of the epoch; None: that of the checkpoint, or 0.
        Conditions and lengths that are computed from pixels run, for at most 1000 raw iterations.

        ValueError for a negative step, and for one behind the end of such an epoch; CheckpointError for a step before that of the restored
        checkpoint, if the pipeline's seed does not lead to the checkpoint, and for one that is too far away; RuntimeError if a condition
        needs data that cannot be asked for again.
        """
        from ..provenance.report import provenance_at
        from .replay.beginnings import check_epoch
        from .replay.behind import provenance_behind

        self._core.refuse_in_callbacks("provenance()")
        self._core.built()
        if self._core.processes.streams:
            return provenance_behind(self._core, step, epoch)
        check_epoch(self._core.built(), epoch)
        return provenance_at(self._core.built(), step)

    def show(
        self, step: int | None = None, sample: int | None = None, *, grid: bool = False, compare: int | None = None,
        epoch: int | None = None,
    ) -> Page:  # fmt: skip
        """Make iteration `step` again, and show its samples after every operator, with their origin, draws, ranges and histograms.

        Returns a page, which notebooks display; ``page.write(path)`` writes it. The steps before are not run, and this pipeline does not
        move. `sample` is the only one that is shown (by default all); `grid` shows only results; `compare` is another step, which is shown
        beside the first one. Without `step`, the first one is made, or that of the restored checkpoint. `epoch` as for
        :meth:`provenance`. ``asyncdali show`` does the same.

        RuntimeError if data comes from the program; CheckpointError for a step that the checkpoint does not lead to; IndexError for a
        sample that does not exist.
        """
        from ..provenance.page import page_of
        from .replay.replaying import replay

        self._core.refuse_in_callbacks("show()")
        made = replay(self, step, None, epoch)
        compared = None if compare is None else replay(self, compare, None, epoch)
        given = [str(made.provenance.step), *([] if sample is None else [str(sample)]), *(["grid=True"] if grid else [])]
        given += [] if compare is None else [f"compare={compare}"]
        given += [] if epoch is None else [f"epoch={epoch}"]
        return page_of(made, f"pipe.show({', '.join(given)})", sample, grid, compared=compared)

    def statistics(self) -> Statistics:
        """Times per segment, operator, source, stream and worker process since the pipeline was built, and the fill of the queue.

        Builds the pipeline if necessary. The difference of two reports describes the time between them:
        ``pipe.statistics().since(earlier)``. RuntimeError with ``enable_statistics=False``.
        """
        return self._core.built().statistics()

    def metrics(self) -> str:
        """The numbers of :meth:`statistics` as text for Prometheus: consumer, queue, operators, segments, sources, memory, processes.

        Serve the text from a page of the program. Builds the pipeline. RuntimeError with ``enable_statistics=False``.
        """
        from ..runtime.counting.metrics import prometheus

        return prometheus(self._core.built().statistics())

    def serve_metrics(self) -> None:
        """Let ``asyncdali top PID`` read the statistics of this pipeline, until it is closed. Builds the pipeline.

        A thread waits on a local socket in a folder that only this user can open. With the environment variable ``ASYNCDALI_TOP=1`` all
        pipelines do this in :meth:`~asyncdali.Pipeline.build`.

        RuntimeError if the folder can be opened by others, and with ``enable_statistics=False``; OSError if there can be no socket.
        """
        self._core.refuse_in_callbacks("serve_metrics()")
        self.statistics()
        self._core.report()

    def record_spans(self, tracer: object = None) -> SpanRecording:
        """Send the work of this pipeline as spans to OpenTelemetry, until ``stop()`` or the end of a ``with`` block. Builds the pipeline.

        `tracer`: a tracer of OpenTelemetry; by default ``get_tracer("asyncdali")`` of the program's provider. Without a recording no span
        is made.

        ModuleNotFoundError without ``opentelemetry-api`` (``pip install asyncdali[opentelemetry]``); RuntimeError with
        ``enable_statistics=False``, and while another trace is recorded.
        """
        from ..runtime.counting.spans import SpanRecording

        self.statistics()
        counters = self._core.built().counters
        assert counters is not None
        return SpanRecording(counters, tracer)

    def output_stream(self) -> int | None:
        """Handle of the native stream on which GPU outputs are ordered; None on the host device. Builds the pipeline."""
        return self._core.built().executor.output_stream()

    def save_graph_to_dot_file(
        self, filename: str | os.PathLike[str], *, show_tensors: bool = False, show_ids: object = None, use_colors: bool = False
    ) -> None:
        """Write the graph that runs as a Graphviz file. `show_tensors` also draws the data, `use_colors` marks the devices. Builds the
        pipeline."""
        if show_ids is not None:
            warn("`show_ids` has no effect: operators are identified by their names", DeprecationWarning)
        from ..graph.dot import dot

        drawn = dot(self._core.built().plan, show_tensors, use_colors)  # before the file is opened: this may fail
        with open(filename, "w", encoding="utf-8") as file:
            file.write(drawn)

    def save_graph_to_svg_file(self, filename: str | os.PathLike[str]) -> None:
        """Draw the plan: one column per stage, one frame per segment. Tooltips show arguments and the user's line. Builds the pipeline."""
        from ..graph.drawing import svg

        drawn = svg(self._core.built().plan)  # before the file is opened: this may fail
        with open(filename, "w", encoding="utf-8") as file:
            file.write(drawn)
