"""What a plan of a run says; :mod:`.plan` makes it."""

from __future__ import annotations

from typing import Literal, Self

from medvrag_core.evaluation.cost.prices import PriceTable
from medvrag_core.evaluation.cost.run_size import RunSize
from medvrag_core.evaluation.cost.unit_costs import Kind, UnitCost
from medvrag_core.evaluation.scale.limits import Limit
from medvrag_core.evaluation.scale.outlook import SizeOutlook
from medvrag_core.records import Record

Stage = Literal["corpus", "summaries", "embedding", "index", "search", "filter", "helper", "reader", "traces"]


class PlanLine(Record):
    """One stage, or one part of it.

    Attributes
    ----------
    amount, unit : how much of it there is
    wall_s : expected seconds of the clock; None where no unit cost is known
    core_s, gpu_s : seconds of one core, and of one GPU, all of them added
    bytes : left on the disk
    kind : how the weakest of the unit costs in ``costs`` is known; ``computed`` where there is none
    """

    stage: Stage
    what: str
    amount: float
    unit: str
    wall_s: float | None = 0.0
    core_s: float = 0.0
    gpu_s: float = 0.0
    bytes: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    kind: Kind | Literal["computed"] = "computed"
    costs: tuple[str, ...] = ()


class Memory(Record):
    """What one place must hold at one time; ``of_gib`` is what there is, where the settings tell."""

    where: str
    what: str
    gib: float
    of_gib: float | None = None


class Checked(Record):
    """One quantity of a finished run, in seconds of the clock or bytes; ``ratio`` is recorded by planned."""

    what: str
    unit: Literal["s", "bytes"]
    planned: float
    recorded: float
    ratio: float | None


class RunPlan(Record):
    """The plan of a run; totals are sums over ``lines``.

    Attributes
    ----------
    wall_hours : of the clock, of all lines whose time is known
    core_hours, gpu_hours : of one core and of one GPU, those of all of them added
    gigabytes : on the disk, 10^9 bytes
    does_not_fit : one sentence a fault, with the field and the way out
    unit_costs : those that the lines used
    checked : beside the records of a run, where one was given
    scale, limits : on how many machines stage 1 fits, and what gives way first, where that was asked
    money, currency : of the GPU hours, where a price was given
    """

    profile: str
    size: RunSize
    lines: tuple[PlanLine, ...]
    wall_hours: float
    core_hours: float
    gpu_hours: float
    gigabytes: float
    memory: tuple[Memory, ...]
    does_not_fit: tuple[str, ...]
    notes: tuple[str, ...]
    unit_costs: dict[str, UnitCost]
    checked: tuple[Checked, ...] = ()
    scale: SizeOutlook | None = None
    limits: tuple[Limit, ...] = ()
    money: float | None = None
    currency: str = ""

    def priced(self, table: PriceTable | None) -> Self:
        """With the money for its GPU hours; none without a table, or where it has no price of them."""
        if table is None or not table.gpu_hour:
            return self
        return self.model_copy(update={"money": self.gpu_hours * table.gpu_hour, "currency": table.currency})
