"""MindSpore Lite itself: its wheel, the delegate and the programs built against it, running models."""
