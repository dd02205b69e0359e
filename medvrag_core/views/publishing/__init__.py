"""The published book: run the chapters, judge each one, render what passed."""
