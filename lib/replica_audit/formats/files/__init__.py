"""Files of a snapshot wherever they are stored, listed and read within bounds."""
