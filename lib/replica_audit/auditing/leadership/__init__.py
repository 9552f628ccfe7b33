"""Leaders of the past and present, and what was committed: high watermark, elections, brokers' own logs, observations."""
