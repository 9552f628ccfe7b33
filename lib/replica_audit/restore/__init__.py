"""Salvaged records put back into a cluster, each once; the only room that writes to a cluster."""
