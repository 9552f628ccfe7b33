"""Salvaged records put back into a cluster, each once: the only room that talks to one."""
