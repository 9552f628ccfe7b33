"""Bronze rows, the evidence put together from them, and answers as rows."""
