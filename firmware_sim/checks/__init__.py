"""What is wrong although the numbers may be right: checks of commands while they run."""
