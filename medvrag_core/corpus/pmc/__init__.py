"""Articles of PubMed Central: selected, fetched politely, checked, and told where they came from."""
