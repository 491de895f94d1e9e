"""The ``zkpcp`` command's first step: a server starts itself anew under the wiping allocators, with nothing loaded yet.

Everything else is imported after that, so that the restart costs an empty interpreter and not the program twice.
"""

from __future__ import annotations

import sys

from zkpcp.cli.process import is_wiping, restart_wiping, wants_wiping


def main() -> None:
    """Run the command line."""
    if wants_wiping(sys.argv[1:]) and not is_wiping():
        restart_wiping()
    from zkpcp.cli.commands import app  # noqa: PLC0415 - after the restart, not before it

    app()


if __name__ == "__main__":
    main()
