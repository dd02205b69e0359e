"""The paper's numbers as data, and whether what the book says of them is true."""
