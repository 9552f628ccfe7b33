"""What we conclude: facts, comparison, bounds, findings, verdict. Pure functions of what a snapshot holds."""
