"""One table for the whole refinery: what is known of every comparison, what to do with it, and what people decided."""
