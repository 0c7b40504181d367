"""Where DALI has its conversions to jax; the iterators do them (``asyncdali.plugin.jax``)."""
