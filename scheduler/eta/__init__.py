"""When waiting jobs will start: learned run times, the real plan rolled forward over them, and how well that went."""
