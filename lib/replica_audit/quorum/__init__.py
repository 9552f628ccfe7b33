"""Choosing among copies of the metadata log: what each choice loses, and a plan for the best (docs/semantics.md, part I)."""
