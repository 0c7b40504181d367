"""What covers parts of a picture."""
