"""What delegates of all frameworks share: verdicts on operations, compiled partitions and their bytes."""
