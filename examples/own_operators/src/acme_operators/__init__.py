"""Operators of one's own for asyncdali: ``fn.acme.threshold``, ``fn.acme.dropout``."""
