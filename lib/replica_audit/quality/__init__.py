"""Data quality with Great Expectations: suites over the facts of an audit. The only room that imports it."""
