"""Operators that change or read shapes: reshape, reinterpret, expand_dims, squeeze, transpose, pad, cat, stack, shapes.

    cat.py, cat_kernels.py
                     cat: join several inputs along an existing axis
    expand_dims.py   expand_dims: insert axes of extent 1
    get_property.py  Layouts and origins of samples as data
    joining.py       The shared part of cat and stack
    node_shape.py    _shape: the shapes of samples as data, for ``DataNode.shape()``
    pad.py, pad_kernels.py
                     pad: extend samples to equal shape, to a given shape or to aligned extents
    reinterpret.py   reinterpret: view the same bytes as another element type, shape or layout
    reshape.py       reshape: view the same data with another shape or layout
    shapes.py        shapes: the shape of each sample as data
    squeeze.py       squeeze: remove axes of extent 1
    stack.py, stack_kernels.py
                     stack: join several inputs along a new axis
    transpose.py, transpose_kernels.py
                     transpose: permute axes

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
