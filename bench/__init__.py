"""The programs that measure; ``python -m bench`` runs them."""
