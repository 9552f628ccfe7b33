"""What other copies hold and the reference's lineage does not, and how it is taken out."""
