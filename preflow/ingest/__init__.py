"""From raw rows in any known format to the canonical tables."""
