"""The vault: the one place where plaintext meets keys (PCP §9.1). What it opens lives as long as a ``with`` block."""
