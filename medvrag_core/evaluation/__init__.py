"""Scoring, paired statistics, retrieval metrics, error taxonomy and latency from stored traces."""
