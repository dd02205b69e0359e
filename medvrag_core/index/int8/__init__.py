"""Late interaction on whole numbers of one byte: page codes, and the compiled kernels that score them."""
