"""The collector of evidence, which runs on brokers by itself: nothing here imports the library."""
