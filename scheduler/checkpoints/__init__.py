"""The checkpoints of jobs: which there are, which of them are whole, which may go. See docs/design/010."""
