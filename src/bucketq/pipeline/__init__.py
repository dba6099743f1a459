"""The data pipeline: archive -> bronze -> silver -> gold -> report, on Spark.

    archive objects ──▶ bronze      every line as it is, and where it was; what is unreadable is marked
                        bronze ──▶ silver    a row for each job, typed, by day
                                   silver ──▶ gold      what happened, by entrypoint and time

Each step knows up to where it has come, and replaces whole folders: so a step that is done again
makes the same, and a run that was killed anywhere is simply run again.
"""
