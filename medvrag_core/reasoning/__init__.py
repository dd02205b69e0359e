"""The loop of up to three rounds, its memory bank, its prompts and its readers."""
