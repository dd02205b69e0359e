"""Labels by people and by a judge: relevance of pages, classes of errors, agreement, correction."""
