"""Functions and methods with conditions on nodes, in another module than the pipeline function that calls them."""

from __future__ import annotations


def pick(c, a, b):
    if c:
        return a
    else:
        return b


def early(c, a, b):
    if c:
        return a + 1
    return b


class Box:
    def __init__(self, fn):
        self.fn = fn
        self.n = 0

    def choose(self, c, a):
        if c:
            self.last = a * 2
        else:
            self.last = a
        self.n += 1
        return self.last

    @staticmethod
    def st(c, a):
        if c:
            r = a + 5
        else:
            r = a
        return r

    @classmethod
    def cm(cls, c, a):
        return cls.st(c, a)

    @property
    def prop(self):
        return self.fn

    def __call__(self, c, a):
        if c:
            return a
        else:
            return a - 1
