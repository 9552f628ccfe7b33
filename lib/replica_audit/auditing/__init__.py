"""What we conclude: facts, alignment, findings, verdict. Pure functions of what the formats and protocol rooms give."""
