"""For someone who has a card: a folder to run there, and what the result that comes back says."""
