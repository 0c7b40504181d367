"""Reductions over axes, and what is made of them."""
