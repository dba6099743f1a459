"""The text of --help: plain lines, in sections.

Typer's own boxes need rich, which takes longer to import than all the rest, and say less in 80 columns.
"""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

Row = tuple[str, str]


class SectionedCommand(TyperCommand):
    """A command whose options stand in the sections that their `rich_help_panel` names."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as manuals have them: ID, [ID], ID...."""
        return ["[OPTIONS]", *(_usage(one) for one in self.get_params(ctx) if _is_argument(one))]

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


def _usage(argument: Any) -> str:
    name = argument.metavar if argument.required else f"[{argument.metavar}]"
    return name if argument.nargs == 1 else f"{name}..."


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _records(command: Any, ctx: Any) -> Iterable[tuple[str, Row]]:
    for param in command.get_params(ctx):
        if (record := param.get_help_record(ctx)) is None:
            continue
        if _is_argument(param):
            yield "Arguments", (param.metavar, record[1])
        else:
            yield getattr(param, "rich_help_panel", None) or "Options", record


def _write(formatter: Any, rows: Iterable[tuple[str, Row]]) -> None:
    sections: dict[str, list[Row]] = {}
    for section, row in rows:
        sections.setdefault(section, []).append(row)
    for section, those in sections.items():
        with formatter.section(section):
            formatter.write_dl(those)
