"""The pages, one a file, in the order of the navigation."""

from bucketq.dashboard.page import Page
from bucketq.dashboard.pages.brokers import draw_brokers
from bucketq.dashboard.pages.dead import draw_dead
from bucketq.dashboard.pages.entrypoints import draw_entrypoints
from bucketq.dashboard.pages.job import draw_job
from bucketq.dashboard.pages.jobs import draw_jobs
from bucketq.dashboard.pages.overview import draw_overview
from bucketq.dashboard.pages.raw import draw_raw
from bucketq.dashboard.pages.report import draw_report
from bucketq.dashboard.pages.schedules import draw_schedules
from bucketq.dashboard.pages.storage import draw_storage
from bucketq.dashboard.pages.workers import draw_workers

PAGES = (
    Page("/", "Overview", draw_overview, "insights", "o"),
    Page("/entrypoints", "Entrypoints", draw_entrypoints, "category", "e"),
    Page("/jobs", "Jobs", draw_jobs, "list", "j"),
    Page("/jobs/{job_id:path}", "Job", draw_job, parent="/jobs"),
    Page("/dead", "Dead letters", draw_dead, "error_outline", "d"),
    Page("/schedules", "Schedules", draw_schedules, "schedule", "s"),
    Page("/workers", "Workers", draw_workers, "engineering", "w"),
    Page("/brokers", "Brokers", draw_brokers, "hub", "b"),
    Page("/storage", "Storage", draw_storage, "savings", "t"),
    Page("/report", "Report", draw_report, "assessment", "r"),
    Page("/raw", "Raw state", draw_raw, "data_object", "x"),
)
