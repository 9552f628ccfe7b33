"""Conclusions from the rows of an audit, as data: verdict, losses, conditions."""
