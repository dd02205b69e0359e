"""Three readings of a reply: strict, MIRAGE-compatible, lenient; of single replies, files and runs."""
