"""The ``medvrag`` command: :mod:`.app` holds the verbs of a run, each other module the verbs of one topic."""
