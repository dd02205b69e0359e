"""Wrong answers: where the evidence was lost, the same by hand, and whether answers rest on the pages they cite."""
