"""The stages of a round: each turns finished artifacts into one artifact."""
