"""The training pipeline as users of other loaders would write it."""
