"""A snapshot as a whole: what is in it, and its segments opened whatever they were given as."""
