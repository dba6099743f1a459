"""`bucketq token`: the tokens that let callers in to a broker."""

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from bucketq.cli.durations import duration_of
from bucketq.cli.options import AsJson, one_of
from bucketq.cli.told import tell_json, tell_table

_File = Annotated[str, typer.Option("--file", metavar="FILE", help="The file of the tokens.")]


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, such as web.")],
    role: Annotated[
        list[str],
        typer.Option(
            metavar="viewer|producer|worker|admin",
            help="What it is good for; may be repeated.",
            autocompletion=one_of("viewer", "producer", "worker", "admin"),
        ),
    ],
    expires_in: Annotated[str, typer.Option(metavar="TIME", help="Such as 12h or 90d; else never.")] = "",
    file: Annotated[
        str, typer.Option(metavar="FILE", help="Where to add it; without one, its line is printed.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Make a token, and print its secret, once."""
    from bucketq.broker.token_file import TokenFile
    from bucketq.broker.tokens import new_token

    expires_at = datetime.now(UTC) + duration_of(expires_in, "--expires-in") if expires_in else None
    secret, made = new_token(name, role, expires_at)
    if file:
        TokenFile(file).add(made)
    if as_json:
        tell_json({"secret": secret, "line": made.line})
        return
    # By itself on standard output, so that it can be sent straight to where secrets are kept.
    print(secret)
    if not file:
        print(made.line)
    kept = f"in {file}" if file else "the second line, for the broker"
    print(f"The secret is shown this once. What is kept is its hash: {kept}.", file=sys.stderr)


def list_tokens(file: _File, as_json: AsJson = False) -> None:
    """Tell which tokens there are."""
    from bucketq.broker.token_file import TokenFile

    now = datetime.now(UTC)
    tokens = TokenFile(file).read()
    if as_json:
        tell_json(
            [
                {
                    "name": one.name,
                    "roles": one.role_names.split(","),
                    "expiresAt": one.expires_at,
                    "isExpired": one.is_over(now),
                }
                for one in tokens
            ]
        )
        return
    rows = []
    for one in tokens:
        until = f"{one.expires_at:%Y-%m-%dT%H:%M:%SZ}" if one.expires_at else "never"
        rows.append((one.name, one.role_names, f"{'expired' if one.is_over(now) else 'expires'} {until}"))
    tell_table(("name", "roles", "until"), rows)


def revoke(name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token.")], file: _File) -> None:
    """Let nobody in by this token any more."""
    from bucketq.broker.token_file import TokenFile

    TokenFile(file).revoke(name)
    print(f"revoked: {name}. Brokers that follow {file} know it within about a second.", file=sys.stderr)
