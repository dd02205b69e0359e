"""Late interaction compiled for the processor at hand: on codes of one byte, and on vectors as they are stored."""
