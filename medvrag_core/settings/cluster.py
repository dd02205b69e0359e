"""Where the work of a run is done, if not in this process."""

from __future__ import annotations

from pydantic import Field

from medvrag_core.settings.base import StageSettings


class RaySettings(StageSettings):
    """Whether Ray spreads the work, and over what; nothing here can change a result."""

    where: str = Field(
        "", description="empty or off: no Ray; local: a Ray on this machine alone; auto: the cluster that this machine "
        "belongs to; else its address, host:port"
    )  # fmt: skip
    workers: int = Field(0, ge=0, description="processes of one stage; 0: as many as the cluster has room for")
    gpus_per_encoder: float = Field(0.0, ge=0, description="of one worker that encodes; 0: it works on a core")
    index_servers: int = Field(0, ge=0, description="actors that share the segments of the index; 0: it is opened here")
    replicas: int = Field(1, ge=1, description="actors for each part of the index")
    timeout_s: float = Field(120.0, gt=0, description="longest silence of an index server before a query fails")

    @property
    def asked_for(self) -> bool:
        """Whether there is to be a Ray."""
        return self.where not in ("", "off")
