"""The pages, one a file, in the order of the navigation."""

from bucketq.dashboard.page import Page
from bucketq.dashboard.pages.overview import draw_overview

PAGES = (Page("/", "Overview", draw_overview, "insights", "o"),)
