"""Nodes for torchdata: ``Loader(ToTorch(DictMapper(Reader(ndd.readers.File, batch_size=64, file_root=...), decode)))``."""

from ...imperative.nodes import DictMapper as DictMapper
from ...imperative.nodes import Reader as Reader
from ...imperative.nodes import ToTorch as ToTorch
