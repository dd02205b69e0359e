"""``python -m medvrag_core.cli`` is the command ``medvrag``."""

from medvrag_core.cli.app import main

main()
