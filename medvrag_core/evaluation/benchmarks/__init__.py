"""Public question sets: where their files are, how they become questions, and what is wrong with some of them."""
