"""The composition root: adapters, the real clock and the real entropy meet here and nowhere else."""
