"""The sample project is run by the tests, as a user would run it; it is no test of this project's own."""

collect_ignore = ["sample"]
