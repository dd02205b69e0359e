"""Labels by people and by a judge: relevance of pages, agreement, correction."""
