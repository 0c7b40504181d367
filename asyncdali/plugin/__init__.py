"""Where DALI's users look for what works with other libraries."""
