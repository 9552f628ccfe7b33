"""The cost of each choice of leader, the best choice, and the plan that carries it out. Pure functions only."""
