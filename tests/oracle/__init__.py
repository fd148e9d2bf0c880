"""The vendor's functional model as an oracle of the tests: fetched, run in a child process, never shipped."""
