"""`bucketq token`: make, list and revoke the tokens that let callers in to a broker.

    bucketq token new web --role producer --expires-in 90d --file tokens
    bucketq token list --file tokens
    bucketq token revoke web --file tokens

Brokers that were started with `--tokens-file tokens` follow within about a second.
"""

import argparse
import re
import sys
from datetime import UTC, datetime, timedelta

from bucketq.broker.access import Role
from bucketq.broker.token_file import TokenFile
from bucketq.broker.tokens import new_token
from bucketq.errors import ConfigurationError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_token(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    about, _, examples = (__doc__ or "").partition("\n\n")
    group = commands.add_parser(
        "token",
        help="make, list and revoke the tokens of a broker's callers",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = group.add_subparsers(required=True, metavar="ACTION")
    new = actions.add_parser("new", help="make a token, and print its secret, once")
    new.add_argument("name", help="whose it is, such as web")
    new.add_argument(
        "--role",
        action="append",
        required=True,
        choices=[role.value for role in Role],
        help="what it is good for; may be given several times",
    )
    new.add_argument("--expires-in", default="", metavar="TIME", help="such as 12h, 90d or 52w; else never")
    new.add_argument("--file", default="", help="where to add it; without one, its line is printed")
    new.set_defaults(run=_new)
    listing = actions.add_parser("list", help="tell which tokens there are")
    listing.add_argument("--file", required=True, help="the file of the tokens")
    listing.set_defaults(run=_list)
    revoke = actions.add_parser("revoke", help="let nobody in by this token any more")
    revoke.add_argument("name", help="whose token")
    revoke.add_argument("--file", required=True, help="the file of the tokens")
    revoke.set_defaults(run=_revoke)


def _new(options: argparse.Namespace) -> int:
    expires_at = datetime.now(UTC) + _duration(options.expires_in) if options.expires_in else None
    secret, token = new_token(options.name, options.role, expires_at)
    if options.file:
        TokenFile(options.file).add(token)
    # By itself on standard output, so that it can be sent straight to where secrets are kept.
    print(secret)
    if not options.file:
        print(token.line)
    kept = f"in {options.file}" if options.file else "the second line, for the broker"
    print(f"The secret is shown this once. What is kept is its hash: {kept}.", file=sys.stderr)
    return 0


def _list(options: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    for token in TokenFile(options.file).read():
        until = f"{token.expires_at:%Y-%m-%dT%H:%M:%SZ}" if token.expires_at else "never"
        print(
            f"{token.name:20} {token.role_names:30} {'expired' if token.is_over(now) else 'expires'} {until}"
        )
    return 0


def _revoke(options: argparse.Namespace) -> int:
    TokenFile(options.file).revoke(options.name)
    print(
        f"revoked: {options.name}. Brokers that follow {options.file} know it within about a second.",
        file=sys.stderr,
    )
    return 0


def _duration(text: str) -> timedelta:
    found = re.fullmatch(r"([1-9]\d{0,4})([mhdw])", text)
    if found is None:
        raise ConfigurationError("--expires-in takes a number and a unit: 30m, 12h, 90d or 52w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
