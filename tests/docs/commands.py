"""The commands of `bucketq` that are told somewhere, held against what it takes."""

import re
import shlex

from typer.main import get_command

from bucketq.cli.app import app


def commands_in(text):
    """The arguments of each `bucketq` in some lines of shell: piped, chained, with variables before it."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if "bucketq" not in line:
            continue
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command = []
        for word in [*words, ";"]:
            if set(word) <= set("();<>|&"):
                if "bucketq" in command[:1]:
                    yield command[1:]
                command = []
            elif command or not re.match(r"\w+=|sudo$|exec$", word):
                # What comes after `kubectl exec POD --` is a command too.
                command = [] if word == "--" else [*command, word]


def understood(arguments):
    """What the command line makes of some arguments; it raises for flags and values that are none."""
    command, rest = get_command(app), list(arguments)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):
        assert not rest, f"there is no such command: {arguments}"
        assert command.invoke_without_command, f"that is no whole command: {arguments}"
    return command.make_context("bucketq", rest)
