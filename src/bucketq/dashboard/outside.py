"""Outside: pages for those who are not in: to show a token, to wait, to turn back. Plain HTML, no scripts."""

from html import escape
from string import Template

# Nothing but its own style, and a form that goes back to where it came from.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)

_PAGE = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$title · bucketq</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">$again
<link rel="icon" href="$base/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="$base/assets/sign-in.css">
</head>
<body>
<main>
<h1><img src="$base/assets/icon.svg" alt="" width="32" height="32"> bucketq</h1>
<p class="queue">$url</p>
$message$content</main>
</body>
</html>
"""
)
_FORM = Template(
    """<form method="post" action="$base/sign-in">
<label for="token">Token</label>
<input id="token" name="token" type="password" required autofocus autocomplete="current-password"
 spellcheck="false" placeholder="bq_…">
<input type="hidden" name="next" value="$next">
<button type="submit">Sign in</button>
</form>
<p class="hint">The token of a client of this queue; <code>bucketq token new NAME --role viewer</code> makes
one. It stays in the memory of the server, and ends there when you sign out.</p>
"""
)
_AGAIN = '\n<meta http-equiv="refresh" content="3">'


def sign_in_page(base: str, url: str, after: str, message: str) -> bytes:
    """Where a token is shown; with what went wrong last time, if something did."""
    form = _FORM.substitute(base=escape(base), next=escape(after))
    return _page(base, url, "Sign in", message, form)


def away_page(base: str, url: str, reason: str) -> bytes:
    """What is shown while nobody can be let in, because nobody answers; it looks again by itself."""
    told = '<p class="hint">This page looks again every few seconds.</p>\n'
    return _page(base, url, "Out of reach", reason, told, _AGAIN)


def missing_page(base: str) -> bytes:
    """What is shown where there is no page."""
    told = f'<p class="hint"><a href="{escape(base)}/">Overview</a></p>\n'
    return _page(base, "", "No such page", "There is no such page.", told)


def _page(base: str, url: str, title: str, message: str, content: str, again: str = "") -> bytes:
    shown = f'<p class="message" role="alert">{escape(message)}</p>\n' if message else ""
    return _PAGE.substitute(
        base=escape(base), url=escape(url), title=title, message=shown, content=content, again=again
    ).encode()


def way_back(base: str, wanted: str) -> str:
    """Where to go after signing in: to the page that was wanted, if it is one of the dashboard's.

    >>> way_back("/dashboard", "/dashboard/jobs?status=dead"), way_back("/dashboard", "https://example.com")
    ('/dashboard/jobs?status=dead', '/dashboard/')
    """
    is_own = wanted.startswith(f"{base}/") and wanted.isprintable() and "\\" not in wanted
    return wanted if is_own else f"{base}/"
