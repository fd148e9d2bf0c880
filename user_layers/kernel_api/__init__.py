"""The kernel API as a table: what each function computes, what it takes and refuses, and what it costs."""
