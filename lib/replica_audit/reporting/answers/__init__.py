"""The answer of a whole audit: headline, doubts, what to do first, and the plan in short."""
