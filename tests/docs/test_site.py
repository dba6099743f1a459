"""The site as `make docs` builds it: whole, and without a network."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from pkgutil import resolve_name
from urllib.parse import unquote

import pytest

import bucketq
from tests.dashboard.browser import browser, opened
from tests.docs.blocks import ROOT

# The modules that say what of them is public.
PUBLIC = (
    *("bucketq", "bucketq.app", "bucketq.spark", "bucketq.storage", "bucketq.testing"),
    *("bucketq.tracing", "bucketq.transfer"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of a site that was built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    # Not --quiet: mkdocs would not count what it does not say.
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


class Fetched(HTMLParser):
    """What a browser fetches by itself to show a page."""

    def __init__(self, page):
        super().__init__()
        self.addresses = []
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.addresses.append(given["href"])
        if tag != "a":
            self.addresses += [given[name] for name in ("src", "data", "poster") if given.get(name)]


def test_nothing_is_fetched_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        addresses = Fetched(page).addresses
        assert addresses
        for address in addresses:
            assert "//" not in address, f"{page.name} fetches {address}"
            if page.name != "404.html":
                assert (page.parent / unquote(address.partition("#")[0].partition("?")[0])).exists(), address
    for sheet in site.rglob("*.css"):
        imported = re.findall(r"@import\s+[\"']?([^\"';]+)|url\([\"']?([^\"')]+)", sheet.read_text())
        for address in (first or second for first, second in imported):
            assert address.startswith("data:") or "//" not in address, f"{sheet.name} fetches {address}"


def test_every_public_name_is_in_the_reference(site):
    told = set()
    for path in told_in(site):
        module, _, name = path.rpartition(".")
        # What is in a class is found with it.
        with suppress(ImportError):
            told.add(id(getattr(import_module(module), name, None)))
    public = {
        f"{room}.{name}": getattr(module, name)
        for room, module in ((room, import_module(room)) for room in PUBLIC)
        for name in module.__all__
    }
    assert len(public) > 100
    assert [name for name, value in public.items() if id(value) not in told] == []


def test_type_checkers_let_every_name_be_imported_from_where_the_reference_has_it():
    pages = (ROOT / "docs/reference").rglob("*.md")
    paths = {path for page in pages for path in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE)}
    assert len(paths) > 50
    for path in paths:
        room, _, name = path.rpartition(".")
        home = str(getattr(resolve_name(path), "__module__", ""))
        is_guest = home.startswith("bucketq") and home != room
        assert not is_guest or name in import_module(room).__all__, path


def test_every_call_of_a_queue_is_in_the_reference(site):
    calls = {f"bucketq.Queue.{name}" for name, value in vars_of(bucketq.Queue) if value.__doc__}
    assert len(calls) > 40
    assert calls - told_in(site) == set()


def test_values_tell_their_fields_and_examples_are_code(site):
    page = unescape(re.sub(r"<[^>]+>", "", (site / "reference/api/jobs.html").read_text()))
    assert (
        "# Who holds the job; by default the host's name and the process id.\nworker: str | None = None"
        in page
    )
    assert "\n>>> job.json()\n" in page
    for page in (site / "reference/api").glob("*.html"):
        # A comment in code would be a heading if its fence were broken.
        assert page.name == "index.html" or not re.search(r'<h[2-6] id="[^"]*">', page.read_text())


def told_in(site):
    """The names that have a heading in the reference."""
    pages = (site / "reference/api").glob("*.html")
    return {path for page in pages for path in re.findall(r'id="([\w.]+)" class="doc', page.read_text())}


def vars_of(kind):
    """What a class offers, its own and inherited."""
    return [
        (name, value)
        for base in kind.__mro__
        for name, value in vars(base).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    ]


async def test_it_is_read_from_a_disk(site):
    async with browser() as chromium, opened(chromium) as page:
        await page.goto((site / "index.html").as_uri())
        for name in await page.locator(".md-tabs__link").all_inner_texts():
            await page.locator(".md-tabs__link", has_text=name.strip()).first.click()
            await page.wait_for_load_state()
            assert await page.locator("h1").count() == 1
        await page.keyboard.press("/")
        await page.keyboard.type("compaction")
        found = page.locator(".md-search-result__link").first
        await found.wait_for()
        await found.click()
        await page.wait_for_load_state()
        assert "compact" in (await page.locator("article").inner_text()).lower()
