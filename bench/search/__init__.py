"""How good and how quick search is, beside engines that see the plaintext."""
