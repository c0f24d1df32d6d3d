"""The console in front of a platform that has run for a year: seeded tables, real processes, every page."""
