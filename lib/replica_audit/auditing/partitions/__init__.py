"""One partition from evidence to conclusion: copies sorted out, what to look at, and what follows."""
