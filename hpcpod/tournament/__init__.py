"""The tournament: it decides which pods survive and which are born. Pure, without torch."""
