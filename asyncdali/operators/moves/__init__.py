"""Kernels that move elements between strided places, and copies of whole samples. All families of operators use them.

May import what all families of operators may: the contract of operators, `codecs`, `sampling`, `compiled`, `device.launch`, types.
"""
