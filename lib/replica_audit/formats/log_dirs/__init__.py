"""Log dirs and their replicas: what names mean, small text files, whose a directory is."""
