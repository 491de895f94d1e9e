"""One script per revision; ``schema.TABLES`` describes what they add up to."""
