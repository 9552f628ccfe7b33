"""The story of one partition in sentences: who led, who agrees, what differs, what the next truncation does."""
