"""A batch on its way, as the parent sees it: asked for (tickets, tasks, queues), written (slots), answered and put together.

May import the standard library, numpy and this package; never asyncdali.
"""
