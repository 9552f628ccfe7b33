"""index.html: one page that asks nobody for anything; its data is columns, compressed, and it draws for itself."""
