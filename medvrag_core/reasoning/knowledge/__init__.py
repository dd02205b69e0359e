"""What MedRGAG does between retrieval and reader: summaries, what is missing, documents that are written, selection."""
