"""Page: one page of the dashboard. Those in the table make the navigation, in this order."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bucketq.dashboard.frame import Frame

Draw = Callable[["Frame"], Awaitable[None] | None]


class Page(NamedTuple):
    """Where it is, what it is called, and what draws it.

    `key` opens it from the keyboard, after a g. One without an icon is not in the navigation; it belongs
    to the page at `parent`.
    """

    path: str
    title: str
    draw: Draw
    icon: str = ""
    key: str = ""
    parent: str = ""
