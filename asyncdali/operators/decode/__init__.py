"""Pictures from their files."""
