"""One partition in sentences, a module for each thing that is told: what the rows come to, then the words for it."""
