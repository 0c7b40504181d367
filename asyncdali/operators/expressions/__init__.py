"""Arithmetic on nodes, as one loop per tree of operations; indexing."""
