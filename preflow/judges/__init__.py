"""What a judge's verdicts are worth: against the agreement of people, and as a ranking of systems."""
