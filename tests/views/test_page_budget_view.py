from __future__ import annotations

from medvrag_core.encoders.page_budget import READINGS, reading_budgets, resolution_budgets
from medvrag_core.profiles.load import load_profile
from medvrag_core.views.page_budget_view import readings_table, resolution_table

ENCODER = load_profile("a100").encoder


def test_each_reading_stands_with_its_settings_and_sizes() -> None:
    table = readings_table(reading_budgets(ENCODER), caption="computed")
    assert len(table.rows) == len(READINGS)
    assert len(table.columns) == len(table.rows[0])
    by_settings = {row[1]: row for row in table.rows}
    assert by_settings["pool_factor=1"][2:] == ("672 × 868", "128", "744", "736", "190.5", "188.4", "67")
    assert by_settings["pool_factor=7"][2:] == ("672 × 868", "128", "106", "105", "27.1", "26.9", "9")
    assert table.caption == "computed"


def test_each_resolution_stands_with_what_the_model_sees() -> None:
    table = resolution_table(resolution_budgets(ENCODER, (72, 300)))
    assert table.rows[0] == ("US Letter", "72", "612 × 792", "616 × 784", "616", "88")
    assert table.rows[3] == ("A4", "300", "2480 × 3508", "644 × 896", "736", "105")
