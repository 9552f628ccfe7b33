"""Choice among copies of the metadata log: the loss of each, and a plan for the best (docs/semantics.md, part I)."""
