"""index.html: one self-contained page, which unpacks compressed columns and draws them by script."""
