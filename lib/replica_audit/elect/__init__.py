"""What each choice of leader costs, which is best, and how it is carried out. Pure functions only."""
