"""The scientific questions, asked of the fluid simulator: who wins where, by how much, and how far from the best."""
