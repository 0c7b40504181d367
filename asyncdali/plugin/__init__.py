"""Plugins for other libraries (PyTorch, JAX, TensorFlow, Paddle, Numba), at the same places as in DALI.

    pytorch/, jax/, tf/, numba/    one folder per framework

    base_iterator.py  The common base of all framework iterators
    epochs.py         Epoch arithmetic: the number of batches of an iterator's epoch, and which samples of the last batch belong to it
    feeding.py        Pipelines that a plugin feeds: each fed batch runs one iteration
    paddle.py         Pipelines in PaddlePaddle: iterators that return Paddle tensors
    triton.py         Decorator for the pipeline definition that a model repository serves

May import any room. A framework is imported only in the folder of its own plugin.
"""
