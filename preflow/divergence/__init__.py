"""Where people disagree: the agreement class of each pair, groups of annotators, and rewards that know their spread."""
