"""Attributes that few operators have, and facts about an operator's neighbours. The runtime and passes over the graph use them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto

from .steps import HeadScan


class Trait(Flag):
    """Attributes of operators that few classes have; ``Operator.traits``."""

    NONE = 0
    READS_FILES = auto()
    """`prepare` reads local files."""
    READS_TOGETHER = auto()
    """It may read the files of later iterations together with those of an iteration (``iteration.following``)."""
    RUNS_AHEAD = auto()
    """As a mixed operator on a GPU it may make the outputs of one iteration more than `prefetch_queue_depth`."""
    ACTS_OUTSIDE = auto()
    """Making an instance does more than to compile kernels: a reader looks for its files."""
    HANDS_OUT_SAMPLES = auto()
    """Outputs are batches of input samples that stay in place."""
    VIEWS = auto()
    """The output is the input's memory with other shapes or another layout, as DALI documents. Users who write it write the input."""
    HANDS_OVER = auto()
    """An external input that has nothing to plan: its output is the batch that was fed to the iteration."""
    SEES_EMPTY = auto()
    """It is called in a branch without samples, too."""
    PREDICATE_DECIDES = auto()
    """The scope of its argument `predicate` decides in which branch of a conditional it is, not the scopes of all inputs."""
    FEEDS = auto()
    """The output may have a feed (``row_feeds``); see ``graph.peephole.feeds``."""
    TAKES_FEED = auto()
    """It may use the feed of its first input."""
    SCANS_HEADS = auto()
    """It can scan the heads of the files that it reads; see ``graph.peephole.heads``."""
    TAKES_ADDRESSES = auto()
    """`plan` uses the addresses of the samples of its first input, not their contents, also if `inputs_read` names that input."""
    WIDENS = auto()
    """It changes elements to its argument `dtype` and makes about as many; see ``graph.peephole.narrow``."""


@dataclass
class Neighbours:
    """Facts about the operators that read an operator's first output. Passes over the graph set them; results do not depend on them.

    feeds      the output's only reader may use a feed
    kept_by    the number of readers, if all of them keep their results (``Operator.keeps_results``); else 0
    head_scan  the scan that a reader wants (``Operator.wanted_scan``)
    """

    feeds: bool = False
    kept_by: int = 0
    head_scan: HeadScan | None = None
