"""Stage 1: late-interaction search over page vectors, exact and coarse to fine."""
