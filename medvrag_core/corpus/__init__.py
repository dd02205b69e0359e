"""From a folder of PDFs to a page store: images, words with boxes, summaries, and a ledger."""
