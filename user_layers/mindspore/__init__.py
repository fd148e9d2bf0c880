"""MindSpore Lite itself: its wheel, the programs and the delegate that are built against it, running models."""
