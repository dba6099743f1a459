"""The report: one HTML file with everything in it, for people who do not query tables."""
