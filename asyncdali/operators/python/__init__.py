"""Users' functions."""
