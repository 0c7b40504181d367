"""Counters, and the reports made of them.

    counters.py, segment_counters.py   counters of a pipeline, and of its segments and operators
    statistics.py                      the report of ``Pipeline.statistics()``
    metrics.py                         the same report as text for Prometheus
    memory_statistics.py               the report of DALI's ``executor_statistics()``

May import: what the room may import.
"""
