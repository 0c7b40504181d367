"""Where DALI's users look for what works with other libraries.

May import any room; a framework only in its own folder.
"""
