"""Files for people and programs: JSON, Markdown, JUnit, metrics, HTML for a notebook, the capture script."""
