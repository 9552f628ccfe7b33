"""What Python programs call; the command line is built on it."""
