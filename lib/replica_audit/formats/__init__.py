"""Bytes and text to the model: batches, checkpoint files, log directories, describe listings. No Spark here."""
