"""Plugins for other libraries (PyTorch, JAX, TensorFlow, Paddle, Numba), at the same places as in DALI.

May import any room. A framework is imported only in the folder of its own plugin.
"""
