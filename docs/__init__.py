"""Pages for readers, and `site`, the program that builds a web site of them."""
