"""Draws: the streams, the operators that give them, noise."""
