"""Tensors of any kind: types, shapes, copies, joins."""
