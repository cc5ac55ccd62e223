"""Small fleets, and the least cost of what is asked of them by an exact solver."""
