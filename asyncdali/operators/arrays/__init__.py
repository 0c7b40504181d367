"""Tensors of any kind: types, shapes, copies, joins.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
