"""The engine: a process that makes iterations on request.

    process.py       its life cycle
    server.py        requests to answers
    maker.py         iterations of the part of a program before the cut; also of engines on other machines
    source_calls.py  calls of sources
    spans.py         spans of its work for a trace

May import: what the room may import; ``wire``.
"""
