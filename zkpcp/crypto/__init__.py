"""The only door to `cryptography`, `nacl` and `argon2`: two symmetric primitives, one public-key wrap, one signature.

Every module answers one question of the key hierarchy (PCP §9.1, user custody, KEY-03 to KEY-06). Secrets go in as
buffers and come out as `bytearray`s that the caller owns and wipes. Randomness is always an argument, with one
exception: HPKE encapsulation in `seal` draws from the library's own generator.

It does NOT promise that CPython leaves no copy behind; it keeps the copies that it makes itself short-lived and
overwritten.
"""
