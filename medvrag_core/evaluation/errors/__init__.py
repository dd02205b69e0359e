"""Wrong answers: where the evidence was lost, and whether answers rest on the pages they cite."""
