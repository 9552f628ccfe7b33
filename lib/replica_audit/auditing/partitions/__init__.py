"""One partition from evidence to conclusion: copies sorted out, what to look at, in one go or in pieces, and what follows."""
