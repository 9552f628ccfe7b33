"""Past and present leaders, and what was committed: high watermark, elections, broker logs, observations."""
