"""One partition in sentences, a module for each topic: the conclusion from the rows, then the words for it."""
