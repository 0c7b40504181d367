"""Counters, and the reports made of them.

    counters.py, segment_counters.py   counters of a pipeline, and of its segments and operators
    statistics.py                      the report of ``Pipeline.statistics()``
    metrics.py                         the same report as text for Prometheus
    serving.py                         the socket that ``asyncdali top`` asks
    spans.py                           spans for OpenTelemetry
    memory_statistics.py               the report of DALI's ``executor_statistics()``

May import: what the room may import.
"""
