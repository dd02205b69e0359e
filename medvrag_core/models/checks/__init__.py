"""What the start-up check of model servers looks at, by topic; :mod:`medvrag_core.models.doctor` runs it."""
