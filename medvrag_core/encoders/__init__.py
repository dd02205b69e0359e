"""From pages and queries to sets of vectors."""
