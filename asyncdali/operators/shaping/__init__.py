"""Operators that change or read shapes: reshape, reinterpret, expand_dims, squeeze, transpose, pad, cat, stack, shapes.

    get_property.py  Layouts and origins of samples as data
    joining.py       The shared part of cat and stack
    node_shape.py    _shape: the shapes of samples as data, for ``DataNode.shape()``

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
