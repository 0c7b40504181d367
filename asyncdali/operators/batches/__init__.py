"""Operators that choose, reorder or transfer whole samples of a batch: conditionals, permutations, copies between devices.

May import what all families of operators may, and `operators.random` (permutations are drawn).
"""
