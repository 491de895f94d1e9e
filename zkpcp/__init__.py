"""zkpcp: a person's AI context, served to MCP clients and unreadable to the machine that hosts it."""

__version__ = "0.1.0"
