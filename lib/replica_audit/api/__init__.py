"""What Python programs call."""
