"""The MCP endpoint: one context's tools for clients of both protocol revisions."""
