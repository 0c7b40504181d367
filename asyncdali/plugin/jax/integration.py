"""DALI's module for conversions to jax. Here the iterators convert (``asyncdali.plugin.jax``)."""
