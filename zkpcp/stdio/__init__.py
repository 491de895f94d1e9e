"""The local runtime: one context served over stdio to the program that started it, on the ``mcp`` package (AUTH-43)."""
