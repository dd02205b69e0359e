"""The ``medvrag`` command: :mod:`.app` lists all verbs, each other module holds those of one topic."""
