"""What a reward really pays for: causal audits of rewards by rewriting responses twice (RATE)."""
