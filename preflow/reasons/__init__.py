"""Why annotators differ on a pair: ten causes in four classes, with evidence, and what stays unexplained."""
