"""Which copy of the metadata log is the right one, what each choice loses, and a plan for the best (docs/semantics.md, part I)."""
