"""Filters of images and volumes: every output pixel is made of a neighbourhood."""
