"""Figures, tables, traces and the published book; shows results and computes none."""
