"""Retrieval measured as such: metrics, recall of each stage, the index against exact search, retrievers in pairs."""
