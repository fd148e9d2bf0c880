"""Which firmware boots, the native one itself, and what the code addresses in a firmware mean."""
