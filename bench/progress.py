"""Progress bars on standard error, for programs that take minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""A bar with a name and a number of steps, for the length of a block; it gives what is told of steps."""


@contextmanager
def bars() -> Iterator[Bar]:
    """A place for bars."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        @contextmanager
        def bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
            task = progress.add_task(name, total=total)
            try:
                yield lambda steps: progress.advance(task, steps)
            finally:
                progress.update(task, visible=False)

        yield bar
