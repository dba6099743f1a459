"""The text of --help: plain lines, in sections.

Typer's own boxes need rich, which takes longer to import than all the rest, and say less in 80 columns.
"""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

Row = tuple[str, str]


class SectionedCommand(TyperCommand):
    """A command whose options stand in the sections that their `rich_help_panel` names."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write what there is to choose."""
        _write(formatter, _records(self, ctx))


class SectionedGroup(TyperGroup):
    """A group whose commands do."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands first: whoever asks for help looks for them."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = formatter.width - 6 - max(len(name) for name, _ in commands)
        rows = [
            (getattr(one, "rich_help_panel", None) or "Commands", (name, one.get_short_help_str(width)))
            for name, one in commands
            if not one.hidden
        ]
        _write(formatter, rows)
        _write(formatter, _records(self, ctx))


def _records(command: Any, ctx: Any) -> Iterable[tuple[str, Row]]:
    for param in command.get_params(ctx):
        usual = "Arguments" if param.param_type_name == "argument" else "Options"
        if (record := param.get_help_record(ctx)) is not None:
            yield getattr(param, "rich_help_panel", None) or usual, record


def _write(formatter: Any, rows: Iterable[tuple[str, Row]]) -> None:
    sections: dict[str, list[Row]] = {}
    for section, row in rows:
        sections.setdefault(section, []).append(row)
    for section, those in sections.items():
        with formatter.section(section):
            formatter.write_dl(those)
