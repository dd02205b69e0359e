"""Stage 2: sharded map and reduce over page summaries."""
